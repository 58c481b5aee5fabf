//! Records that a log has lost are read again from the worker, through a forwarded port.

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tare_analysis::LoadStream;
use tare_model::trial::{Event, EventKind};
use tare_run::environment::{Environment, WorkerSpec};
use tare_run::kube::role_yaml;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::rbac::Roles;
use crate::server::Server;
use crate::{INJECTED, deploy, folder, lines_of, load, plan, prepared};

/// Forwards a port behind which a worker serves its numbered records: subprotocol `v4.channel.k8s.io`, with the data in
/// channel 0 and errors in channel 1.
pub(crate) fn forward(mut request: Request<Incoming>, kept: Vec<String>) -> Response<Full<Bytes>> {
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

/// Returns the lines of a trial's generators, and the events of the trial.
async fn measured(server: &Server, generators: u32) -> (Vec<String>, Vec<Event>) {
    let mut plan = plan(server, 1, INJECTED);
    crate::set(&mut plan, |k| k.generators = generators);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    let generator = WorkerSpec::Generator(load());
    let generator = cluster.start(&mut deployment, generator, dir.path()).await;
    let lines = lines_of(generator.unwrap()).await;
    let events = cluster.teardown(deployment).await;
    cluster.close().await;
    (lines, events)
}

fn requests(lines: &[String]) -> Option<u64> {
    let mut stream = LoadStream::new();
    for line in lines {
        stream.line(line).unwrap();
    }
    Some(stream.finish().ok()?.counts.ok)
}

fn rereads(events: &[Event]) -> Vec<&str> {
    let of_kind = events.iter().filter(|e| e.kind == EventKind::LogReread);
    of_kind.map(|e| e.found.as_str()).collect()
}

#[tokio::test]
async fn records_that_a_rotated_log_has_lost_are_read_again() {
    let whole = requests(&measured(&Server::start(3).await, 2).await.0);
    assert!(whole.is_some_and(|count| count > 0));
    let server = Server::start(3).await;
    server.world.lock().unwrap().rotated_logs = 2;
    let (lines, events) = measured(&server, 2).await;
    assert_eq!(requests(&lines), whole, "{events:?}");
    let found = rereads(&events);
    assert_eq!(found.len(), 2, "{found:?}");
    for found in found {
        assert!(found.starts_with("its log lost records 1 to "), "{found}");
        assert!(
            found.ends_with("they were read again from the worker"),
            "{found}"
        );
    }
}

#[tokio::test]
async fn records_that_nobody_keeps_make_the_stream_incomplete() {
    let server = Server::start(3).await;
    {
        let mut world = server.world.lock().unwrap();
        world.rotated_logs = 1;
        world.forgets_records = true;
    }
    let (lines, events) = measured(&server, 1).await;
    assert_eq!(requests(&lines), None);
    let found = rereads(&events).join(", ");
    assert!(
        found.ends_with("the worker no longer keeps them"),
        "{found}"
    );
}

#[tokio::test]
async fn a_missing_right_to_forward_ports_is_named() {
    let server = Server::start(3).await;
    let role = role_yaml(plan(&server, 1, INJECTED).kubernetes.as_ref().unwrap());
    let without = role.replace("resources: [pods/portforward]", "resources: [others]");
    assert_ne!(role, without);
    {
        let mut world = server.world.lock().unwrap();
        world.rotated_logs = 1;
        world.roles = Some(Roles::read(&without));
    }
    let (lines, events) = measured(&server, 1).await;
    assert_eq!(requests(&lines), None);
    let found = rereads(&events).join(", ");
    assert!(found.contains("the role needs pods/portforward"), "{found}");
}
