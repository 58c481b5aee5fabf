//! A plain HTTP/1.1 client on a socket: what the tests see is what was sent.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tare_model::graph::ServiceGraph;
use tare_workload::Playground;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest that anything in these tests may take.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

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

/// Sends `bytes` on a connection of its own and reads until the peer closes.
///
/// A peer that refuses what it is told may close, or reset, before it has read all of it: what it
/// said counts, and is what the caller asserts.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut answer = Vec::new();
        let told = stream.write_all(bytes).await;
        let heard = stream.read_to_end(&mut answer).await;
        for end in [told.err(), heard.err()].into_iter().flatten() {
            let refused = matches!(
                end.kind(),
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
            );
            assert!(refused, "{end}");
        }
        answer
    };
    tokio::time::timeout(BOUND, exchange)
        .await
        .expect("an answer in time")
}

/// One request with `Connection: close`.
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
        .expect("a whole head");
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
        "whole body"
    );
    Answer { status, body }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: test"), b"").await
}

/// A running instance.
pub(crate) async fn play(graph: &ServiceGraph, seed: u64) -> Playground {
    let started = Playground::start(graph, seed);
    tokio::time::timeout(BOUND, started)
        .await
        .expect("ready in time")
        .unwrap()
}

pub(crate) fn address(playground: &Playground, service: &str) -> SocketAddr {
    playground.server(service).unwrap().address()
}

/// A graph of `services` (JSON), whose default mix asks the first one for `/`.
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

/// `served` or `failed` of a service under a name.
pub(crate) fn counted(playground: &Playground, service: &str, name: &str) -> (u64, u64) {
    let tally = playground.server(service).unwrap().tally();
    let of = |map: &std::collections::BTreeMap<String, u64>| map.get(name).copied().unwrap_or(0);
    (of(&tally.served), of(&tally.failed))
}
