//! Waits for a state of the cluster.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Repeats `check`, with pauses of `every`, until it succeeds. Returns its last failure after
/// `within`. Returns an outer error at once. `what` describes the state, for the log.
pub(crate) async fn wait<T, F, E>(
    what: &str,
    every: Duration,
    within: Duration,
    mut check: impl AsyncFnMut() -> Result<Result<T, F>, E>,
) -> Result<Result<T, F>, E> {
    let start = Instant::now();
    loop {
        let checked = check().await?;
        let elapsed = start.elapsed();
        if checked.is_ok() || elapsed > within {
            tracing::debug!(what, reached = checked.is_ok(), ?elapsed, "waited");
            return Ok(checked);
        }
        sleep(every).await;
    }
}
