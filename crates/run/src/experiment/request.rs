//! The specification of a trial's generator: requests, rate, connections.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tare_plan::graph;
use tare_plan::graph::{MixEndpoint, SYNTHETIC, Service};
use tare_plan::load::{Endpoint, GrpcCall, LoadSpec, Mode, Protocol};
use tare_plan::trial::TrialSpec;
use tare_plan::{Load, LoadKind, Plan};
use tare_records::worker::Upstream;

use crate::environment::Deployed;
use crate::instances::request_body;

/// The kernel timestamps one request in this many (1 %), to measure the generator's own error.
const KERNEL_TIMESTAMPS_EVERY: u32 = 100;
/// Concurrent calls on a connection of gRPC or HTTP/2: as many as most servers allow.
const STREAMS: u32 = 100;

/// Returns the specification of the generator of `trial`.
pub(super) fn load_spec(plan: &Plan, trial: &TrialSpec, deployment: &impl Deployed) -> LoadSpec {
    let load = &trial.load;
    let workload = plan.workload_of(load);
    let graph = &workload.graph;
    let mix = graph.mix(&workload.mix);
    let mut endpoints = Vec::new();
    for ((_, name), target) in deployment.targets() {
        let of_service = mix.into_iter().flat_map(|m| &m.endpoints);
        for endpoint in of_service.filter(|e| e.service == *name) {
            if let Some(service) = graph.service(name) {
                endpoints.push(request(service, endpoint, target));
            }
        }
    }
    let concurrent = endpoints.iter().any(|e| e.protocol != Protocol::Http1);
    // A search for the capacity sets the rate of each step, and an overload its arrivals.
    let open = |rate_rps| Mode::Open {
        rate_rps,
        arrivals: load.arrivals.clone(),
    };
    let (mode, think_ns) = match load.kind {
        LoadKind::Open { rate_rps } => (open(rate_rps), 0),
        LoadKind::Closed { think_ns } => (Mode::Saturate, think_ns),
        LoadKind::Capacity(_) | LoadKind::Overload(_) => (open(0.0), 0),
    };
    LoadSpec {
        think_ns,
        warmup_ns: load.warmup_ns,
        timeout_ns: load.timeout_ns,
        connections: load.connections,
        streams: streams(load, concurrent),
        requests_per_connection: load.requests_per_connection,
        threads: load.threads,
        pace: load.pace,
        seed: trial.seed,
        kernel_timestamps_every: KERNEL_TIMESTAMPS_EVERY,
        ..LoadSpec::new(endpoints, mode, load.duration_ns)
    }
}

/// Concurrent calls on a connection; `concurrent` if its protocol allows several. A user of a closed loop
/// makes one.
fn streams(load: &Load, concurrent: bool) -> u32 {
    let most = if load.is_closed() { 1 } else { STREAMS };
    match concurrent {
        true => load.streams.unwrap_or(most),
        false => 1,
    }
}

/// Returns the request of `endpoint` to `service` at `target`.
fn request(service: &Service, endpoint: &MixEndpoint, target: &Upstream) -> Endpoint {
    let authority = &target.authority;
    let body = request_body(endpoint);
    let mut request = Endpoint {
        name: endpoint.name.clone(),
        protocol: Protocol::Http1,
        method: endpoint.method.clone(),
        url: format!("http://{authority}{}", endpoint.path),
        connect: Some(target.connect.clone()),
        headers: Vec::new(),
        body_base64: (!body.is_empty()).then(|| STANDARD.encode(&body)),
        messages_base64: Vec::new(),
        grpc: GrpcCall::default(),
        weight: endpoint.weight,
    };
    if service.protocol == graph::ServiceProtocol::Http2 {
        request.protocol = Protocol::Http2;
    }
    if service.protocol == graph::ServiceProtocol::Grpc {
        let app = service.app.and_then(graph::App::grpc_service);
        let of = app.unwrap_or(SYNTHETIC);
        request.protocol = Protocol::Grpc;
        request.method = "POST".to_owned();
        request.url = format!("http://{authority}/{of}/{}", endpoint.path);
        request.body_base64 = None;
        request.messages_base64 = vec![STANDARD.encode(bytes_field(&body))];
    }
    request
}

/// Encodes a message whose field 1 holds `bytes`; an empty message if `bytes` is empty.
///
/// Source: Protocol Buffers, "Encoding": tag 10, the length in base 128, the bytes.
fn bytes_field(bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let mut message = vec![10];
    let mut left = bytes.len();
    while left >= 128 {
        message.push(left as u8 | 128);
        left >>= 7;
    }
    message.push(left as u8);
    message.extend_from_slice(bytes);
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::graph::builtin;

    fn of(protocol: graph::ServiceProtocol, path: &str, request_bytes: u32) -> Endpoint {
        let mut service = builtin("emojivoto").unwrap().services.remove(0);
        (service.protocol, service.app) = (protocol, None);
        let endpoint = MixEndpoint {
            name: "n".into(),
            service: service.name.clone(),
            path: path.into(),
            method: "GET".into(),
            request_bytes,
            weight: 3,
        };
        let target = Upstream::new("127.0.0.1:1", "a.b");
        request(&service, &endpoint, &target)
    }

    #[test]
    fn a_user_makes_one_call_at_a_time() {
        let of = |load: &str| {
            let text =
                format!("workload: {{graph: emojivoto, mix: grpc}}\nmeshes: bare\nload: {load}");
            let none = |_: &str| Err(String::new());
            let plan = tare_plan::resolve("p.yaml", &text, &[], &none).unwrap();
            [true, false].map(|concurrent| streams(&plan.loads[0], concurrent))
        };
        assert_eq!(of("{rate: 100}"), [100, 1]);
        assert_eq!(of("{users: 10}"), [1, 1]);
        assert_eq!(of("{users: 10, streams: 5}"), [5, 1]);
    }

    #[test]
    fn an_http_request_has_its_path_and_an_optional_body() {
        let plain = of(graph::ServiceProtocol::Http, "/x?y=1", 0);
        assert_eq!(plain.url, "http://a.b/x?y=1");
        assert_eq!((plain.method.as_str(), plain.weight), ("GET", 3));
        assert_eq!((plain.body_base64, plain.messages_base64), (None, vec![]));
        let with = of(graph::ServiceProtocol::Http, "/x", 3);
        assert_eq!(with.body_base64.as_deref(), Some("AAAA"));
        let http2 = of(graph::ServiceProtocol::Http2, "/x?y=1", 0);
        assert_eq!(http2.protocol, Protocol::Http2);
        assert_eq!(http2.url, "http://a.b/x?y=1");
    }

    #[test]
    fn a_grpc_request_names_the_method_and_encodes_the_bytes() {
        let empty = of(graph::ServiceProtocol::Grpc, "Get", 0);
        assert_eq!(empty.url, "http://a.b/tare.Synthetic/Get");
        assert_eq!((empty.protocol, empty.body_base64), (Protocol::Grpc, None));
        assert_eq!(empty.messages_base64, [""]);
        let with = of(graph::ServiceProtocol::Grpc, "Get", 300);
        let message = STANDARD.decode(&with.messages_base64[0]).unwrap();
        assert_eq!(message[..3], [10, 0b1010_1100, 0b10]);
        assert_eq!(message[3..], [0; 300]);
    }

    #[test]
    fn a_built_in_application_is_called_by_its_own_method() {
        let graph = builtin("emojivoto").unwrap();
        for service in graph.services.iter().filter(|s| s.name != "web") {
            let app = service.app.unwrap();
            let endpoint = MixEndpoint {
                service: service.name.clone(),
                path: app.paths()[0].to_owned(),
                ..graph.mixes[0].endpoints[0].clone()
            };
            let target = Upstream::new("127.0.0.1:1", "a.b");
            let url = request(service, &endpoint, &target).url;
            let expected = match service.name.as_str() {
                "emoji" => "http://a.b/emojivoto.v1.EmojiService/ListAll",
                _ => "http://a.b/emojivoto.v1.VotingService/Results",
            };
            assert_eq!(url, expected);
        }
    }
}
