//! Latencies of the calls between services, by the clocks of both sides.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hist::HistogramWire;

/// Path at which a service starts to time its calls: `?start_unix_ns=...&window_ns=...`. It answers
/// 409 if the window has already started.
pub const WINDOW_PATH: &str = "/tare/window";
/// Path at which a service answers with its [`ServiceCalls`]; 404 without a window.
pub const CALLS_PATH: &str = "/tare/calls";
/// Path at which a service of a feature, such as an authorizer, answers with the number of calls
/// that it has answered.
pub const ANSWERED_PATH: &str = "/tare/answered";

/// `calls.json` of a trial: the calls that the services made and received in the measured window,
/// merged over the instances. It has the calls of every service, or does not exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialCalls {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Start of the measured window.
    pub window_start_unix_ns: u64,
    /// Length of the measured window.
    pub window_ns: u64,
    /// Every service of the graph, in its order.
    pub services: Vec<ServiceCalls>,
}

/// The calls of one service that succeeded. A call belongs to the window in which it started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceCalls {
    /// Name of the service.
    pub service: String,
    /// The callee's view of the calls that it received: from the head of the request until the
    /// connection has taken the whole response for writing.
    pub incoming: Vec<CallLatency>,
    /// The caller's view of the calls that it made: from before the request is written to the
    /// complete response.
    pub outgoing: Vec<CallLatency>,
}

/// The calls of one endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallLatency {
    /// The called service.
    pub service: String,
    /// The called endpoint: the path with HTTP, the method with gRPC.
    pub endpoint: String,
    /// Latencies.
    pub latency: HistogramWire,
}
