//! Calls to a service with several replicas.

use serde_json::json;
use tare_records::worker::{Upstream, WorkloadSpec};
use tare_workload::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::client::{get, graph};

/// The replicas answer only after they have received all four requests, so none of the connections is used
/// twice.
#[tokio::test]
async fn new_connections_go_to_the_replicas_in_turn() {
    let calls = vec![json!({"service": "back", "path": "/"}); 4];
    let shop = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [{"path": "/", "calls": [{"parallel": calls}]}]},
        {"name": "back", "protocol": "http", "replicas": 2, "endpoints": [{"path": "/"}]},
    ]));
    let [one, two] = [
        TcpListener::bind("127.0.0.1:0"),
        TcpListener::bind("127.0.0.1:0"),
    ];
    let (one, two) = (one.await.unwrap(), two.await.unwrap());
    let address = |replica: &TcpListener| replica.local_addr().unwrap().to_string();
    let back = Upstream {
        further: vec![address(&two)],
        ..Upstream::new(address(&one), "back")
    };
    let spec = WorkloadSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        graph: shop,
        service: "front".to_owned(),
        instance: "shop-0".to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        upstreams: [("back".to_owned(), back)].into(),
        seed: 1,
    };
    let (front, _) = Server::start(&spec).await.unwrap();
    let (asked, mut received) = tokio::sync::mpsc::channel(4);
    for (place, replica) in [one, two].into_iter().enumerate() {
        let asked = asked.clone();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = replica.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    stream.read_buf(&mut request).await.unwrap();
                }
                asked.send((place, stream)).await.unwrap();
            }
        });
    }
    let answering = tokio::spawn(async move {
        let mut requests = Vec::new();
        while requests.len() < 4 {
            requests.push(received.recv().await.unwrap());
        }
        for (_, stream) in &mut requests {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
        [0, 1].map(|replica| {
            requests
                .iter()
                .filter(|(place, _)| *place == replica)
                .count()
        })
    });
    assert_eq!(get(front.address(), "/").await.status, 200);
    assert_eq!(answering.await.unwrap(), [2, 2]);
}
