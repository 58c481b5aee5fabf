//! `tare history --serve`: the page of a history that changes.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use tare_report::{HistoryDir, render_live_history_page};

use crate::cmd::output::say;
use crate::web::{self, Feed};

/// Time between two checks of the directory. Comparing times of files also works on network volumes.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Serves the page of the history in `dir` on a port of 127.0.0.1, or on any free port for 0, until SIGINT, SIGTERM or SIGHUP.
pub(super) fn run(dir: &Path, port: u16) -> anyhow::Result<()> {
    // A wrong directory is an error here, and not on the page.
    HistoryDir::read(dir)?;
    let listener = web::listen(port).with_context(|| {
        format!(
            "failed to listen on port {port} of 127.0.0.1 (choose another port, or --serve without a port for any free one)"
        )
    })?;
    super::super::runtime()?.block_on(serve(dir.to_owned(), listener))
}

async fn serve(dir: PathBuf, listener: std::net::TcpListener) -> anyhow::Result<()> {
    let mut stopped = std::pin::pin!(tare_workload::signals::stopped()?);
    let feed = Feed::new();
    let mut seen = files(&dir);
    let of = dir.clone();
    let server = web::serve(listener, feed.clone(), move || Ok(page(&of)))?;
    say(format_args!("page: {} (stop with Ctrl-C)", server.address));
    loop {
        tokio::select! {
            () = &mut stopped => return Ok(()),
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
        let now = files(&dir);
        if now != seen {
            seen = now;
            feed.page_changed();
        }
    }
}

/// The page. An error is a note on it, so that the page follows the directory until the error is corrected.
fn page(dir: &Path) -> String {
    match super::read(dir) {
        Ok((history, series)) => {
            render_live_history_page(&history.entries, &series, &history.notes)
        }
        Err(error) => render_live_history_page(&[], &[], &[error.to_string()]),
    }
}

/// The JSON and YAML files of a history with their times and sizes.
fn files(dir: &Path) -> Vec<(PathBuf, Option<SystemTime>, u64)> {
    let folders = [dir.to_owned(), dir.join("entries")];
    let all = folders.iter().filter_map(|f| std::fs::read_dir(f).ok());
    let mut files: Vec<_> = all.flatten().flatten().filter_map(|f| state(&f)).collect();
    files.sort();
    files
}

fn state(file: &DirEntry) -> Option<(PathBuf, Option<SystemTime>, u64)> {
    let path = file.path();
    let of_history = path.extension().is_some_and(|e| e == "json" || e == "yaml");
    let metadata = file.metadata().ok().filter(|_| of_history)?;
    Some((path, metadata.modified().ok(), metadata.len()))
}

/// Reads `8080` or `127.0.0.1:8080`.
pub(super) fn port(text: &str) -> Result<u16, String> {
    let port = text.strip_prefix("127.0.0.1:").unwrap_or(text);
    let expected = "expected a port, such as 8080: the page is served on 127.0.0.1 only";
    port.parse().map_err(|_| expected.to_owned())
}
