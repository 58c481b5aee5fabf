//! Waits for a state of the cluster.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Repeats `check` until it succeeds, with pauses of `every`, or as long as the check took, if that is longer: on a
/// large cluster, checks may take at most half of the time of the API server. Returns its last failure after
/// `within`. Returns an outer error at once. `what` describes the state, for the log.
pub(crate) async fn wait<T, F, E>(
    what: &str,
    every: Duration,
    within: Duration,
    mut check: impl AsyncFnMut() -> Result<Result<T, F>, E>,
) -> Result<Result<T, F>, E> {
    let start = Instant::now();
    loop {
        let begin = Instant::now();
        let checked = check().await?;
        let took = begin.elapsed();
        let elapsed = start.elapsed();
        if checked.is_ok() || elapsed > within {
            tracing::debug!(what, reached = checked.is_ok(), ?elapsed, "waited");
            return Ok(checked);
        }
        sleep(every.max(took)).await;
    }
}
