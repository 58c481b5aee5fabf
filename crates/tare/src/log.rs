//! The log of tare's actions on standard error, which `-v` and `TARE_LOG` enable.

use anyhow::{Context as _, ensure};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The variable that selects what is logged: a level, or `target=level` pairs separated by commas.
const VARIABLE: &str = "TARE_LOG";

/// Starts the log. Workers do not log: their standard error is part of the trial, and logging would
/// use CPU time that is measured.
///
/// # Errors
/// When `TARE_LOG` is not valid.
pub(crate) fn start(verbose: u8) -> anyhow::Result<()> {
    if tare_local::is_worker() {
        return Ok(());
    }
    let filter = match std::env::var(VARIABLE) {
        Ok(text) if !text.is_empty() => filter(&text)?,
        _ => match verbose {
            0 => return Ok(()),
            1 => own(LevelFilter::DEBUG),
            2 => own(LevelFilter::TRACE),
            _ => Targets::new().with_default(LevelFilter::TRACE),
        },
    };
    let lines = fmt::layer()
        .with_writer(crate::terminal::err)
        .with_ansi(false)
        .with_target(false)
        .with_timer(fmt::time::uptime());
    tracing_subscriber::registry()
        .with(lines)
        .with(filter)
        .init();
    Ok(())
}

/// Returns the filter that selects tare's own crates.
fn own(level: LevelFilter) -> Targets {
    let crates = [
        "tare",
        "tare_run",
        "tare_local",
        "tare_cluster",
        "tare_load",
        "tare_report",
    ];
    Targets::new().with_targets(crates.map(|name| (name, level)))
}

fn filter(text: &str) -> anyhow::Result<Targets> {
    // A level alone means tare's own crates, as with -v.
    if let Ok(level) = text.parse::<LevelFilter>() {
        return Ok(own(level));
    }
    let expected = || {
        format!(
            "invalid {VARIABLE} {text:?}: expected off, error, warn, info, debug or trace, \
             or pairs such as tare_cluster=debug,hyper=trace"
        )
    };
    ensure!(text.split(',').all(|pair| pair.contains('=')), expected());
    text.parse().with_context(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_or_pairs_are_accepted_and_a_mistake_is_explained() {
        let debug = filter("debug").unwrap();
        assert!(debug.would_enable("tare_local", &tracing::Level::DEBUG));
        assert!(!debug.would_enable("hyper", &tracing::Level::ERROR));
        let pairs = filter("hyper=trace").unwrap();
        assert!(pairs.would_enable("hyper::client", &tracing::Level::TRACE));
        let error = filter("loud").unwrap_err().to_string();
        assert!(error.contains("expected off, error, warn"), "{error}");
        assert!(filter("hyper=loud").is_err());
    }
}
