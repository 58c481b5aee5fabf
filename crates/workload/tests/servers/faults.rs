//! Failures: every request gets an answer, and no request hangs.

use serde_json::json;
use tare_plan::graph::builtin;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::client::{BOUND, address, counted, get, graph, raw, start, start_alone, start_front};
use crate::probes;

#[tokio::test]
async fn calls_to_a_stopped_service_fail_with_503_and_others_succeed() {
    let (emoji, voting) = (probes::leaf("emoji").await, probes::leaf("voting").await);
    let server = probes::web(&emoji, &voting).await;
    let web = server.address();
    assert_eq!(get(web, "/api/vote?choice=:joy:").await.status, 200);
    voting.stop().await;
    for _ in 0..3 {
        let answer = tokio::time::timeout(BOUND, get(web, "/api/vote?choice=:joy:"))
            .await
            .unwrap();
        assert_eq!(answer.status, 503);
        assert!(
            answer.text().contains("voting") && answer.body.len() < 300,
            "{}",
            answer.text()
        );
    }
    assert_eq!(get(web, "/api/list").await.status, 200);
    assert_eq!(get(web, "/api/leaderboard").await.status, 503);
    let tally = server.tally();
    assert_eq!((tally.served["vote"], tally.failed["vote"]), (1, 3));
}

/// A relay that can cut all of its connections, as when a service dies.
struct Relay {
    address: std::net::SocketAddr,
    tasks: tokio::sync::watch::Sender<()>,
}

impl Relay {
    async fn start(to: std::net::SocketAddr, at: &str) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tasks, cut) = tokio::sync::watch::channel(());
        tokio::spawn(async move {
            let mut ended = cut.clone();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = ended.changed() => return,
                };
                let mut cut = cut.clone();
                tokio::spawn(async move {
                    let mut client = accepted.unwrap().0;
                    let mut server = TcpStream::connect(to).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, tasks }
    }

    async fn cut(self) {
        let _ = self.tasks.send(());
        self.tasks.closed().await;
    }
}

/// Answers one request, on a new connection.
async fn answer_one(listener: &TcpListener) {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_buf(&mut request).await.unwrap();
    }
    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(answer).await.unwrap();
}

/// `front` calls `back` through a relay, which cuts the connection during the call: when `back` has
/// called `store`, which does not answer.
async fn cut_during_a_call(protocol: &str, path: &str) {
    let chain = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "calls": [{"service": "back", "path": path}]}]},
        {"name": "back", "protocol": protocol, "endpoints": [
            {"path": path, "calls": [{"service": "store", "path": "/"}]}]},
        {"name": "store", "protocol": "http", "endpoints": [{"path": "/"}]},
    ]));
    let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store_at = store.local_addr().unwrap();
    let (back, _events) = start_alone(&chain, "back", ("store", store_at)).await;
    let relay = Relay::start(back.address(), "127.0.0.1:0").await;
    let through = relay.address.to_string();
    let (front, mut events) = start_front(&chain, relay.address).await;
    let ready = async {
        tokio::join!(back.ready(), answer_one(&store));
        front.ready().await;
    };
    tokio::time::timeout(BOUND, ready).await.unwrap();
    let asked = get(front.address(), "/");
    let cut = async {
        let (unanswered, _) = store.accept().await.unwrap();
        relay.cut().await;
        unanswered
    };
    let (answer, _unanswered) = tokio::time::timeout(BOUND, async { tokio::join!(asked, cut) })
        .await
        .unwrap();
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(
        events
            .recv()
            .await
            .unwrap()
            .contains("back is not reachable")
    );
    // The next request reconnects.
    let relay = Relay::start(back.address(), &through).await;
    let again = async { tokio::join!(get(front.address(), "/"), answer_one(&store)).0 };
    let again = tokio::time::timeout(BOUND, again).await.unwrap();
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(events.recv().await.unwrap(), "back is reachable again");
    relay.cut().await;
}

#[tokio::test]
async fn a_grpc_upstream_that_is_cut_off_fails_the_call_and_reconnects() {
    cut_during_a_call("grpc", "Get").await;
}

#[tokio::test]
async fn an_http_upstream_that_is_cut_off_fails_the_call_and_reconnects() {
    cut_during_a_call("http", "/").await;
}

#[tokio::test]
async fn an_http2_upstream_that_is_cut_off_fails_the_call_and_reconnects() {
    cut_during_a_call("http2", "/").await;
}

/// The first bytes that `front` sends to `back`, which has this protocol.
async fn first_bytes(protocol: &str) -> Vec<u8> {
    let two = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "calls": [{"service": "back", "path": "/"}]}]},
        {"name": "back", "protocol": protocol, "endpoints": [{"path": "/"}]},
    ]));
    let back = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (front, _events) = start_front(&two, back.local_addr().unwrap()).await;
    let read = async {
        let (mut stream, _) = back.accept().await.unwrap();
        let mut bytes = vec![0; 14];
        stream.read_exact(&mut bytes).await.unwrap();
        bytes
    };
    let both = async { tokio::join!(read, get(front.address(), "/")).0 };
    tokio::time::timeout(BOUND, both).await.unwrap()
}

#[tokio::test]
async fn calls_are_made_in_the_protocol_of_the_called_service() {
    assert_eq!(first_bytes("http2").await, b"PRI * HTTP/2.0");
    assert!(first_bytes("http").await.starts_with(b"GET / HTTP/1.1"));
}

#[tokio::test]
async fn malformed_requests_are_answered_and_the_server_continues() {
    let instance = start(&builtin("emojivoto").unwrap(), 1).await;
    let web = address(&instance, "web");
    for malformed in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    ] {
        let mut bytes = malformed.to_vec();
        bytes.extend(b"\r\n\r\n");
        let answer = raw(web, &bytes).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(text.starts_with("HTTP/1.1 400 "), "{malformed:?}: {text:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let text = String::from_utf8_lossy(&raw(web, long.as_bytes()).await).into_owned();
    assert!(text.starts_with("HTTP/1.1 4"), "{text:?}");
    // Over HTTP/1.1 a gRPC port answers the probes and nothing else.
    let emoji = address(&instance, "emoji");
    let answer = raw(emoji, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(answer.starts_with(b"HTTP/1.1 505 "));
    assert_eq!(get(emoji, "/tare/ready").await.status, 200);
    assert_eq!(get(web, "/api/list").await.status, 200);
    assert_eq!(counted(&instance, "web", "list"), (1, 0));
}

#[tokio::test]
async fn an_incomplete_request_body_counts_as_failed() {
    let one = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [{"path": "/"}]}]));
    let instance = start(&one, 1).await;
    let front = address(&instance, "front");
    let mut stream = TcpStream::connect(front).await.unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nhalf")
        .await
        .unwrap();
    drop(stream);
    let large =
        b"POST / HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: 99999999\r\n\r\n";
    let mut bytes = large.to_vec();
    bytes.extend(vec![b'x'; 17 << 20]);
    let text = String::from_utf8_lossy(&raw(front, &bytes).await).into_owned();
    assert!(
        text.is_empty() || text.starts_with("HTTP/1.1 413 "),
        "{text:?}"
    );
    assert_eq!(get(front, "/").await.status, 200);
    assert_eq!(counted(&instance, "front", "/"), (1, 2));
}

/// The `grpc-status` of a call with these bytes as its body.
pub(crate) async fn grpc_status(
    address: std::net::SocketAddr,
    path: &str,
    body: &'static [u8],
) -> String {
    let stream = TcpStream::connect(address).await.unwrap();
    let executor = hyper_util::rt::TokioExecutor::new();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut send, connection) = hyper::client::conn::http2::handshake(executor, io)
        .await
        .unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::post(format!("http://{address}{path}"))
        .header("content-type", "application/grpc")
        .body(http_body_util::Full::new(hyper::body::Bytes::from_static(
            body,
        )))
        .unwrap();
    let answered = tokio::time::timeout(BOUND, send.send_request(request));
    let response = answered.await.unwrap().unwrap();
    if let Some(status) = response.headers().get("grpc-status") {
        return status.to_str().unwrap().to_owned();
    }
    let body = http_body_util::BodyExt::collect(response.into_body());
    let body = body.await.unwrap();
    let trailers = body.trailers().expect("trailers");
    trailers["grpc-status"].to_str().unwrap().to_owned()
}

/// An empty message.
pub(crate) const EMPTY: &[u8] = b"\0\0\0\0\0";

#[tokio::test]
async fn malformed_grpc_calls_are_answered_with_a_status() {
    let instance = start(&builtin("emojivoto").unwrap(), 1).await;
    let emoji = address(&instance, "emoji");
    let find = "/emojivoto.v1.EmojiService/FindByShortcode";
    assert_eq!(grpc_status(emoji, find, EMPTY).await, "0");
    for unknown in ["/emojivoto.v1.EmojiService/Nope", "/nope", "/a/b/c"] {
        assert_eq!(grpc_status(emoji, unknown, EMPTY).await, "12", "{unknown}");
    }
    for broken in [
        &b""[..],                    // no message
        b"\0\0\0\0\x05\x0a",         // incomplete
        b"\0\0\0\0\x03\x0a\x7fx",    // a field longer than the message
        b"\0\0\0\0\x03\x0a\x01\xff", // not UTF-8
        b"\0\xff\xff\xff\xff",       // a length of 4 GiB
        b"\x01\0\0\0\0",             // compressed without an encoding
    ] {
        let status = grpc_status(emoji, find, broken).await;
        assert_ne!(status, "0", "{broken:?}");
    }
    assert_eq!(counted(&instance, "emoji", "FindByShortcode"), (1, 6));
    assert_eq!(counted(&instance, "emoji", "unknown"), (0, 3));
}

#[tokio::test]
async fn a_burst_of_connections_is_served_completely() {
    let instance = start(&builtin("emojivoto").unwrap(), 1).await;
    let web = address(&instance, "web");
    let all = (0..150).map(|_| get(web, "/api/leaderboard"));
    let answers = futures_util::future::join_all(all);
    let answers = tokio::time::timeout(BOUND, answers).await.unwrap();
    assert!(answers.iter().all(|a| a.status == 200));
    assert_eq!(counted(&instance, "web", "leaderboard"), (150, 0));
    assert_eq!(counted(&instance, "emoji", "FindByShortcode"), (1500, 0));
}
