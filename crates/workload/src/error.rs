//! Errors of workload servers.

use std::io;

use tare_plan::graph::GraphError;
use thiserror::Error;

/// Why a workload server could not start or had to stop.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// Another version of the schema.
    #[error("found schema_version {0}, expected {expected}", expected = tare_plan::SCHEMA_VERSION)]
    SchemaVersion(u32),
    /// An inconsistent graph.
    #[error("invalid service graph: {0}")]
    Graph(#[from] GraphError),
    /// A service that is not in the graph.
    #[error("found service {found:?}, expected one of: {expected}")]
    NoService {
        /// The service in the specification.
        found: String,
        /// The services of the graph.
        expected: String,
    },
    /// A service that tare's servers cannot serve.
    #[error(
        "{0:?} is a real datastore (`store`), expected a service without it: `tare run` starts datastores"
    )]
    Store(String),
    /// A called service without an address.
    #[error("no upstream for {0:?}, expected its address under `upstreams`")]
    NoUpstream(String),
    /// An invalid authority of an upstream.
    #[error("invalid authority {0:?}: expected a host name with an optional port")]
    Authority(String),
    /// An invalid path.
    #[error("invalid path {0:?}: expected a URL path with an optional query")]
    Path(String),
    /// The kernel could not create a timer.
    #[error("failed to create a timer: {0}")]
    Timer(io::Error),
    /// The address is not available.
    #[error(
        "failed to listen on {address:?}: {error}; expected a free address:port of this machine"
    )]
    Listen {
        /// The address in the specification or the options.
        address: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// The runtime, a thread or the signal handlers failed to start.
    #[error("failed to start the server: {0}")]
    Start(io::Error),
    /// Unusable certificates.
    #[error(transparent)]
    Tls(#[from] crate::echo::TlsError),
    /// The reader of the records closed its end.
    #[error("failed to write records: {0}")]
    Records(#[source] io::Error),
}
