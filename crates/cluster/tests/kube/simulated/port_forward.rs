//! Forwarded ports of the simulated API server.

use std::path::PathBuf;

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// What the ports of a pod serve.
pub(crate) struct Behind {
    /// Numbered records of a worker.
    pub(crate) records: Vec<String>,
    /// Directory that is sent.
    pub(crate) files: PathBuf,
    /// Whether the connection breaks in the middle of the files.
    pub(crate) breaks: bool,
    /// How far the clock of the worker is ahead.
    pub(crate) ahead_ns: i64,
}

impl Behind {
    fn answer(&self, port: u16, request: &str) -> Vec<u8> {
        if port == tare_cluster::transfer::PORT {
            let mut bytes = Vec::new();
            tare_cluster::transfer::answer(&self.files, request, &mut bytes).unwrap();
            let sent = if self.breaks {
                bytes.len() / 2
            } else {
                bytes.len()
            };
            return bytes[..sent].to_owned();
        }
        if request == "clock\n" {
            let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            return format!("clock {}\n", now.as_nanos() as i64 + self.ahead_ns).into_bytes();
        }
        let from: usize = request.trim().parse().unwrap();
        let lines: String = self.records.iter().skip(from - 1).cloned().collect();
        format!("{lines}end {}\n", self.records.len() + 1).into_bytes()
    }
}

/// Forwards a port behind which a worker serves its numbered records, or a reader its files: subprotocol `v4.channel.k8s.io`, with the data in
/// channel 0 and errors in channel 1.
pub(crate) fn forward(mut request: Request<Incoming>, behind: Behind) -> Response<Full<Bytes>> {
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
        let mut request = Vec::new();
        while let Some(Ok(message)) = socket.next().await {
            let data = message.into_data();
            let Some(asked) = data.strip_prefix(&[0]).filter(|d| !d.is_empty()) else {
                continue;
            };
            request.extend_from_slice(asked);
            if request.last() != Some(&b'\n') {
                continue;
            }
            let answer = behind.answer(port, std::str::from_utf8(&request).unwrap());
            request.clear();
            for part in answer.chunks(16 << 10) {
                let data = [&[0], part].concat();
                socket.send(Message::binary(data)).await.unwrap();
            }
            if behind.breaks {
                return;
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
