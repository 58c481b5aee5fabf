//! Services that listen on IPv6.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};

use serde_json::json;
use tare_records::worker::{Upstream, WorkloadSpec};
use tare_workload::Server;

use crate::client::{get, graph};

/// A machine without IPv6 has no address `::1`; then there is nothing to test.
#[tokio::test]
async fn services_listen_on_ipv6_and_call_each_other_over_it() {
    let shop = graph(json!([
        {"name": "front", "protocol": "http",
            "endpoints": [{"path": "/", "calls": [{"service": "back", "path": "/"}]}]},
        {"name": "back", "protocol": "http", "endpoints": [{"path": "/"}]},
    ]));
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let spec = |service: &str| WorkloadSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        graph: shop.clone(),
        service: service.to_owned(),
        instance: "shop-0".to_owned(),
        listen: "[::]:0".to_owned(),
        upstreams: BTreeMap::new(),
        seed: 1,
    };
    let loopback =
        |server: &Server| SocketAddr::from((Ipv6Addr::LOCALHOST, server.address().port()));
    let (back, _) = Server::start(&spec("back")).await.unwrap();
    let to_back = Upstream::new(loopback(&back).to_string(), "back");
    assert!(to_back.connect.starts_with("[::1]:"), "{to_back:?}");
    let (front, _) = Server::start(&WorkloadSpec {
        upstreams: [("back".to_owned(), to_back)].into(),
        ..spec("front")
    })
    .await
    .unwrap();
    assert_eq!(get(loopback(&front), "/").await.status, 200);
    let served: u64 = back.tally().served.values().sum();
    assert_eq!(served, 1, "the call arrived over IPv6");
}
