//! What every server answers besides its business: the echo, readiness.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tare_model::graph::builtin;
use tare_model::worker::{Upstream, WorkloadSpec};
use tare_workload::{Server, WorkloadError};

use crate::client::{BOUND, address, counted, get, graph, play, request};

fn spec(service: &str) -> WorkloadSpec {
    WorkloadSpec {
        schema_version: tare_model::SCHEMA_VERSION,
        graph: builtin("emojivoto").unwrap(),
        service: service.to_owned(),
        instance: "emojivoto-7".to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        upstreams: BTreeMap::new(),
        seed: 1,
    }
}

#[tokio::test]
async fn the_echo_shows_headers_as_received_and_is_no_load() {
    let playground = play(&builtin("emojivoto").unwrap(), 1).await;
    let head = "GET /tare/echo?x HTTP/1.1\r\nHost: web.example:80\r\n\
        X-Forwarded-Client-Cert: By=spiffe://a;Hash=1\r\nx-two: a\r\nX-Two: b";
    let heard = request(address(&playground, "web"), head, b"").await;
    assert_eq!(heard.status, 200);
    let heard = heard.json();
    assert_eq!(heard["service"], "web");
    assert_eq!(heard["instance"], "emojivoto-0");
    assert_eq!(heard["authority"], "web.example:80");
    assert_eq!(
        heard["headers"]["x-forwarded-client-cert"],
        "By=spiffe://a;Hash=1"
    );
    assert_eq!(heard["headers"]["x-two"], "a, b");
    let tally = playground.server("web").unwrap().tally();
    assert!(tally.served.is_empty() && tally.failed.is_empty());
}

#[tokio::test]
async fn the_echo_goes_by_way_of_upstreams_with_their_authority() {
    let mut web = spec("web");
    let (emoji, _) = Server::start(&spec("emoji")).await.unwrap();
    let (voting, _) = Server::start(&spec("voting")).await.unwrap();
    emoji.ready().await;
    voting.ready().await;
    for (name, server) in [("emoji", &emoji), ("voting", &voting)] {
        let to = Upstream {
            connect: server.address().to_string(),
            authority: format!("{name}.emojivoto-7:8080"),
        };
        web.upstreams.insert(name.to_owned(), to);
    }
    let (web, _) = Server::start(&web).await.unwrap();
    let heard = get(web.address(), "/tare/echo?via=emoji").await.json();
    assert_eq!(heard["service"], "emoji");
    assert_eq!(heard["authority"], "emoji.emojivoto-7:8080");
    assert_eq!(heard["headers"]["te"], "trailers");
    let stranger = get(web.address(), "/tare/echo?via=nobody").await;
    assert_eq!(stranger.status, 404);
    assert!(
        stranger.text().contains("emoji, voting"),
        "{}",
        stranger.text()
    );
    assert!(emoji.tally().served.is_empty());
}

#[tokio::test]
async fn the_echo_goes_through_a_mixed_chain() {
    let chain = graph(json!([
        {"name": "a", "protocol": "http", "endpoints": [
            {"path": "/", "calls": [{"service": "b", "path": "Get"}]}]},
        {"name": "b", "protocol": "grpc", "endpoints": [
            {"path": "Get", "calls": [{"service": "c", "path": "/c"}]}]},
        {"name": "c", "protocol": "http", "endpoints": [{"path": "/c"}]},
    ]));
    let playground = play(&chain, 1).await;
    let heard = get(address(&playground, "a"), "/tare/echo?via=b,c").await;
    assert_eq!(heard.status, 200, "{}", heard.text());
    assert_eq!(heard.json()["service"], "c");
    assert_eq!(
        heard.json()["authority"],
        address(&playground, "c").to_string()
    );
    let lost = get(address(&playground, "a"), "/tare/echo?via=b,x").await;
    assert_eq!(lost.status, 502);
    assert_eq!(counted(&playground, "b", "Get"), (0, 0));
}

#[tokio::test]
async fn ready_waits_for_what_is_called() {
    let (emoji, _) = Server::start(&spec("emoji")).await.unwrap();
    let (voting, _) = Server::start(&spec("voting")).await.unwrap();
    let mut web = spec("web");
    for (name, server) in [("emoji", &emoji), ("voting", &voting)] {
        let at = server.address().to_string();
        let to = Upstream {
            connect: at.clone(),
            authority: at,
        };
        web.upstreams.insert(name.to_owned(), to);
    }
    let (web, _) = Server::start(&web).await.unwrap();
    emoji.ready().await;
    // voting listens, and has not yet said that it is ready.
    let early = tokio::time::timeout(Duration::from_millis(100), web.ready()).await;
    assert!(early.is_err());
    assert_eq!(get(web.address(), "/tare/ready").await.status, 503);
    voting.ready().await;
    tokio::time::timeout(BOUND, web.ready()).await.unwrap();
    assert_eq!(get(web.address(), "/tare/ready").await.status, 200);
}

#[tokio::test]
async fn specifications_that_do_not_fit_are_refused() {
    async fn refusal(spec: &WorkloadSpec) -> WorkloadError {
        match Server::start(spec).await {
            Ok(_) => panic!("started"),
            Err(error) => error,
        }
    }
    let missing = refusal(&spec("web")).await.to_string();
    assert!(missing.contains("no upstream for \"emoji\""), "{missing}");
    let stranger = refusal(&spec("wbe")).await.to_string();
    assert!(
        stranger.contains("expected one of: web, emoji, voting"),
        "{stranger}"
    );
    let mut taken = spec("emoji");
    let (first, _) = Server::start(&taken).await.unwrap();
    taken.listen = first.address().to_string();
    assert!(matches!(
        refusal(&taken).await,
        WorkloadError::Listen { .. }
    ));
    let mut old = spec("emoji");
    old.schema_version = 0;
    assert!(matches!(
        refusal(&old).await,
        WorkloadError::SchemaVersion(0)
    ));
    let mut empty = spec("emoji");
    empty.graph.services.clear();
    assert!(matches!(refusal(&empty).await, WorkloadError::Graph(_)));
}
