//! Waits for a state of the cluster.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Repeats `check` every so often until it succeeds, or for at most `within`; then returns its last
/// failure. An outer error ends it at once. `what` is the state, for the log.
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
