//! gRPC calls on the command line: `grpc://host:port/package.Service/Method`.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tare_plan::load::{Endpoint, GrpcCall, Protocol, Streaming};
use tare_plan::units::parse_duration;

use crate::cmd::input::{Headers, one_of, read_input};

/// Options of gRPC calls.
#[derive(clap::Args)]
pub(super) struct GrpcArgs {
    /// gRPC: file with an encoded request message, or `-` for standard input; repeat for several messages [default: one empty message].
    #[arg(long, value_name = "FILE")]
    data_raw: Vec<String>,
    /// gRPC: metadata of the call, `name: value`, or `@FILE` with one on each line; may be repeated.
    #[arg(long, value_name = "NAME: VALUE|@FILE", value_parser = Headers::parse)]
    pub(super) metadata: Vec<Headers>,
    /// gRPC: which side streams messages. With `bidi`, each message waits for the response to the previous one.
    #[arg(long, value_parser = one_of::<Streaming>(&["unary", "client", "server", "bidi"]), default_value = "unary")]
    streaming: Streaming,
    /// gRPC: deadline sent to the server (grpc-timeout). The generator itself uses --timeout.
    #[arg(long, value_parser = parse_duration)]
    deadline: Option<u64>,
}

impl GrpcArgs {
    /// Returns the messages of `--data-raw`, in base64.
    pub(super) fn messages(&self) -> anyhow::Result<Vec<String>> {
        self.data_raw.iter().map(|place| message(place)).collect()
    }

    /// Returns the name of an option that only gRPC calls use, if one was given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--data-raw", !self.data_raw.is_empty()),
            ("--metadata", !self.metadata.is_empty()),
            ("--streaming", self.streaming != Streaming::Unary),
            ("--deadline", self.deadline.is_some()),
        ];
        given
            .iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| *name)
    }

    pub(super) fn call(&self) -> GrpcCall {
        GrpcCall {
            streaming: self.streaming,
            deadline_ns: self.deadline,
        }
    }
}

fn message(place: &str) -> anyhow::Result<String> {
    let path = place.strip_prefix('@').unwrap_or(place);
    Ok(STANDARD.encode(read_input(path.as_ref())?))
}

/// Turns an endpoint whose URL begins with `grpc://` or `grpcs://` into a gRPC call over HTTP/2.
pub(super) fn by_scheme(mut endpoint: Endpoint) -> Endpoint {
    let scheme_end = endpoint.url.find("://").unwrap_or(0);
    let scheme = endpoint.url[..scheme_end].to_ascii_lowercase();
    let below = match scheme.as_str() {
        "grpc" => Some("http"),
        "grpcs" => Some("https"),
        _ => None,
    };
    if let Some(below) = below {
        endpoint.url.replace_range(..scheme_end, below);
        endpoint.protocol = Protocol::Grpc;
    }
    if endpoint.protocol == Protocol::Grpc {
        if endpoint.messages_base64.is_empty() {
            endpoint.messages_base64.push(String::new());
        }
    } else {
        endpoint.messages_base64.clear();
        endpoint.grpc = GrpcCall::default();
    }
    endpoint
}

/// Returns the kind of an endpoint's call, for messages.
pub(super) fn kind(endpoint: &Endpoint) -> &'static str {
    match endpoint.grpc.streaming {
        Streaming::Unary => "unary",
        Streaming::Client => "client-streaming",
        Streaming::Server => "server-streaming",
        Streaming::Bidi => "bidirectional",
    }
}

/// Names of the status codes, from 0. Source: gRPC's "Status codes and their use".
const STATUS: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Adds the names of the status codes to counts by code.
pub(super) fn named(counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let name = |code: &str| code.parse().ok().and_then(|n: usize| STATUS.get(n));
    counts
        .iter()
        .map(|(code, n)| match name(code) {
            Some(name) => (format!("{code} {name}"), *n),
            None => (code.clone(), *n),
        })
        .collect()
}
