//! The server of a node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tare_records::worker::WorkloadSpec;
use tokio::sync::watch;

use crate::counters::Tally;
use crate::error::WorkloadError;
use crate::events::Events;
use crate::front;
use crate::node::Node;

/// Longest pause between two readiness probes of an upstream.
const PROBE_PAUSE_MAX: Duration = Duration::from_millis(250);
/// Time without readiness after which an event is sent.
const UNREADY_EVENT_AFTER: Duration = Duration::from_secs(5);

/// A running server. Dropping it stops it without waiting.
pub struct Server {
    pub(crate) node: Arc<Node>,
    address: SocketAddr,
    stop: watch::Sender<()>,
    events: Events,
}

impl Server {
    /// Starts to listen and to serve. Needs a running runtime, preferably with one thread. The
    /// second value receives events, each a sentence.
    ///
    /// # Errors
    /// An invalid specification, or an address that is not available.
    pub async fn start(
        spec: &WorkloadSpec,
    ) -> Result<(Self, tokio::sync::mpsc::Receiver<String>), WorkloadError> {
        let (events, received) = Events::channel();
        let node = Arc::new(Node::new(spec, &events)?);
        let (listener, address) = front::bind(&spec.listen).await?;
        let (stop, stopped) = watch::channel(());
        let of_requests = node.clone();
        let answer = move |request| front::answer(of_requests.clone(), request);
        tokio::spawn(front::serve_all(listener, stopped, answer));
        let server = Self {
            node,
            address,
            stop,
            events,
        };
        Ok((server, received))
    }

    /// The address that the server listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until every service that this one calls is ready, then marks it as ready.
    pub async fn ready(&self) {
        let upstreams = &self.node.upstreams;
        let probes = upstreams.iter().map(|(name, upstream)| async move {
            let mut pause = Duration::from_millis(10);
            let mut waited = Duration::ZERO;
            while let Err(why) = front::probe(upstream).await {
                if waited < UNREADY_EVENT_AFTER && waited + pause >= UNREADY_EVENT_AFTER {
                    self.events.send(format!("still waiting for {name}: {why}"));
                }
                waited += pause;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PROBE_PAUSE_MAX);
            }
        });
        join_all(probes).await;
        self.node.ready.store(true, Ordering::Relaxed);
    }

    /// The responses so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.node.counters.tally()
    }

    /// Stops accepting, waits up to a second for requests in flight, and returns all responses.
    pub async fn stop(self) -> Tally {
        let _ = self.stop.send(());
        front::ended(&self.stop).await;
        self.tally()
    }
}
