//! Service graphs: the applications that tare puts under load, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A service graph: services, what they answer and whom they call, and the
/// endpoints that the load may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceGraph {
    /// Name, as `emojivoto`.
    pub name: String,
    /// The services. Calls between them must form no cycle.
    pub services: Vec<Service>,
    /// Named endpoint mixes; `default` must be there.
    pub mixes: Vec<Mix>,
}

/// One service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Name, unique in the graph.
    pub name: String,
    /// What it speaks.
    pub protocol: Protocol,
    /// A built-in application in the place of synthetic endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<App>,
    /// Services that a built-in application calls (a synthetic service's calls tell by themselves).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// Synthetic endpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<ServiceEndpoint>,
}

/// What a service speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// gRPC over HTTP/2, plain.
    Grpc,
}

/// Applications that are code, not data: their messages are real.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// Emojivoto's HTTP front.
    EmojivotoWeb,
    /// Emojivoto's emoji service.
    EmojivotoEmoji,
    /// Emojivoto's voting service.
    EmojivotoVoting,
}

/// One synthetic endpoint of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceEndpoint {
    /// HTTP path, or gRPC method name.
    pub path: String,
    /// Response body in bytes.
    #[serde(default)]
    pub response_bytes: u32,
    /// CPU time burnt per request, in microseconds.
    #[serde(default)]
    pub cpu_us: u32,
    /// Time slept per request, in microseconds, after the CPU time.
    #[serde(default)]
    pub delay_us: u32,
    /// Share of requests answered with 503 (gRPC: UNAVAILABLE), 0 to 1.
    #[serde(default)]
    pub error_rate: f64,
    /// Whom it calls before it answers.
    #[serde(default)]
    pub calls: Vec<Step>,
}

/// One step of an endpoint's calls: all of `parallel` at once; steps follow each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Calls made at once.
    pub parallel: Vec<Call>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Called service.
    pub service: String,
    /// Its endpoint's path.
    pub path: String,
    /// Request body in bytes.
    #[serde(default)]
    pub request_bytes: u32,
    /// How many times, in sequence.
    #[serde(default = "one")]
    pub times: u32,
}

fn one() -> u32 {
    1
}

/// A named selection of endpoints for the load, per instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Name, as `default` or `kinvolk-2019`.
    pub name: String,
    /// The endpoints.
    pub endpoints: Vec<MixEndpoint>,
}

/// One endpoint of a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixEndpoint {
    /// Label in results; several paths may share one and are then reported together.
    pub name: String,
    /// Which service (HTTP).
    pub service: String,
    /// Path and query.
    pub path: String,
    /// Method; GET by default.
    #[serde(default = "get")]
    pub method: String,
    /// Relative share, at least 1.
    #[serde(default = "one")]
    pub weight: u32,
}

fn get() -> String {
    "GET".to_owned()
}
