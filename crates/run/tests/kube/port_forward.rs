//! Forwarded ports of the simulated API server.

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Forwards a port behind which a worker serves its numbered records: subprotocol `v4.channel.k8s.io`, with the data in
/// channel 0 and errors in channel 1. The clock of the worker is ahead by `ahead_ns`.
pub(crate) fn forward(
    mut request: Request<Incoming>,
    kept: Vec<String>,
    ahead_ns: i64,
) -> Response<Full<Bytes>> {
    let key = &request.headers()["sec-websocket-key"];
    let accept = derive_accept_key(key.as_bytes());
    let query = request.uri().query().unwrap_or("");
    let port = query
        .split_once("ports=")
        .unwrap()
        .1
        .parse::<u16>()
        .unwrap();
    tokio::spawn(async move {
        let upgraded = hyper::upgrade::on(&mut request).await.unwrap();
        let mut socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        let [low, high] = port.to_le_bytes();
        for channel in [0, 1] {
            let head = Message::binary(vec![channel, low, high]);
            socket.send(head).await.unwrap();
        }
        while let Some(Ok(message)) = socket.next().await {
            let data = message.into_data();
            let Some(asked) = data.strip_prefix(&[0]).filter(|d| !d.is_empty()) else {
                continue;
            };
            if asked == b"clock\n" {
                let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
                let clock = format!("clock {}\n", now.as_nanos() as i64 + ahead_ns);
                let data = [&[0], clock.as_bytes()].concat();
                socket.send(Message::binary(data)).await.unwrap();
                continue;
            }
            let from: usize = std::str::from_utf8(asked).unwrap().trim().parse().unwrap();
            let lines = kept.iter().skip(from - 1).cloned();
            let end = format!("end {}\n", kept.len() + 1);
            for line in lines.chain([end]) {
                let data = [&[0], line.as_bytes()].concat();
                socket.send(Message::binary(data)).await.unwrap();
            }
        }
    });
    Response::builder()
        .status(StatusCode::SWITCHING_PROTOCOLS)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-accept", accept)
        .header("sec-websocket-protocol", "v4.channel.k8s.io")
        .body(Full::default())
        .unwrap()
}
