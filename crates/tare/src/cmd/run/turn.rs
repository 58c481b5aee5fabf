//! One run at a time on this machine.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use tare_local::turn::{Turn, folder};
use tokio::sync::watch;

use crate::cmd::output::say;

/// Pause between two attempts to take the turn.
const PAUSE: Duration = Duration::from_millis(500);

/// What to do if another run is in progress.
#[derive(clap::Args, Default)]
pub(in crate::cmd) struct Concurrency {
    /// Local environment: if another run is in progress on this machine, wait for its end.
    #[arg(long)]
    wait: bool,
    /// Local environment: run although another run is in progress on this machine. Both disturb
    /// each other; a note in the results of this run names the other one.
    #[arg(long, conflicts_with = "wait")]
    allow_concurrent: bool,
}

/// The turn of a run on this machine.
pub(super) enum Taken {
    Turn(Turn),
    /// Another run has the turn. The text is a note for the results.
    Shared(String),
    /// The user interrupted the wait.
    Interrupted,
}

impl Concurrency {
    /// Takes the turn for the run in `dir`.
    pub(super) async fn take(
        &self,
        dir: &Path,
        mut stop: watch::Receiver<bool>,
    ) -> anyhow::Result<Taken> {
        let mut waiting = false;
        loop {
            let other = match Turn::take(&folder(), dir)? {
                Ok(turn) => return Ok(Taken::Turn(turn)),
                Err(other) => other,
            };
            if self.allow_concurrent {
                let note = "another run was in progress on this machine when this one began";
                return Ok(Taken::Shared(format!("{note}: {other}")));
            }
            if !self.wait {
                bail!(
                    "another run is in progress on this machine: {other}; two runs at once disturb \
                     each other: wait for its end with --wait, or run anyway with --allow-concurrent"
                );
            }
            if !std::mem::replace(&mut waiting, true) {
                say(format_args!(
                    "waiting for the other run on this machine: {other}"
                ));
            }
            tokio::select! {
                _ = stop.wait_for(|s| *s) => return Ok(Taken::Interrupted),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}
