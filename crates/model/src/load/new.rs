//! Specifications to start from: `LoadSpec { connections: 50, ..LoadSpec::new(...) }`.

use std::collections::BTreeMap;

use super::{Endpoint, GrpcCall, LoadSpec, Mode, Pace, Protocol, Shard};

const TIMEOUT_NS: u64 = 10_000_000_000;
const CONNECTIONS: u32 = 10;

impl Endpoint {
    /// GET of `url` over HTTP/1.1, named by it, without headers of its own.
    #[must_use]
    pub fn get(url: impl Into<String>) -> Self {
        let url = url.into();
        Self {
            name: url.clone(),
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
    /// 10 s for a request, the whole schedule, begun when the connections are open; no TLS
    /// settings, no kernel timestamps, no proxy that is asked.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>, mode: Mode, duration_ns: u64) -> Self {
        Self {
            schema_version: crate::SCHEMA_VERSION,
            endpoints,
            mode,
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
}
