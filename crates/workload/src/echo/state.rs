//! State that all connections of a thread share.

use std::sync::{Arc, Mutex, PoisonError};

use tare_model::rng::Rng;

use super::grpc::Services;
use super::knobs::{Drawn, Knobs};
use super::metrics::Metrics;
use super::queue::Queue;
use crate::timer::{Timer, now_ns};

/// The state of one thread; values in an `Arc` are shared by all threads.
pub(crate) struct WorkerState {
    /// The knobs of requests that set none.
    pub(crate) defaults: Arc<Knobs>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) services: Services,
    pub(crate) timer: Arc<Timer>,
    rng: Mutex<Rng>,
}

/// The parts of a [`WorkerState`] that all threads share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) defaults: Arc<Knobs>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) seed: u64,
}

impl WorkerState {
    /// The state of thread number `thread`; call it on the thread's runtime.
    pub(crate) async fn new(shared: &Shared, thread: u64) -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            defaults: Arc::clone(&shared.defaults),
            queue: Arc::clone(&shared.queue),
            metrics: Arc::clone(&shared.metrics),
            services: Services::new().await?,
            timer: Timer::start()?,
            rng: Mutex::new(Rng::stream(shared.seed, thread)),
        }))
    }

    /// Draws one case of these knobs; those that are not set use the server's defaults.
    pub(crate) fn draw(&self, knobs: Knobs) -> Drawn {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        knobs.or(&self.defaults).draw(|| rng.next_f64())
    }

    /// Waits for a free server place, and then for the delay of the request.
    pub(crate) async fn serve(&self, delay_ns: u64) {
        let now_ns = now_ns();
        let done_ns = self.queue.done_ns(now_ns, delay_ns);
        if done_ns > now_ns {
            self.timer.sleep_until(done_ns).await;
        }
    }
}
