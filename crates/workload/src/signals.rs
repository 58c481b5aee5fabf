//! The signals that ask a process to stop.

use std::io;

use futures_util::future::select_all;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// SIGINT (Ctrl-C), SIGTERM, and SIGHUP, which a process gets when its terminal is closed. SIGHUP
/// is left out if it is ignored, as below nohup.
#[must_use]
pub fn stopping() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut all = vec![Signal::INT.as_raw(), Signal::TERM.as_raw()];
    let hangup = Signal::HUP.as_raw();
    if !tare_records::signals::is_ignored(&status, hangup) {
        all.push(hangup);
    }
    all
}

/// Returns a future that completes at the first of these signals from now on.
///
/// # Errors
/// When a signal cannot be handled.
pub fn stopped() -> io::Result<impl Future<Output = ()> + use<>> {
    let all = stopping().into_iter();
    let all: io::Result<Vec<_>> = all.map(|s| signal(SignalKind::from_raw(s))).collect();
    let mut all = all?;
    Ok(async move {
        select_all(all.iter_mut().map(|s| Box::pin(s.recv()))).await;
    })
}
