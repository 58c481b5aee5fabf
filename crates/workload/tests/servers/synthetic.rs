//! Synthetic services: sizes, work, errors, calls in sequence and in parallel.

use std::time::{Duration, Instant};

use serde_json::json;
use tare_plan::graph::{builtin, builtins};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{address, counted, get, graph, request, start, start_front};

#[tokio::test]
async fn sizes_are_exact_in_both_directions() {
    let sizes = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "response_bytes": 5000, "calls": [
                {"service": "rpc", "path": "Get", "request_bytes": 300_000},
                {"service": "web", "path": "/sub?q=1", "request_bytes": 70_000}]},
            {"path": "/empty"}]},
        {"name": "rpc", "protocol": "grpc", "endpoints": [
            {"path": "Get", "response_bytes": 5_000_000}]},
        {"name": "web", "protocol": "http", "endpoints": [
            {"path": "/sub", "response_bytes": 2_000_000}]},
    ]));
    let instance = start(&sizes, 1).await;
    let front = address(&instance, "front");
    let answer = get(front, "/").await;
    assert_eq!((answer.status, answer.body.len()), (200, 5000));
    assert_eq!(get(front, "/empty").await.body.len(), 0);
    let posted = request(front, "POST / HTTP/1.1\r\nHost: t", &[b'x'; 100_000]).await;
    assert_eq!(posted.status, 200);
    assert_eq!(counted(&instance, "rpc", "Get"), (2, 0));
    assert_eq!(counted(&instance, "web", "/sub"), (2, 0));
    assert_eq!(counted(&instance, "front", "/empty"), (1, 0));
    assert_eq!(get(front, "/nowhere").await.status, 404);
}

#[tokio::test]
async fn errors_have_their_rate_and_repeat_with_the_seed() {
    let flaky = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "error_rate": 0.3},
            {"path": "/never", "error_rate": 0.0},
            {"path": "/always", "error_rate": 1.0}]},
    ]));
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let instance = start(&flaky, seed).await;
        let front = address(&instance, "front");
        let mut statuses = Vec::new();
        for _ in 0..200 {
            statuses.push(get(front, "/").await.status);
        }
        let failed = statuses.iter().filter(|s| **s == 503).count();
        assert!((35..=85).contains(&failed), "{failed} of 200");
        assert_eq!(
            counted(&instance, "front", "/"),
            (200 - failed as u64, failed as u64)
        );
        assert_eq!(get(front, "/never").await.status, 200);
        assert_eq!(get(front, "/always").await.status, 503);
        runs.push(statuses);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[tokio::test]
async fn a_callees_error_fails_the_caller_and_ends_the_sequence() {
    let chain = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "calls": [
                {"service": "bad", "path": "Fail"}, {"service": "last", "path": "/"}]},
            {"path": "/http", "calls": [{"service": "last", "path": "/fail"}]}]},
        {"name": "bad", "protocol": "grpc", "endpoints": [{"path": "Fail", "error_rate": 1.0}]},
        {"name": "last", "protocol": "http", "endpoints": [
            {"path": "/"}, {"path": "/fail", "error_rate": 1.0}]},
    ]));
    let instance = start(&chain, 1).await;
    let front = address(&instance, "front");
    let answer = get(front, "/").await;
    assert!([502, 503].contains(&answer.status), "{}", answer.status);
    assert!(
        answer.text().contains("bad") && answer.body.len() < 300,
        "{}",
        answer.text()
    );
    assert_eq!(counted(&instance, "bad", "Fail"), (0, 1));
    assert_eq!(counted(&instance, "last", "/"), (0, 0));
    let answer = get(front, "/http").await;
    assert_eq!(answer.status, 502);
    assert_eq!(counted(&instance, "last", "/fail"), (0, 1));
}

#[tokio::test]
async fn steps_run_in_sequence() {
    let slow = |path| json!({"service": "slow", "path": path});
    let timed = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "calls": [slow("/a"), slow("/b"), slow("/a")]},
            {"path": "/times", "calls": [{"service": "slow", "path": "/a", "times": 3}]}]},
        {"name": "slow", "protocol": "http", "endpoints": [
            {"path": "/a", "delay_us": 200_000}, {"path": "/b", "delay_us": 200_000}]},
    ]));
    let instance = start(&timed, 1).await;
    let front = address(&instance, "front");
    let took = async |path| {
        let start = Instant::now();
        assert_eq!(get(front, path).await.status, 200);
        start.elapsed()
    };
    assert!(took("/").await >= Duration::from_millis(600));
    assert!(took("/times").await >= Duration::from_millis(600));
    assert_eq!(counted(&instance, "slow", "/a"), (2 + 3, 0));
    assert_eq!(counted(&instance, "slow", "/b"), (1, 0));
}

/// The called service answers only after it has received all eight requests.
#[tokio::test]
async fn parallel_calls_run_at_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = tokio::spawn(async move {
        let mut asked = Vec::new();
        while asked.len() < 8 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut request).await.unwrap();
            }
            asked.push(stream);
        }
        for stream in &mut asked {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
        asked
    });
    let calls = vec![json!({"service": "back", "path": "/"}); 8];
    let at_once = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "calls": [{"parallel": calls}]}]},
        {"name": "back", "protocol": "http", "endpoints": [{"path": "/"}]},
    ]));
    let (front, _events) = start_front(&at_once, address).await;
    assert_eq!(get(front.address(), "/").await.status, 200);
    assert_eq!(answering.await.unwrap().len(), 8);
}

#[tokio::test]
async fn delays_and_cpu_work_take_at_least_their_time() {
    let work = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "cpu_us": 20_000, "delay_us": 30_000}]},
    ]));
    let instance = start(&work, 1).await;
    let start = Instant::now();
    assert_eq!(get(address(&instance, "front"), "/").await.status, 200);
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn only_the_given_share_of_requests_makes_a_call() {
    let instance = start(&builtin("bookinfo").unwrap(), 5).await;
    let front = address(&instance, "productpage");
    for _ in 0..150 {
        assert_eq!(get(front, "/productpage?u=test").await.body.len(), 5_179);
    }
    assert_eq!(counted(&instance, "details", "/details/0"), (150, 0));
    assert_eq!(counted(&instance, "reviews", "/reviews/0"), (150, 0));
    let (called, _) = counted(&instance, "ratings", "/ratings/0");
    assert!(
        (75..=125).contains(&called),
        "{called} of 150, expected about 100"
    );
}

#[tokio::test]
async fn every_built_in_graph_serves_its_default_mix() {
    for b in builtins() {
        let graph = builtin(b.example).unwrap();
        let instance = start(&graph, 1).await;
        for endpoint in &graph.mix("default").unwrap().endpoints {
            let server = address(&instance, &endpoint.service);
            let status = get(server, &endpoint.path).await.status;
            assert_eq!(status, 200, "{} {}", b.example, endpoint.path);
        }
    }
    let graph = builtin("fanout-10").unwrap();
    let instance = start(&graph, 1).await;
    get(address(&instance, "front"), "/").await;
    for i in 1..=10 {
        assert_eq!(counted(&instance, &format!("leaf{i}"), "/"), (1, 0));
    }
}
