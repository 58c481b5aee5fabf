//! A minimal HTTP/1.1 client: the tests see exactly what was sent.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tare_plan::graph::ServiceGraph;
use tare_records::worker::{Upstream, WorkloadSpec};
use tare_workload::{LocalInstance, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;

/// Time limit of each operation in these tests.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// Status and body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// Sends `bytes` on a new connection and reads until the peer closes.
///
/// A peer may close or reset the connection before it has read everything; its response still
/// counts.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut answer = Vec::new();
        let written = stream.write_all(bytes).await;
        let read = stream.read_to_end(&mut answer).await;
        for error in [written.err(), read.err()].into_iter().flatten() {
            let closed = matches!(
                error.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            );
            assert!(closed, "{error}");
        }
        answer
    };
    tokio::time::timeout(BOUND, exchange)
        .await
        .expect("an answer in time")
}

/// Sends one request with `Connection: close`.
pub(crate) async fn request(address: SocketAddr, head: &str, body: &[u8]) -> Answer {
    let mut bytes = format!("{head}\r\nConnection: close\r\n").into_bytes();
    if !body.is_empty() {
        bytes.extend(format!("Content-Length: {}\r\n", body.len()).into_bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    let answer = raw(address, &bytes).await;
    let end = answer
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("a complete head");
    let head = std::str::from_utf8(&answer[..end]).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let length = head.lines().find_map(|l| {
        l.to_ascii_lowercase()
            .strip_prefix("content-length: ")
            .map(str::to_owned)
    });
    let body = answer[end + 4..].to_vec();
    assert_eq!(
        body.len().to_string(),
        length.expect("a length"),
        "complete body"
    );
    Answer { status, body }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: test"), b"").await
}

/// Starts the service `front` of a graph alone. Its upstream `back` is at this address.
pub(crate) async fn start_front(
    graph: &ServiceGraph,
    back: SocketAddr,
) -> (Server, Receiver<String>) {
    start_alone(graph, "front", ("back", back)).await
}

/// Starts a service of a graph alone, which has one upstream at this address.
pub(crate) async fn start_alone(
    graph: &ServiceGraph,
    service: &str,
    (name, at): (&str, SocketAddr),
) -> (Server, Receiver<String>) {
    let upstream = Upstream::new(at.to_string(), name);
    let spec = WorkloadSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        graph: graph.clone(),
        service: service.to_owned(),
        instance: "test-0".to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        upstreams: [(name.to_owned(), upstream)].into(),
        seed: 1,
    };
    Server::start(&spec).await.unwrap()
}

/// Starts an instance.
pub(crate) async fn start(graph: &ServiceGraph, seed: u64) -> LocalInstance {
    let started = LocalInstance::start(graph, seed);
    tokio::time::timeout(BOUND, started)
        .await
        .expect("ready in time")
        .unwrap()
}

pub(crate) fn address(instance: &LocalInstance, service: &str) -> SocketAddr {
    instance.server(service).unwrap().address()
}

/// A graph of `services` (JSON) whose default mix requests `/` of the first one.
pub(crate) fn graph(services: Value) -> ServiceGraph {
    let first = services[0]["name"].clone();
    let graph: ServiceGraph = serde_json::from_value(serde_json::json!({
        "name": "test",
        "services": services,
        "mixes": [{"name": "default", "endpoints": [
            {"name": "root", "service": first, "path": "/"}]}],
    }))
    .unwrap();
    graph.validate().unwrap();
    graph
}

/// The counts `served` and `failed` of a service under a name.
pub(crate) fn counted(instance: &LocalInstance, service: &str, name: &str) -> (u64, u64) {
    let tally = instance.server(service).unwrap().tally();
    let of = |map: &std::collections::BTreeMap<String, u64>| map.get(name).copied().unwrap_or(0);
    (of(&tally.served), of(&tally.failed))
}
