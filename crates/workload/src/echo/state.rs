//! State that all connections of a thread share.

use std::sync::{Arc, Mutex, PoisonError};

use tare_stats::rng::Rng;

use super::knobs::{Drawn, Knobs};
use super::metrics::Metrics;
use super::services::Services;
use crate::queue::Queue;
use crate::timer::Timer;

/// The state of one thread.
pub(crate) struct WorkerState {
    pub(crate) shared: Arc<Shared>,
    pub(crate) services: Services,
    timer: Arc<Timer>,
    rng: Mutex<Rng>,
}

/// State that all threads share.
pub(crate) struct Shared {
    /// The knobs of requests that set none.
    pub(crate) defaults: Knobs,
    pub(crate) queue: Queue,
    pub(crate) metrics: Metrics,
    /// Seed of the random choices.
    pub(crate) seed: u64,
}

impl WorkerState {
    /// The state of thread number `thread`; call it on the thread's runtime.
    pub(crate) async fn new(shared: Arc<Shared>, thread: u64) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            services: Services::new().await?,
            timer: Timer::start()?,
            rng: Mutex::new(Rng::stream(shared.seed, thread)),
            shared,
        }))
    }

    /// Draws one case of these knobs; those that are not set use the server's defaults.
    pub(crate) fn draw(&self, knobs: Knobs) -> Drawn {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        knobs.or(&self.shared.defaults).draw(|| rng.next_f64())
    }

    /// Waits for a free place in the queue, and then for the delay of the request.
    pub(crate) async fn serve(&self, delay_ns: u64) {
        self.timer.serve(&self.shared.queue, delay_ns).await;
    }
}
