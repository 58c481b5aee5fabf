//! Services time their calls: what is counted, and that a delay is found where it was planted.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tare_model::calls::ServiceCalls;
use tare_model::worker::{Upstream, WorkloadSpec};
use tare_workload::Server;

use crate::client::{get, graph};

const MS_NS: u64 = 1_000_000;

/// Forwards connections to `to`, and delays what the client sends by a time that can change.
struct Relay {
    address: SocketAddr,
    delay_ns: Arc<AtomicU64>,
}

impl Relay {
    fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let delay_ns = Arc::new(AtomicU64::new(0));
        let delay = delay_ns.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(to).unwrap());
                let (from, into) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let delay = delay.clone();
                std::thread::spawn(move || copy(from, into, &delay));
                std::thread::spawn(move || copy(server, client, &AtomicU64::new(0)));
            }
        });
        Self { address, delay_ns }
    }
}

fn copy(mut from: TcpStream, mut into: TcpStream, delay_ns: &AtomicU64) {
    into.set_nodelay(true).unwrap();
    let mut bytes = [0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        match delay_ns.load(Ordering::Relaxed) {
            0 => {}
            ns => std::thread::sleep(Duration::from_nanos(ns)),
        }
        if into.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Write);
}

fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_nanos() as u64
}

/// Announces a window that starts soon, and waits until it has started.
async fn announce(services: &[SocketAddr]) {
    let start = unix_ns() + 2_000 * MS_NS;
    let path = format!(
        "/tare/window?start_unix_ns={start}&window_ns={}",
        3_600_000 * MS_NS
    );
    for service in services {
        assert_eq!(get(*service, &path).await.status, 200);
    }
    while unix_ns() < start {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn calls(service: SocketAddr) -> ServiceCalls {
    let answer = get(service, "/tare/calls").await;
    serde_json::from_slice(&answer.body).unwrap()
}

/// `front` calls `back` through the relay, and `store` directly.
struct Shop {
    relay: Relay,
    front: Server,
    _others: [Server; 2],
    services: [SocketAddr; 3],
}

async fn shop() -> Shop {
    let call =
        |service: &str, path: &str| json!({"parallel": [{"service": service, "path": path}]});
    let shop = graph(json!([
        {"name": "front", "protocol": "http", "endpoints": [
            {"path": "/", "calls": [call("back", "Get"), call("store", "/item")]}]},
        {"name": "back", "protocol": "grpc", "endpoints": [{"path": "Get"}]},
        {"name": "store", "protocol": "http", "endpoints": [{"path": "/item"}]},
    ]));
    let start = async |service: &str, upstreams: &[(&str, SocketAddr)]| {
        let upstream = |(name, address): &(&str, SocketAddr)| {
            (
                (*name).to_owned(),
                Upstream::new(address.to_string(), *name),
            )
        };
        let spec = WorkloadSpec {
            schema_version: tare_model::SCHEMA_VERSION,
            graph: shop.clone(),
            service: service.to_owned(),
            instance: "shop-0".to_owned(),
            listen: "127.0.0.1:0".to_owned(),
            upstreams: upstreams.iter().map(upstream).collect(),
            seed: 1,
        };
        Server::start(&spec).await.unwrap().0
    };
    let (back, store) = (start("back", &[]).await, start("store", &[]).await);
    let relay = Relay::start(back.address());
    let upstreams = [("back", relay.address), ("store", store.address())];
    let front = start("front", &upstreams).await;
    Shop {
        services: [front.address(), back.address(), store.address()],
        relay,
        front,
        _others: [back, store],
    }
}

#[tokio::test]
async fn calls_are_counted_by_both_sides_in_the_window_only() {
    let shop = shop().await;
    let [front, back, store] = shop.services;
    assert_eq!(get(front, "/tare/calls").await.status, 404);
    let late = format!("/tare/window?start_unix_ns={}&window_ns=1", unix_ns() - 1);
    assert_eq!(get(front, &late).await.status, 409);
    assert_eq!(get(front, "/tare/window?window_ns=1").await.status, 400);
    get(front, "/").await;
    announce(&shop.services).await;
    for _ in 0..3 {
        assert_eq!(get(front, "/").await.status, 200);
    }
    assert_eq!(get(front, "/unknown").await.status, 404);
    let found = calls(front).await;
    let seen: Vec<(&str, &str, u64)> = found
        .outgoing
        .iter()
        .map(|c| (&*c.service, &*c.endpoint, c.latency.count))
        .collect();
    assert_eq!(seen, [("back", "Get", 3), ("store", "/item", 3)]);
    for (address, service, endpoint) in [
        (front, "front", "/"),
        (back, "back", "Get"),
        (store, "store", "/item"),
    ] {
        let found = calls(address).await;
        assert_eq!((found.service.as_str(), found.incoming.len()), (service, 1));
        let only = &found.incoming[0];
        assert_eq!((only.endpoint.as_str(), only.latency.count), (endpoint, 3));
    }
    // The calls are within the request that made them.
    let within: u128 = found.outgoing.iter().map(|c| c.latency.sum_ns).sum();
    assert!(found.incoming[0].latency.sum_ns > within);
    assert_eq!(shop.front.tally().served["/"], 4);
}

/// The fastest of many calls decides: other programs on the machine make calls slower, and none
/// faster. Rounds with and without the delay alternate.
#[tokio::test]
async fn a_planted_delay_is_on_its_edge_and_on_no_other() {
    const ROUNDS: usize = 8;
    const REQUESTS: usize = 25;
    let shop = shop().await;
    let [front, back, store] = shop.services;
    // By service: the caller's view of its calls, and its own; without the delay and with it.
    let mut fastest = [[[u64::MAX; 2]; 2]; 2];
    for round in 0..ROUNDS {
        let planted = round % 2;
        let delay = planted as u64 * MS_NS;
        shop.relay.delay_ns.store(delay, Ordering::Relaxed);
        announce(&shop.services).await;
        for _ in 0..REQUESTS {
            assert_eq!(get(front, "/").await.status, 200);
        }
        let callers = calls(front).await.outgoing;
        for (i, address) in [back, store].into_iter().enumerate() {
            let own = calls(address).await.incoming;
            let views = [&callers[i], &own[0]].map(|c| c.latency.min_ns);
            for (least, ns) in fastest[planted][i].iter_mut().zip(views) {
                *least = ns.min(*least);
            }
        }
    }
    let between = |planted: usize, service: usize| {
        let [caller, callee] = fastest[planted][service].map(|ns| ns as f64 / MS_NS as f64);
        caller - callee
    };
    let [to_back, to_store] = [0, 1].map(|service| between(1, service) - between(0, service));
    assert!((0.8..1.3).contains(&to_back), "{to_back} ms: {fastest:?}");
    assert!(to_store.abs() < 0.3, "{to_store} ms: {fastest:?}");
}
