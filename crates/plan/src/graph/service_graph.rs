//! The parts of a service graph.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::application::Application;
use super::command::Command;
use super::step::{Step, is_one, is_zero, one};
use super::store::{Operation, Store};

/// A service graph: services with their responses and calls, and the endpoints that the
/// load may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "the graph")]
pub struct ServiceGraph {
    /// Name, such as `emojivoto`: lower-case letters, digits and hyphens.
    pub name: String,
    /// Description, with differences from the original application; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Kubernetes objects of your own in the place of tare's servers. Then the services are the entry points that the
    /// load requests. Environment `kubernetes` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
    /// The services. Calls between them must not form a cycle.
    pub services: Vec<Service>,
    /// Named endpoint mixes; `default` is required.
    pub mixes: Vec<Mix>,
}

/// One service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a service")]
pub struct Service {
    /// Name, unique in the graph: lower-case letters, digits and hyphens.
    pub name: String,
    /// Its protocol.
    pub protocol: ServiceProtocol,
    /// Port of the Kubernetes Service, for an entry point of an `application`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// A built-in application instead of synthetic endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<App>,
    /// A program of your own instead of tare's servers. Its endpoints name the paths that may be requested, and
    /// the calls that the program makes for them. Local environment and HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// A real datastore, which tare starts instead of its own server. Each of its endpoints is one operation. Only
    /// for services with the protocol `tcp`; local environment only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<Store>,
    /// Services that a built-in application calls; not for synthetic services, whose endpoints have `calls`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<String>,
    /// Whether it is outside the mesh, such as a datastore: it has no sidecar, unless the mesh has `external: meshed`.
    /// Only for services with the protocol `tcp` that make no calls and that the load does not request. On
    /// Kubernetes it is in the mesh.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Number of replicas, 1 (default) to 16. Only for services that other services call: those that the
    /// load calls have one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub replicas: u32,
    /// Requests whose delay passes at the same time in each replica; the others wait, first come, first
    /// served. The capacity of a replica is this number divided by the mean delay. 0 (default): no limit.
    /// Not for a built-in application.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub concurrency: u32,
    /// Synthetic endpoints; not for a built-in application.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endpoints: Vec<ServiceEndpoint>,
}

/// The gRPC service of synthetic methods. Request and response are messages with one
/// field: number 1, bytes.
pub const SYNTHETIC: &str = "tare.Synthetic";

/// Protocol of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceProtocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/1.1 that is declared as TCP: proxies forward the bytes and do not parse requests.
    Tcp,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
    /// gRPC over HTTP/2, plain.
    Grpc,
}

impl ServiceProtocol {
    /// All protocols, HTTP first.
    pub const ALL: [Self; 4] = [Self::Http, Self::Tcp, Self::Http2, Self::Grpc];

    /// Whether a connection carries several calls at once (HTTP/2).
    #[must_use]
    pub fn has_streams(self) -> bool {
        matches!(self, Self::Http2 | Self::Grpc)
    }

    /// Its name in a graph file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Tcp => "tcp",
            Self::Http2 => "http2",
            Self::Grpc => "grpc",
        }
    }

    /// Its name in messages and pages.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Tcp => "HTTP as TCP",
            Self::Http2 => "HTTP/2",
            Self::Grpc => "gRPC",
        }
    }
}

/// Built-in applications, which use real messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum App {
    /// Emojivoto's HTTP front end.
    EmojivotoWeb,
    /// Emojivoto's emoji service.
    EmojivotoEmoji,
    /// Emojivoto's voting service.
    EmojivotoVoting,
}

/// One synthetic endpoint of a service. For each request, in this order: it draws the error,
/// uses the CPU time, sleeps, makes its calls and responds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an endpoint")]
pub struct ServiceEndpoint {
    /// HTTP path without a query, or gRPC method name (of service `tare.Synthetic`).
    pub path: String,
    /// Response body in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub response_bytes: u32,
    /// What it does if the service is a real datastore: `read` (default) or `write`. Only for services with the
    /// protocol `tcp`; tare's own servers do nothing else for it.
    #[serde(default, skip_serializing_if = "Operation::is_read")]
    pub operation: Operation,
    /// CPU time used per request, in microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cpu_us: u32,
    /// Sleep per request, in microseconds, after the CPU time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_us: u32,
    /// Share of requests answered with 503 (gRPC: UNAVAILABLE) at once, without work or calls,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero_share")]
    pub error_rate: f64,
    /// Calls to other services before the response. A failed call makes the response a 502 or
    /// 503 and skips the steps after its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Step>,
}

impl ServiceEndpoint {
    /// Whether nothing but the path and the calls is set.
    pub(super) fn is_plain(&self) -> bool {
        self.response_bytes == 0 && self.cpu_us == 0 && self.delay_us == 0 && self.error_rate == 0.0
    }
}

fn is_zero_share(v: &f64) -> bool {
    *v == 0.0
}

/// A named selection of endpoints for the load, per instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a mix")]
pub struct Mix {
    /// Name, such as `default` or `kinvolk-2019`.
    pub name: String,
    /// The endpoints.
    pub endpoints: Vec<MixEndpoint>,
}

/// One endpoint of a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an endpoint of a mix")]
pub struct MixEndpoint {
    /// Label in results; several paths may share one and are then reported together.
    pub name: String,
    /// Name of the service.
    pub service: String,
    /// Path and query, or gRPC method name.
    pub path: String,
    /// HTTP method, not for gRPC. Default: GET.
    #[serde(default = "get", skip_serializing_if = "is_get")]
    pub method: String,
    /// Request body in bytes; not for built-in applications.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub request_bytes: u32,
    /// Relative share, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub weight: u32,
}

fn get() -> String {
    "GET".to_owned()
}

fn is_get(v: &str) -> bool {
    v == "GET"
}

impl App {
    /// Its protocol.
    #[must_use]
    pub fn protocol(self) -> ServiceProtocol {
        match self {
            Self::EmojivotoWeb => ServiceProtocol::Http,
            Self::EmojivotoEmoji | Self::EmojivotoVoting => ServiceProtocol::Grpc,
        }
    }

    /// The paths that it serves; for a gRPC application, the methods that take an empty message.
    #[must_use]
    pub fn paths(self) -> &'static [&'static str] {
        match self {
            Self::EmojivotoWeb => &[
                "/",
                "/leaderboard",
                "/api/list",
                "/api/vote",
                "/api/leaderboard",
            ],
            Self::EmojivotoEmoji => &["ListAll"],
            Self::EmojivotoVoting => &[
                "Results",
                "VoteJoy",
                "VoteSunglasses",
                "VoteGhost",
                "VoteRocket",
                "VotePizza",
                "VoteTada",
                "VoteFire",
                "VoteCat",
                "VoteRainbow",
                "VoteDog",
            ],
        }
    }

    /// The gRPC service that its methods belong to; `None` for an HTTP application.
    #[must_use]
    pub fn grpc_service(self) -> Option<&'static str> {
        match self {
            Self::EmojivotoWeb => None,
            Self::EmojivotoEmoji => Some("emojivoto.v1.EmojiService"),
            Self::EmojivotoVoting => Some("emojivoto.v1.VotingService"),
        }
    }

    /// The applications that it calls.
    #[must_use]
    pub fn needs(self) -> &'static [App] {
        match self {
            Self::EmojivotoWeb => &[Self::EmojivotoEmoji, Self::EmojivotoVoting],
            Self::EmojivotoEmoji | Self::EmojivotoVoting => &[],
        }
    }

    /// Its name in a graph file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EmojivotoWeb => "emojivoto-web",
            Self::EmojivotoEmoji => "emojivoto-emoji",
            Self::EmojivotoVoting => "emojivoto-voting",
        }
    }
}

impl ServiceGraph {
    /// The service of that name.
    #[must_use]
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|s| s.name == name)
    }

    /// Whether a service is outside the mesh.
    #[must_use]
    pub fn has_external(&self) -> bool {
        self.services.iter().any(|s| s.external)
    }

    /// Whether a service is a program of the user.
    #[must_use]
    pub fn has_commands(&self) -> bool {
        self.services.iter().any(|s| s.command.is_some())
    }

    /// Whether a program of the user has a network of its own.
    #[must_use]
    pub fn has_own_networks(&self) -> bool {
        let mut commands = self.services.iter().filter_map(|s| s.command.as_ref());
        commands.any(|command| command.network.is_own())
    }

    /// The mix of that name.
    #[must_use]
    pub fn mix(&self, name: &str) -> Option<&Mix> {
        self.mixes.iter().find(|m| m.name == name)
    }

    /// Names of the services that `service` calls, each once, in the order of their first mention;
    /// empty for an unknown service.
    #[must_use]
    pub fn callees(&self, service: &str) -> Vec<&str> {
        let Some(service) = self.service(service) else {
            return Vec::new();
        };
        let steps = service.endpoints.iter().flat_map(|e| &e.calls);
        let called = steps.flat_map(|s| &s.parallel).map(|c| &c.service);
        let mut names: Vec<&str> = Vec::new();
        for name in service.uses.iter().chain(called) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }
}
