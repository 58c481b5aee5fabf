//! The behaviour of Emojivoto.

use std::net::SocketAddr;

use tare_plan::graph::{Mix, MixEndpoint, builtin};
use tare_workload::LocalInstance;

use crate::client::{address, counted, get, request, start};
use crate::faults::{EMPTY, grpc_status};

async fn emojivoto() -> (LocalInstance, SocketAddr) {
    let instance = start(&builtin("emojivoto").unwrap(), 1).await;
    let web = address(&instance, "web");
    (instance, web)
}

#[tokio::test]
async fn the_list_has_a_hundred_emoji_and_makes_one_call() {
    let (instance, web) = emojivoto().await;
    let answer = get(web, "/api/list").await;
    assert_eq!(answer.status, 200);
    let list = answer.json();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 100);
    assert!(list.iter().all(|e| {
        let text = |key: &str| e[key].as_str().unwrap().chars().count();
        text("shortcode") > 2 && text("unicode") >= 1
    }));
    assert_eq!(counted(&instance, "emoji", "ListAll"), (1, 0));
    assert_eq!(counted(&instance, "web", "list"), (1, 0));
}

#[tokio::test]
async fn a_vote_finds_the_emoji_and_counts() {
    let (instance, web) = emojivoto().await;
    for path in ["/api/vote?choice=:tada:", "/api/vote?choice=%3Atada%3A"] {
        assert_eq!(get(web, path).await.status, 200);
    }
    assert_eq!(counted(&instance, "emoji", "FindByShortcode"), (2, 0));
    assert_eq!(counted(&instance, "voting", "Vote"), (2, 0));
    let board = get(web, "/api/leaderboard").await.json();
    assert_eq!(board[0]["shortcode"], ":tada:");
    assert_eq!(board[0]["unicode"], "\u{1F389}");
    assert_eq!(board[0]["votes"], 3);
}

#[tokio::test]
async fn votes_without_a_known_choice_fail_with_400_and_make_no_needless_call() {
    let (instance, web) = emojivoto().await;
    assert_eq!(get(web, "/api/vote").await.status, 400);
    assert_eq!(get(web, "/api/vote?choice=").await.status, 400);
    assert_eq!(counted(&instance, "emoji", "FindByShortcode"), (0, 0));
    for path in [
        "/api/vote?choice=:nonsense:",
        "/api/vote?choice=joy",
        "/api/vote?choice=%ff",
    ] {
        assert_eq!(get(web, path).await.status, 400, "{path}");
    }
    assert_eq!(counted(&instance, "emoji", "FindByShortcode"), (3, 0));
    assert_eq!(counted(&instance, "voting", "Vote"), (0, 0));
    assert_eq!(counted(&instance, "web", "vote"), (0, 5));
}

#[tokio::test]
async fn votes_for_the_doughnut_always_fail() {
    let (instance, web) = emojivoto().await;
    for _ in 0..3 {
        let answer = get(web, "/api/vote?choice=:doughnut:").await;
        assert_eq!(answer.status, 500);
        assert!(answer.text().contains("doughnut"), "{}", answer.text());
    }
    assert_eq!(counted(&instance, "voting", "Vote"), (0, 3));
    let board = get(web, "/api/leaderboard").await.text();
    assert!(!board.contains("doughnut"));
}

#[tokio::test]
async fn the_leaderboard_makes_one_call_per_result_from_the_start() {
    let (instance, web) = emojivoto().await;
    for n in 1..=3 {
        let board = get(web, "/api/leaderboard").await;
        assert_eq!(board.status, 200);
        assert_eq!(board.json().as_array().unwrap().len(), 10);
        assert_eq!(counted(&instance, "voting", "Results"), (n, 0));
        assert_eq!(counted(&instance, "emoji", "FindByShortcode"), (10 * n, 0));
    }
}

#[tokio::test]
async fn static_pages_make_no_call() {
    let (instance, web) = emojivoto().await;
    for path in ["/", "/leaderboard", "/leaderboard?x=1"] {
        let page = get(web, path).await;
        assert_eq!(page.status, 200);
        assert!(page.text().contains("<!doctype html>"));
    }
    assert_eq!(counted(&instance, "web", "leaderboard-page"), (2, 0));
    for service in ["emoji", "voting"] {
        let tally = instance.server(service).unwrap().tally();
        assert!(
            tally.served.is_empty() && tally.failed.is_empty(),
            "{tally:?}"
        );
    }
}

#[tokio::test]
async fn every_url_of_every_mix_succeeds() {
    let graph = builtin("emojivoto").unwrap();
    let (instance, web) = emojivoto().await;
    let mut requested = 0;
    let endpoints = graph.mixes.iter().flat_map(|m| &m.endpoints);
    let (by_http, by_grpc): (Vec<_>, Vec<_>) = endpoints.partition(|e| e.service == "web");
    for endpoint in by_http {
        assert_eq!(
            get(web, &endpoint.path).await.status,
            200,
            "{}",
            endpoint.path
        );
        requested += 1;
        let (served, failed) = counted(&instance, "web", &endpoint.name);
        assert!(
            served > 0 && failed == 0,
            "{} is counted under its name",
            endpoint.name
        );
    }
    for endpoint in by_grpc {
        let service = graph.services.iter().find(|s| s.name == endpoint.service);
        let of = service.unwrap().app.unwrap().grpc_service().unwrap();
        let path = format!("/{of}/{}", endpoint.path);
        let address = address(&instance, &endpoint.service);
        assert_eq!(grpc_status(address, &path, EMPTY).await, "0", "{path}");
        requested += 1;
    }
    assert_eq!(requested, 26);
    let board = get(web, "/api/leaderboard").await.json();
    assert_eq!(board.as_array().unwrap().len(), 10);
}

/// All requests that the services of an instance have served.
fn served(instance: &LocalInstance) -> u64 {
    let services = ["web", "emoji", "voting"].into_iter();
    let tallies = services.map(|s| instance.server(s).unwrap().tally());
    tallies.map(|t| t.served.values().sum::<u64>()).sum()
}

#[tokio::test]
async fn the_graph_predicts_the_requests_of_every_url() {
    let (instance, web) = emojivoto().await;
    let mut graph = builtin("emojivoto").unwrap();
    let of_web = |e: &MixEndpoint| e.service == "web";
    let mixes = graph.mixes.clone();
    let endpoints: Vec<_> = mixes.iter().flat_map(|m| &m.endpoints).collect();
    let mut requested = 0;
    for endpoint in endpoints.into_iter().filter(|e| of_web(e)) {
        let one = "one".to_owned();
        graph.mixes.truncate(mixes.len());
        graph.mixes.push(Mix {
            name: one.clone(),
            endpoints: vec![endpoint.clone()],
        });
        let before = served(&instance);
        assert_eq!(get(web, &endpoint.path).await.status, 200);
        let found = (served(&instance) - before) as f64;
        assert_eq!(
            graph.requests_per_request(&one),
            Some(found),
            "{}",
            endpoint.path
        );
        requested += 1;
    }
    assert_eq!(requested, 23);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_errors() {
    let (instance, web) = emojivoto().await;
    assert_eq!(get(web, "/api").await.status, 404);
    assert_eq!(get(web, "/api/list/").await.status, 404);
    let post = request(web, "POST /api/vote?choice=:joy: HTTP/1.1\r\nHost: t", b"x").await;
    assert_eq!(post.status, 405);
    assert_eq!(counted(&instance, "web", "unknown"), (0, 3));
}
