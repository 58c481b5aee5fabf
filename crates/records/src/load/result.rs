//! What a generator measured.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::instrument::{InstrumentError, TlsResult};
use crate::verdict::Verdict;
use tare_plan::limits;
use tare_plan::load::{Mode, Shard};
use tare_stats::wire::{HistogramWire, LatencySummary};

/// The accounting of slots: `planned = ok + error + timeout + in_flight + not_sent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Slots of the schedule in the measured window.
    pub planned: u64,
    /// Complete responses with a status of 100 to 399; of gRPC calls, those with a
    /// `grpc-status` of 0.
    pub ok: u64,
    /// Ended by an error of any class except a timeout.
    pub error: u64,
    /// Not complete within the timeout.
    pub timeout: u64,
    /// Sent, and still open when the generator ended.
    pub in_flight: u64,
    /// Never sent: the generator ended first.
    pub not_sent: u64,
}

impl Counts {
    /// Whether every slot is accounted for.
    #[must_use]
    pub fn identity_holds(&self) -> bool {
        // Counts from a file may have any value: an overflow must not make them fit.
        let outcomes = self.outcomes().into_iter();
        let ended = outcomes.map(|(_, n)| n).try_fold(0, u64::checked_add);
        ended == Some(self.planned)
    }

    /// The slots by outcome.
    #[must_use]
    pub fn outcomes(&self) -> [(&'static str, u64); 5] {
        [
            ("ok", self.ok),
            ("error", self.error),
            ("timeout", self.timeout),
            ("in_flight", self.in_flight),
            ("not_sent", self.not_sent),
        ]
    }

    /// Adds another generator's or interval's counts.
    pub fn add(&mut self, other: &Self) {
        let add = |mine: &mut u64, theirs: u64| *mine = mine.saturating_add(theirs);
        add(&mut self.planned, other.planned);
        add(&mut self.ok, other.ok);
        add(&mut self.error, other.error);
        add(&mut self.timeout, other.timeout);
        add(&mut self.in_flight, other.in_flight);
        add(&mut self.not_sent, other.not_sent);
    }
}

/// Why a request failed. The snake-case names are the keys of `errors`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// The name did not resolve.
    Dns,
    /// The connection was refused.
    ConnectRefused,
    /// The connection attempt ended in any other way (unreachable, timed out).
    ConnectFailed,
    /// The peer reset the connection.
    Reset,
    /// The peer closed the connection before the response was complete.
    Closed,
    /// The bytes were not a response.
    BadResponse,
    /// Complete response, status 400 to 499.
    Status4xx,
    /// Complete response, status 500 or above.
    Status5xx,
    /// A gRPC call that ended with a `grpc-status` other than 0.
    GrpcStatus,
    /// The peer reset the stream, not the connection.
    StreamReset,
    /// The peer closed the connection with GOAWAY before it processed this request. Requests
    /// are not sent again.
    GoAway,
    /// Not complete within the timeout; counted in `timeout`, not in `error`.
    Timeout,
    /// Timed out before it was sent: no connection was free, or the generator was delayed for
    /// longer than the timeout (then lateness is high); counted in `timeout`.
    TimeoutUnsent,
    /// The TLS handshake failed, or a TLS error followed; see the result's `tls`.
    Tls,
    /// This machine had no free port, file descriptor or memory for a connection.
    LocalShortage,
}

impl ErrorClass {
    /// All classes, in the order of their discriminants.
    pub const ALL: [Self; 15] = [
        Self::Dns,
        Self::ConnectRefused,
        Self::ConnectFailed,
        Self::Reset,
        Self::Closed,
        Self::BadResponse,
        Self::Status4xx,
        Self::Status5xx,
        Self::GrpcStatus,
        Self::StreamReset,
        Self::GoAway,
        Self::Timeout,
        Self::TimeoutUnsent,
        Self::Tls,
        Self::LocalShortage,
    ];

    /// The key in JSON documents.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::ConnectRefused => "connect_refused",
            Self::ConnectFailed => "connect_failed",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::BadResponse => "bad_response",
            Self::Status4xx => "status4xx",
            Self::Status5xx => "status5xx",
            Self::GrpcStatus => "grpc_status",
            Self::StreamReset => "stream_reset",
            Self::GoAway => "go_away",
            Self::Timeout => "timeout",
            Self::TimeoutUnsent => "timeout_unsent",
            Self::Tls => "tls",
            Self::LocalShortage => "local_shortage",
        }
    }

    /// Whether the slot counts as `timeout` rather than `error`.
    #[must_use]
    pub fn is_timeout(self) -> bool {
        matches!(self, Self::Timeout | Self::TimeoutUnsent)
    }
}

/// Requests per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Target of this generator; absent in saturating mode.
    pub target: Option<f64>,
    /// Slots whose request was sent within the window, per second of window
    /// (in saturating mode: completed).
    pub achieved: f64,
}

/// Result of a generator: the document of `tare load --output json`, and the
/// body of its final record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadResult {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of tare that measured.
    pub tare_version: String,
    /// `open` or `saturate`.
    pub mode: Mode,
    /// This generator's part of the schedule; absent in merged results and in those of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Start of the measured window.
    pub window_start_unix_ns: u64,
    /// Length of the measured window.
    pub window_ns: u64,
    /// Whether the generator was interrupted before its end.
    pub interrupted: bool,
    /// Every slot.
    pub counts: Counts,
    /// Target and achieved rate.
    pub rate: Rate,
    /// done - intended, over ok responses.
    pub latency_ns: LatencySummary,
    /// done - sent, over ok responses.
    pub service_time_ns: LatencySummary,
    /// The generator's own delay: sent - intended without `wait_ns`, over all sent slots
    /// and those that it reached only after their timeout.
    pub lateness_ns: LatencySummary,
    /// Time that a due slot waited for a free connection or for a new one to open, over the
    /// same slots.
    pub wait_ns: LatencySummary,
    /// The part of `wait_ns` spent waiting for a stream on an open connection, over the slots of
    /// HTTP/2 endpoints; absent without such endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_wait_ns: Option<LatencySummary>,
    /// Of streaming gRPC calls: for each message received, the time since the call's last event
    /// before it (a message sent or a message received); absent without such calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_latency_ns: Option<LatencySummary>,
    /// done - intended of slots that ended in an error or a timeout.
    pub error_latency_ns: LatencySummary,
    /// Responses by status code.
    pub status: BTreeMap<String, u64>,
    /// gRPC calls by their `grpc-status`, a number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grpc_status: BTreeMap<String, u64>,
    /// Errors and timeouts by [`ErrorClass::key`].
    pub errors: BTreeMap<String, u64>,
    /// Why responses were refused or never arrived, the most frequent reasons first: responses to
    /// requests of the window, and all connections that did not become HTTP/2 connections. Absent
    /// without any and in results of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedResponses>,
    /// One for each name, in the order of first appearance in the specification.
    pub endpoints: Vec<EndpointResult>,
    /// About the generator itself.
    pub generator: GeneratorStats,
    /// Whether this generator's result is valid, with reasons.
    pub verdict: Verdict,
    /// The full histograms behind the summaries.
    pub histograms: LoadHistograms,
    /// TLS results; absent without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsResult>,
    /// Reported instants compared with kernel timestamps, if enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instrument_error: Option<InstrumentError>,
}

impl LoadResult {
    /// Checks the window, as [`limits::check_window`] does.
    ///
    /// # Errors
    /// What was found and expected, as a fragment of a sentence.
    pub fn check_window(&self) -> Result<(), String> {
        // An interrupted generator may have had only slots that were not due yet.
        let has_slots = match self.interrupted {
            true => self.counts.ok > 0,
            false => self.counts.planned > 0,
        };
        limits::check_window(self.window_start_unix_ns, self.window_ns, has_slots)
    }
}

/// The histograms of a [`LoadResult`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadHistograms {
    /// See [`LoadResult::latency_ns`].
    pub latency: HistogramWire,
    /// See [`LoadResult::service_time_ns`].
    pub service_time: HistogramWire,
    /// See [`LoadResult::lateness_ns`].
    pub lateness: HistogramWire,
    /// See [`LoadResult::wait_ns`].
    pub wait: HistogramWire,
    /// See [`LoadResult::error_latency_ns`].
    pub error_latency: HistogramWire,
    /// See [`LoadResult::stream_wait_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_wait: Option<HistogramWire>,
    /// See [`LoadResult::message_latency_ns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_latency: Option<HistogramWire>,
}

/// One endpoint's part of a [`LoadResult`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointResult {
    /// [`Endpoint::name`].
    pub name: String,
    /// Every slot of this endpoint.
    pub counts: Counts,
    /// done - intended, over ok responses.
    pub latency_ns: LatencySummary,
    /// Errors and timeouts by [`ErrorClass::key`].
    pub errors: BTreeMap<String, u64>,
    /// gRPC calls by their `grpc-status`, a number; absent without gRPC calls.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grpc_status: BTreeMap<String, u64>,
    /// Bytes that no request asked for; absent without any and in results of older versions.
    #[serde(default, skip_serializing_if = "Surplus::is_none")]
    pub surplus: Surplus,
    /// The full histogram.
    pub latency: HistogramWire,
    /// done - intended of slots that ended in an error or a timeout, by [`ErrorClass::key`];
    /// absent without errors and timeouts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub error_latency: BTreeMap<String, HistogramWire>,
}

/// Bytes that arrived after a complete response and belong to no request: a second response, a
/// body where none is allowed, data after the end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Surplus {
    /// Responses after which such bytes arrived.
    pub responses: u64,
    /// The bytes, up to the point at which the generator closed the connection.
    pub bytes: u64,
}

impl Surplus {
    /// Whether no such bytes arrived.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another generator's or loop's surplus.
    pub fn add(&mut self, other: &Self) {
        self.responses = self.responses.saturating_add(other.responses);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Responses that the generator refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefusedResponses {
    /// What arrived, and what was expected.
    pub reason: String,
    /// Number of responses.
    pub count: u64,
    /// The first bytes that arrived in the place of one of the responses, at most 48. Bytes other than
    /// printable ASCII are escaped: `\r`, `\n`, `\x00`. Absent if nothing arrived, and for frames of HTTP/2.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub first_bytes: String,
}

impl RefusedResponses {
    /// Adds the responses refused by another generator.
    pub fn add(all: &mut Vec<Self>, other: &Self) {
        match all.iter_mut().find(|r| r.reason == other.reason) {
            None => all.push(other.clone()),
            Some(known) => {
                known.count = known.count.saturating_add(other.count);
                // The smallest, so that the order of the generators does not matter.
                let bytes = [&known.first_bytes, &other.first_bytes];
                let first = bytes.into_iter().filter(|b| !b.is_empty()).min();
                known.first_bytes = first.cloned().unwrap_or_default();
            }
        }
        Self::sort(all);
    }

    /// Sorts by frequency.
    pub fn sort(all: &mut [Self]) {
        all.sort_by(|a, b| b.count.cmp(&a.count).then(a.reason.cmp(&b.reason)));
    }

    /// The reason with the first bytes.
    #[must_use]
    pub fn words(&self) -> String {
        match self.first_bytes.as_str() {
            "" => self.reason.clone(),
            bytes => format!("{}; received \"{bytes}\"", self.reason),
        }
    }
}

/// Statistics of the generator itself, over the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorStats {
    /// CPU of the generator process, in cores.
    pub cpu_cores: f64,
    /// Share of the window that the busiest event loop did not spend asleep or spinning.
    pub loop_utilisation: f64,
    /// Connections opened, including the first ones.
    pub connections_opened: u64,
    /// Connections opened again after a close, an error or a timeout, in the window.
    pub reconnects: u64,
    /// Largest number of slots that waited for a connection at the same time; with several
    /// threads, the sum of each one's largest.
    pub waiting_max: u64,
    /// Bytes written in the window.
    pub bytes_sent: u64,
    /// Bytes read in the window.
    pub bytes_received: u64,
    /// Time for which a CPU quota stopped the generator, from the start of the
    /// warm-up to the end of the drain, if cgroups report it.
    pub throttled_ns: Option<u64>,
    /// Whether the cores of its machine were prevented from sleeping; with several generators,
    /// those of all machines.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awake: bool,
    /// How long a cache line took from the first to the last core that the generator may run on,
    /// in nanoseconds: before its connections were opened, and after its end. One pair for each
    /// generator, not in the order of the generators; none for a generator that has only one core
    /// or found no free core, and none in results of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub core_to_core_ns: Vec<[f64; 2]>,
    /// Host and port of URLs, and their addresses: of each, how many connections were opened. Only
    /// names that have several addresses.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, BTreeMap<String, u64>>,
}
