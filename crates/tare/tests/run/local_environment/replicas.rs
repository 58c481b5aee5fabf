//! Replicas of called services: every replica is in the proofs, and who chooses among them.

use std::net::SocketAddrV4;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tare_local::LocalDeployment;
use tare_plan::graph::ServiceProtocol;
use tare_plan::mesh::{Mesh, Placement};
use tare_records::calls::{CallWindow, ServiceCalls};
use tare_run::environment::{Deployed, Environment, Phase};
use tare_run::http as probe;

use super::bench::{Bench, all_hold, bare, claims, envoy, placed, send, strict};

/// Requests to `front`, which makes four calls to `http` at once and one to `grpc`.
const REQUESTS: u32 = 5;
const AT_ONCE: u64 = 4;

/// `front`, and `http`, `grpc` and `last` with two replicas each; `grpc` calls `last`. With `tcp` this is the
/// protocol of all.
async fn bench(mesh: Mesh, tcp: bool) -> Bench {
    let call = |service: &str, path: &str| json!({"service": service, "path": path});
    let mut bench = Bench::new(mesh, 1).await;
    let graph = json!({
        "name": "shop",
        "services": [
            {"name": "front", "protocol": "http", "endpoints": [{"path": "/", "calls": [
                {"parallel": vec![call("http", "/"); AT_ONCE as usize]}, call("grpc", "Get")]}]},
            {"name": "http", "protocol": "http", "replicas": 2, "endpoints": [
                {"path": "/", "delay_us": 50_000}]},
            {"name": "grpc", "protocol": "grpc", "replicas": 2, "endpoints": [
                {"path": "Get", "calls": [call("last", "/")]}]},
            {"name": "last", "protocol": "http", "replicas": 2, "endpoints": [{"path": "/"}]},
        ],
        "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": "front", "path": "/"}]}],
    });
    let mut text = graph.to_string();
    if tcp {
        text = text.replace(r#""Get""#, r#""/get""#);
        for protocol in ["http", "grpc"] {
            let of = |protocol: &str| format!(r#""protocol":"{protocol}""#);
            text = text.replace(&of(protocol), &of("tcp"));
        }
    }
    bench.plan.workload.graph = serde_json::from_str(&text).unwrap();
    bench.plan.workload.graph.validate().unwrap();
    bench
}

/// The calls that each replica of `http`, `grpc` and `last` received. Their pods come after those of the
/// generator and of the front.
async fn received(deployment: &LocalDeployment) -> [[u64; 2]; 3] {
    let front = deployment.targets().values().next().unwrap();
    let front: SocketAddrV4 = front.connect.parse().unwrap();
    let mut all = [[0; 2]; 3];
    for (i, calls) in all.as_flattened_mut().iter_mut().enumerate() {
        let [a, b, c, _] = front.ip().octets();
        let application = SocketAddrV4::new([a, b, c, 3 + i as u8].into(), 15080);
        let http = ServiceProtocol::Http;
        let answer = probe::get_at(application, http, None, "x", "/tare/calls").await;
        let found: ServiceCalls = serde_json::from_slice(&answer.unwrap().body).unwrap();
        assert_eq!(found.service, ["http", "grpc", "last"][i / 2]);
        *calls = found.incoming.iter().map(|c| c.latency.count).sum();
    }
    all
}

/// A trial with its proofs: the calls that each replica received, and the proofs in words. It ends when
/// both replicas of `http` have received calls.
async fn trial(mesh: Mesh, tcp: bool) -> ([[u64; 2]; 3], u64, String) {
    let mut bench = bench(mesh, tcp).await;
    let mut deployment = bench.deploy().await;
    let before = bench.local.prove(&mut deployment, Phase::Before).await;
    let mut proofs = before.unwrap();
    all_hold(&proofs);
    let deadline = SystemTime::now() + Duration::from_secs(60);
    let start = loop {
        let start = SystemTime::now() + Duration::from_secs(3);
        let start_ns = start.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let window = CallWindow {
            start_unix_ns: start_ns,
            window_ns: 3_600_000_000_000,
            ..CallWindow::default()
        };
        let announced = bench.local.time_calls(&mut deployment, &window);
        match announced.await {
            Ok(()) => break start,
            // The announcements of a slow machine come after the start.
            Err(error) => assert!(SystemTime::now() < deadline, "{error}"),
        }
    };
    while SystemTime::now() < start {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut sent = 0;
    let mut calls = [[0; 2]; 3];
    // A connection that is free again is used before another is opened, so that a very slow machine may
    // need a few more requests.
    while calls[0].contains(&0) && sent < 20 * REQUESTS {
        send(&deployment, REQUESTS).await;
        sent += REQUESTS;
        calls = received(&deployment).await;
    }
    let load_sent = u64::from(sent);
    let after = bench
        .local
        .prove(&mut deployment, Phase::After { load_sent })
        .await;
    proofs.extend(after.unwrap());
    all_hold(&proofs);
    let merged = bench.local.calls(&mut deployment).await.unwrap().unwrap();
    let sums = merged[1..].iter().map(|s| -> u64 {
        let counts = s.incoming.iter().map(|c| c.latency.count);
        counts.sum()
    });
    assert_eq!(sums.collect::<Vec<_>>(), calls.map(|[a, b]| a + b));
    assert_eq!(bench.local.teardown(deployment).await, []);
    (calls, load_sent, claims(&proofs))
}

#[tokio::test]
async fn the_sidecar_of_a_caller_sends_requests_to_every_replica_in_turn() {
    let mut two_threads = envoy();
    two_threads.settings.concurrency = 2;
    for mesh in [envoy(), strict(), placed(Placement::Client), two_threads] {
        let threads = u64::from(mesh.settings.concurrency);
        let name = format!("{} {:?} {threads}", mesh.name, mesh.settings.placement);
        let counted = mesh.settings.placement.is_both();
        let ([http, grpc, last], sent, text) = trial(mesh, false).await;
        assert_eq!(http.iter().sum::<u64>(), AT_ONCE * sent, "{name}");
        // Each worker thread takes the replicas in turn.
        assert!(http[0].abs_diff(http[1]) <= threads, "{name}: {http:?}");
        assert_eq!(grpc.iter().sum::<u64>(), sent, "{name}");
        assert!(grpc[0].abs_diff(grpc[1]) <= threads, "{name}: {grpc:?}");
        assert!(!last.contains(&0), "{name}: {last:?}");
        // The front; from it to both replicas of two services; from each of two to two others.
        assert!(text.contains(": 9 of 9"), "{name}: {text}");
        let claim = "every replica of a called service got requests: 6 of 6";
        assert_eq!(text.contains(claim), counted, "{name}: {text}");
    }
}

/// As through kube-proxy, connections are spread: a pool of HTTP/1.1 reaches all replicas, the one
/// connection of gRPC stays with one.
#[tokio::test]
async fn without_a_proxy_at_the_caller_connections_are_spread_over_the_replicas() {
    for mesh in [bare(), placed(Placement::Server)] {
        let name = format!("{} {:?}", mesh.name, mesh.settings.placement);
        let ([http, mut grpc, last], sent, text) = trial(mesh, false).await;
        assert_eq!(http.iter().sum::<u64>(), AT_ONCE * sent, "{name}");
        assert!(!http.contains(&0), "{name}: {http:?}");
        grpc.sort_unstable();
        assert_eq!(grpc, [0, sent], "{name}");
        assert_eq!(last.iter().sum::<u64>(), sent, "{name}");
        assert!(text.contains(": 9 of 9"), "{name}: {text}");
        assert!(!text.contains("every replica"), "{name}: {text}");
    }
}

/// The sidecar of the caller chooses a replica for each connection; only `http` gets several at once.
#[tokio::test]
async fn connections_of_tcp_services_are_spread_over_the_replicas() {
    for mesh in [envoy(), strict(), placed(Placement::Server)] {
        let name = format!("{} {:?}", mesh.name, mesh.settings.placement);
        let chooses = mesh.settings.placement.is_both();
        let ([http, _, last], sent, text) = trial(mesh, true).await;
        assert_eq!(http.iter().sum::<u64>(), AT_ONCE * sent, "{name}");
        assert!(!http.contains(&0), "{name}: {http:?}");
        assert_eq!(last.iter().sum::<u64>(), sent, "{name}");
        let claim = "and no HTTP proxy is in its path: 9 of 9";
        assert!(text.contains(claim), "{name}: {text}");
        let claim = "every replica of a called TCP service got connections: 2 of 2";
        assert_eq!(text.contains(claim), chooses, "{name}: {text}");
        assert!(!text.contains("got requests"), "{name}: {text}");
    }
}

/// The proof fails if requests, or connections, that the sidecar of a caller would have sent to both replicas
/// reach one.
#[tokio::test]
async fn a_replica_without_requests_is_found() {
    for (tcp, found) in [(false, "no request"), (true, "no connection")] {
        find_idle_replica(tcp, found).await;
    }
}

async fn find_idle_replica(tcp: bool, found: &str) {
    let mut bench = bench(envoy(), tcp).await;
    let mut deployment = bench.deploy().await;
    let before = bench.local.prove(&mut deployment, Phase::Before).await;
    all_hold(&before.unwrap());
    let front = deployment.targets().values().next().unwrap();
    let front: SocketAddrV4 = front.connect.parse().unwrap();
    let [a, b, c, _] = front.ip().octets();
    let first = SocketAddrV4::new([a, b, c, 3].into(), 15006);
    for _ in 0..2 {
        let http = ServiceProtocol::Http;
        let response = probe::get_at(first, http, None, "http.shop-0", "/").await;
        assert_eq!(response.unwrap().status, 200);
    }
    let phase = Phase::After { load_sent: 0 };
    let after = bench.local.prove(&mut deployment, phase).await.unwrap();
    let broken: Vec<&str> = after
        .iter()
        .filter(|p| !p.holds)
        .map(|p| &*p.seen)
        .collect();
    assert_eq!(broken.len(), 1, "{after:?}");
    assert!(
        broken[0].contains(&format!("shop-0/http.1: {found}")),
        "{broken:?}"
    );
    bench.local.teardown(deployment).await;
}
