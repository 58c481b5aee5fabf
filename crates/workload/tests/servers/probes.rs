//! The probes of every node: echo and readiness.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tare_plan::graph::builtin;
use tare_records::worker::{Upstream, WorkloadSpec};
use tare_workload::{Server, WorkloadError};

use crate::client::{BOUND, address, counted, get, graph, raw, request, start};

fn spec(service: &str) -> WorkloadSpec {
    WorkloadSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        graph: builtin("emojivoto").unwrap(),
        service: service.to_owned(),
        instance: "emojivoto-7".to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        upstreams: BTreeMap::new(),
        seed: 1,
    }
}

/// Starts a service of Emojivoto that makes no calls.
pub(crate) async fn leaf(service: &str) -> Server {
    Server::start(&spec(service)).await.unwrap().0
}

/// Starts the web service of Emojivoto.
pub(crate) async fn web(emoji: &Server, voting: &Server) -> Server {
    let mut web = spec("web");
    for (name, server) in [("emoji", emoji), ("voting", voting)] {
        let at = server.address().to_string();
        let to = Upstream::new(at.clone(), at);
        web.upstreams.insert(name.to_owned(), to);
    }
    Server::start(&web).await.unwrap().0
}

#[tokio::test]
async fn the_echo_returns_the_headers_and_is_not_counted() {
    let instance = start(&builtin("emojivoto").unwrap(), 1).await;
    let head = "GET /tare/echo?x HTTP/1.1\r\nHost: web.example:80\r\n\
        X-Forwarded-Client-Cert: By=spiffe://a;Hash=1\r\nx-two: a\r\nX-Two: b";
    let echo = request(address(&instance, "web"), head, b"").await;
    assert_eq!(echo.status, 200);
    let echo = echo.json();
    assert_eq!(echo["service"], "web");
    assert_eq!(echo["instance"], "emojivoto-0");
    assert_eq!(echo["authority"], "web.example:80");
    assert_eq!(
        echo["headers"]["x-forwarded-client-cert"],
        "By=spiffe://a;Hash=1"
    );
    assert_eq!(echo["headers"]["x-two"], "a, b");
    let tally = instance.server("web").unwrap().tally();
    assert!(tally.served.is_empty() && tally.failed.is_empty());
}

#[tokio::test]
async fn the_echo_is_forwarded_to_upstreams_with_their_authority() {
    let mut web = spec("web");
    let (emoji, voting) = (leaf("emoji").await, leaf("voting").await);
    emoji.ready().await;
    voting.ready().await;
    for (name, server) in [("emoji", &emoji), ("voting", &voting)] {
        let authority = format!("{name}.emojivoto-7:8080");
        let to = Upstream::new(server.address().to_string(), authority);
        web.upstreams.insert(name.to_owned(), to);
    }
    let (web, _) = Server::start(&web).await.unwrap();
    let echo = get(web.address(), "/tare/echo?via=emoji").await.json();
    assert_eq!(echo["service"], "emoji");
    assert_eq!(echo["authority"], "emoji.emojivoto-7:8080");
    assert_eq!(echo["headers"]["te"], "trailers");
    let unknown = get(web.address(), "/tare/echo?via=nobody").await;
    assert_eq!(unknown.status, 404);
    assert!(
        unknown.text().contains("emoji, voting"),
        "{}",
        unknown.text()
    );
    assert!(emoji.tally().served.is_empty());
}

/// A TCP proxy chooses a replica for each connection, so each echo must take a new one.
#[tokio::test]
async fn the_echo_of_a_tcp_service_closes_its_connection() {
    let shop = graph(json!([
        {"name": "back", "protocol": "tcp", "endpoints": [{"path": "/"}]},
    ]));
    let instance = start(&shop, 1).await;
    let request = b"GET /tare/echo HTTP/1.1\r\nHost: test\r\n\r\n";
    let answer = raw(address(&instance, "back"), request).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains(r#""service":"back""#), "{answer}");
}

#[tokio::test]
async fn the_echo_is_forwarded_through_a_chain_of_both_protocols() {
    let chain = graph(json!([
        {"name": "a", "protocol": "http", "endpoints": [
            {"path": "/", "calls": [{"service": "b", "path": "Get"}]}]},
        {"name": "b", "protocol": "grpc", "endpoints": [
            {"path": "Get", "calls": [{"service": "c", "path": "/c"}]}]},
        {"name": "c", "protocol": "http", "endpoints": [{"path": "/c"}]},
    ]));
    let instance = start(&chain, 1).await;
    let echo = get(address(&instance, "a"), "/tare/echo?via=b,c").await;
    assert_eq!(echo.status, 200, "{}", echo.text());
    assert_eq!(echo.json()["service"], "c");
    assert_eq!(
        echo.json()["authority"],
        address(&instance, "c").to_string()
    );
    let lost = get(address(&instance, "a"), "/tare/echo?via=b,x").await;
    assert_eq!(lost.status, 502);
    assert_eq!(counted(&instance, "b", "Get"), (0, 0));
}

#[tokio::test]
async fn readiness_waits_for_the_called_services() {
    let (emoji, voting) = (leaf("emoji").await, leaf("voting").await);
    let web = web(&emoji, &voting).await;
    emoji.ready().await;
    // voting listens but is not ready.
    let early = tokio::time::timeout(Duration::from_millis(100), web.ready()).await;
    assert!(early.is_err());
    assert_eq!(get(web.address(), "/tare/ready").await.status, 503);
    voting.ready().await;
    tokio::time::timeout(BOUND, web.ready()).await.unwrap();
    assert_eq!(get(web.address(), "/tare/ready").await.status, 200);
}

#[tokio::test]
async fn invalid_specifications_are_errors() {
    async fn error(spec: &WorkloadSpec) -> WorkloadError {
        match Server::start(spec).await {
            Ok(_) => panic!("started"),
            Err(error) => error,
        }
    }
    let missing = error(&spec("web")).await.to_string();
    assert!(missing.contains("no upstream for \"emoji\""), "{missing}");
    let unknown = error(&spec("wbe")).await.to_string();
    assert!(
        unknown.contains("expected one of: web, emoji, voting"),
        "{unknown}"
    );
    let mut taken = spec("emoji");
    let (first, _) = Server::start(&taken).await.unwrap();
    taken.listen = first.address().to_string();
    assert!(matches!(error(&taken).await, WorkloadError::Listen { .. }));
    let mut old = spec("emoji");
    old.schema_version = 0;
    assert!(matches!(error(&old).await, WorkloadError::SchemaVersion(0)));
    let mut empty = spec("emoji");
    empty.graph.services.clear();
    assert!(matches!(error(&empty).await, WorkloadError::Graph(_)));
}
