//! The specification of a generator.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::mask::masked;
use super::transport::TlsSpec;

/// The specification of one generator: the JSON document that `tare load --spec -`
/// reads from standard input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Where requests go. At least one.
    pub endpoints: Vec<Endpoint>,
    /// Open loop at a rate, or closed-loop saturation.
    pub mode: Mode,
    /// Closed loop: pause between a response and the next request on its connection or stream.
    #[serde(default, skip_serializing_if = "is_zero_ns")]
    pub think_ns: u64,
    /// Length of the measured window.
    pub duration_ns: u64,
    /// Warm-up: the same load before the window, excluded from results.
    pub warmup_ns: u64,
    /// A request not complete this long after its *intended* instant is a timeout.
    pub timeout_ns: u64,
    /// How long after the window pending requests may still complete. Default: the timeout, so
    /// that every request completes or times out.
    pub drain_ns: Option<u64>,
    /// Connections in all, spread evenly over the origins (at least one for each).
    pub connections: u32,
    /// Most concurrent requests on one HTTP/2 connection; the peer may allow fewer.
    #[serde(default = "one_stream", skip_serializing_if = "is_one_stream")]
    pub streams: u32,
    /// Event-loop threads.
    pub threads: u32,
    /// How the generator waits for the next slot.
    pub pace: Pace,
    /// Seed of arrivals and of the order of endpoints.
    pub seed: u64,
    /// When the warm-up starts. Default: as soon as the connections are open.
    pub start_unix_ns: Option<u64>,
    /// This generator's part of the schedule.
    pub shard: Shard,
    /// TLS of the https endpoints. Default: [`TlsSpec::default`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// A connection is closed after this number of requests. The next one is opened when a
    /// slot is due, whose latency includes the time to open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u32>,
    /// Whether each event loop is pinned to a core of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pin: bool,
    /// Whether the cores of the generator's machine are prevented from sleeping.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awake: bool,
    /// One in this number of requests also gets kernel timestamps; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kernel_timestamps_every: u32,
    /// Addresses on loopback, by name, from which a worker reads JSON documents of its own
    /// proxy after the load. See `ProxySettings` of the records.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_config: BTreeMap<String, String>,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn is_zero_ns(n: &u64) -> bool {
    *n == 0
}

fn one_stream() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_one_stream(streams: &u32) -> bool {
    *streams == 1
}

/// One generator of several takes every `count`-th slot, from slot `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// From 0.
    pub index: u32,
    /// At least 1.
    pub count: u32,
}

impl Default for Shard {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}

/// Where and what to request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Label in results. Endpoints of one name are reported together.
    pub name: String,
    /// Protocol of the connection.
    #[serde(default, skip_serializing_if = "Protocol::is_http1")]
    pub protocol: Protocol,
    /// Request method. A gRPC call is a POST, regardless of this value.
    pub method: String,
    /// `http://authority/path?query`, or `https://`. The authority is the Host header and,
    /// without `connect`, the address. The path of a gRPC call is
    /// `/package.Service/Method`.
    pub url: String,
    /// `host:port` to connect to instead of the URL's authority: a sidecar's
    /// outbound port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect: Option<String>,
    /// Additional request headers, in order; for a gRPC call, its metadata.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Request body, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    /// Request messages of a gRPC call, in order, each base64 and without its length prefix.
    /// Exactly one if the kind of call sends one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages_base64: Vec<String>,
    /// Settings of a gRPC call.
    #[serde(default, skip_serializing_if = "GrpcCall::is_default")]
    pub grpc: GrpcCall,
    /// Relative share of the slots, at least 1.
    pub weight: u32,
}

/// Protocol of a connection. Endpoints of one origin share connections only if their
/// protocols are compatible (a gRPC call is an HTTP/2 request).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// HTTP/1.1, one request at a time.
    #[default]
    Http1,
    /// HTTP/2; on `http://` by prior knowledge.
    Http2,
    /// gRPC over HTTP/2.
    Grpc,
}

impl Protocol {
    /// Whether this is HTTP/1.1.
    #[must_use]
    pub fn is_http1(&self) -> bool {
        *self == Self::Http1
    }
}

/// Settings of a gRPC call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrpcCall {
    /// Which side sends how many messages.
    #[serde(default)]
    pub streaming: Streaming,
    /// Deadline sent to the server as `grpc-timeout`, which the server counts from the arrival
    /// of the call. The generator's own limit is [`LoadSpec::timeout_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
}

impl GrpcCall {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The four kinds of gRPC calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Streaming {
    /// One request message, one response message.
    #[default]
    Unary,
    /// All request messages, one response message.
    Client,
    /// One request message, any number of response messages.
    Server,
    /// Alternating: each message is sent after the response to the previous one; the last one
    /// ends the request.
    Bidi,
}

impl Streaming {
    /// Whether the client sends exactly one message.
    #[must_use]
    pub fn one_request(self) -> bool {
        matches!(self, Self::Unary | Self::Server)
    }

    /// Whether the server sends exactly one message with a call that succeeds.
    #[must_use]
    pub fn one_response(self) -> bool {
        matches!(self, Self::Unary | Self::Client)
    }
}

/// Open or closed loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Mode {
    /// Slots planned from the clock.
    Open {
        /// Slots per second over all shards, as a mean over the window.
        rate_rps: f64,
        /// Distribution of the intended instants.
        arrivals: Arrivals,
    },
    /// Each connection sends the next request after each response. Finds the maximum
    /// throughput; its latency is not that of a rate. Labelled as such everywhere.
    Saturate,
}

impl Mode {
    /// A copy without the instants of a trace, for results.
    #[must_use]
    pub fn without_instants(&self) -> Self {
        match self {
            Self::Open { rate_rps, arrivals } => Self::Open {
                rate_rps: *rate_rps,
                arrivals: arrivals.without_instants(),
            },
            Self::Saturate => Self::Saturate,
        }
    }
}

/// How the generator waits for the next slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// Sleep in the kernel until shortly before the slot, then spin. At rates with shorter gaps,
    /// sleep for the rest of the gap without spinning; the kernel's delay counts as lateness.
    #[default]
    Sleep,
    /// Never sleep: uses a whole core, for the best precision.
    Spin,
}

const TIMEOUT_NS: u64 = 10_000_000_000;
const CONNECTIONS: u32 = 10;

impl Endpoint {
    /// A GET request of `url` over HTTP/1.1, named by the [`masked`] URL, without additional headers.
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        let url = url.into();
        Self {
            name: masked(&url),
            protocol: Protocol::Http1,
            method: "GET".into(),
            url,
            connect: None,
            headers: Vec::new(),
            body_base64: None,
            messages_base64: Vec::new(),
            grpc: GrpcCall::default(),
            weight: 1,
        }
    }
}

impl LoadSpec {
    /// A window of `duration_ns` without a warm-up: one thread that sleeps, 10 connections,
    /// a timeout of 10 s, the whole schedule, started when the connections are open; no TLS
    /// settings, no kernel timestamps, no proxy documents.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>, mode: Mode, duration_ns: u64) -> Self {
        Self {
            schema_version: crate::SCHEMA_VERSION,
            endpoints,
            mode,
            think_ns: 0,
            duration_ns,
            warmup_ns: 0,
            timeout_ns: TIMEOUT_NS,
            drain_ns: None,
            connections: CONNECTIONS,
            streams: 1,
            threads: 1,
            pace: Pace::Sleep,
            seed: 1,
            start_unix_ns: None,
            shard: Shard::default(),
            tls: None,
            requests_per_connection: None,
            pin: false,
            awake: false,
            kernel_timestamps_every: 0,
            proxy_config: BTreeMap::new(),
        }
    }

    /// The specification of one generator, from the one that all [`Shard::count`] generators share: its part of the
    /// schedule and of the connections. Only the first generator reads the documents of its proxy.
    ///
    /// Returns `None` if `index` is not below the number of generators.
    #[must_use]
    pub fn of_generator(mut self, index: u32) -> Option<Self> {
        let count = self.shard.count;
        let more = self.connections.checked_rem(count)?;
        self.connections = self.connections / count + u32::from(index < more);
        self.shard.index = index;
        if index > 0 {
            self.proxy_config.clear();
        }
        (index < count).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_share_the_connections_and_the_schedule() {
        let mode = Mode::Open {
            rate_rps: 100.0,
            arrivals: Arrivals::Constant,
        };
        let shared = LoadSpec {
            connections: 8,
            shard: Shard { index: 0, count: 3 },
            start_unix_ns: Some(7),
            proxy_config: BTreeMap::from([("dump".to_owned(), "http://127.0.0.1:1/".to_owned())]),
            ..LoadSpec::new(Vec::new(), mode, 1)
        };
        let of = |index| shared.clone().of_generator(index);
        let all: Vec<LoadSpec> = (0..3).filter_map(of).collect();
        let connections: Vec<u32> = all.iter().map(|s| s.connections).collect();
        assert_eq!(connections, [3, 3, 2]);
        assert!(
            all.iter()
                .all(|s| s.start_unix_ns == Some(7) && s.mode == shared.mode)
        );
        assert_eq!(all[2].shard, Shard { index: 2, count: 3 });
        let asks: Vec<bool> = all.iter().map(|s| !s.proxy_config.is_empty()).collect();
        assert_eq!(asks, [true, false, false]);
        assert_eq!(of(3), None);
    }
}
