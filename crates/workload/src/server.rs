//! One service of one instance, served.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use tare_model::graph::{GraphError, ServiceProtocol};
use tare_model::worker::WorkloadSpec;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::counters::Tally;
use crate::events::Events;
use crate::listen;
use crate::node::Node;
use crate::own;

/// How long requests in flight may take after the end was asked for.
const GRACE: Duration = Duration::from_secs(1);
/// Longest pause between two questions whether an upstream is ready.
const PROBE_PAUSE_MAX: Duration = Duration::from_millis(250);
/// An upstream that is not ready for so long is worth an event.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

/// Why a workload server could not start.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// Written by another version.
    #[error("found schema_version {0}, expected {expected}", expected = tare_model::SCHEMA_VERSION)]
    SchemaVersion(u32),
    /// The graph does not fit together.
    #[error("the service graph is wrong: {0}")]
    Graph(#[from] GraphError),
    /// A service that the graph does not have.
    #[error("found service {found:?}, expected one of: {expected}")]
    NoService {
        /// What was written.
        found: String,
        /// The graph's services.
        expected: String,
    },
    /// A called service whose address is missing.
    #[error("no upstream for {0:?}, expected its address under `upstreams`")]
    NoUpstream(String),
    /// An upstream's authority that is none.
    #[error("found authority {0:?}, expected a host name, perhaps with a port")]
    Authority(String),
    /// A path that cannot be requested.
    #[error("found path {0:?}, expected one that can be requested")]
    Path(String),
    /// The kernel refused a timer.
    #[error("cannot create a timer: {0}")]
    Timer(io::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address:?}: {error}; expected a free address:port of this machine")]
    Listen {
        /// What was written.
        address: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The runtime or the signals could not be set up.
    #[error("cannot start the server: {0}")]
    Start(io::Error),
    /// Certificates that cannot be served.
    #[error(transparent)]
    Tls(#[from] crate::echo::TlsError),
    /// The reader of the records went away.
    #[error("cannot write records: {0}")]
    Records(#[source] io::Error),
}

/// A running server. Dropping it stops it without waiting.
pub struct Server {
    node: Arc<Node>,
    address: SocketAddr,
    stop: watch::Sender<()>,
    events: Events,
}

impl Server {
    /// Listens and serves from now on. Needs a running runtime, best of one
    /// thread. What happens is said on the second value, in sentences.
    ///
    /// # Errors
    /// Whatever in the specification does not fit, an address that is not free.
    pub async fn start(
        spec: &WorkloadSpec,
    ) -> Result<(Self, tokio::sync::mpsc::Receiver<String>), WorkloadError> {
        let (events, received) = Events::channel();
        let node = Arc::new(Node::new(spec, &events)?);
        let refused = |error| WorkloadError::Listen {
            address: spec.listen.clone(),
            error,
        };
        let listener = TcpListener::bind(&spec.listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let protocol = spec
            .graph
            .service(&spec.service)
            .map_or(ServiceProtocol::Http, |s| s.protocol);
        let (stop, stopped) = watch::channel(());
        tokio::spawn(listen::accept(listener, node.clone(), protocol, stopped));
        let server = Self {
            node,
            address,
            stop,
            events,
        };
        Ok((server, received))
    }

    /// The address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns when every service that it calls has said that it is ready; from
    /// then on it says so itself.
    pub async fn ready(&self) {
        let upstreams = &self.node.upstreams;
        let asked = upstreams.iter().map(|(name, upstream)| async move {
            let mut pause = Duration::from_millis(10);
            let mut waited = Duration::ZERO;
            while let Err(why) = own::probe(upstream).await {
                if waited < PROBE_PATIENCE && waited + pause >= PROBE_PATIENCE {
                    self.events.say(format!("still waiting for {name}: {why}"));
                }
                waited += pause;
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PROBE_PAUSE_MAX);
            }
        });
        join_all(asked).await;
        self.node.ready.store(true, Ordering::Relaxed);
    }

    /// What was answered so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.node.counters.tally()
    }

    /// Stops accepting, lets requests in flight end for a second, and says what
    /// was answered in all.
    pub async fn stop(self) -> Tally {
        let _ = self.stop.send(());
        let _ = tokio::time::timeout(GRACE, self.stop.closed()).await;
        self.node.counters.tally()
    }
}
