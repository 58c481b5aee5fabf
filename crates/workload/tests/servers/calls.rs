//! Services time their calls: what is counted, and that a delay is found where it was planted.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tare_records::calls::ServiceCalls;
use tare_records::worker::{Upstream, WorkloadSpec};
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

/// Announces a window that starts soon, and waits until it has started. If the machine stops until
/// then, the window is refused and announced again.
async fn announce(services: &[SocketAddr]) {
    let until = Instant::now() + Duration::from_secs(60);
    let (mut start, mut known) = (0, false);
    while !known {
        assert!(Instant::now() < until);
        start = unix_ns() + 2_000 * MS_NS;
        let window_ns = 3_600_000 * MS_NS;
        let path = format!("/tare/window?start_unix_ns={start}&window_ns={window_ns}");
        known = true;
        for service in services {
            let status = get(*service, &path).await.status;
            assert!([200, 409].contains(&status), "{status}");
            known &= status == 200;
        }
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
            schema_version: tare_plan::SCHEMA_VERSION,
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

/// What is compared holds for every call on every machine, however slow: the relay holds each
/// request for at least the delay, after its caller started to wait and before the callee received
/// it; and both calls of `front`, one after the other, are within the client's request. A delay
/// counted twice, or on the other edge as well, is more than the client waited.
#[tokio::test]
async fn a_planted_delay_is_on_its_edge_and_on_no_other() {
    const REQUESTS: u64 = 25;
    const DELAY_NS: u64 = 20 * MS_NS;
    let shop = shop().await;
    let [front, back, store] = shop.services;
    shop.relay.delay_ns.store(DELAY_NS, Ordering::Relaxed);
    announce(&shop.services).await;
    let mut waited_ns = 0;
    for _ in 0..REQUESTS {
        let sent = Instant::now();
        assert_eq!(get(front, "/").await.status, 200);
        waited_ns += sent.elapsed().as_nanos();
    }
    let [to_back, to_store] = &calls(front).await.outgoing[..] else {
        panic!("front calls two services");
    };
    let [in_back, in_store] = [calls(back).await, calls(store).await];
    let [in_back, in_store] = [&in_back.incoming[0].latency, &in_store.incoming[0].latency];
    let [to_back, to_store] = [&to_back.latency, &to_store.latency];
    for view in [to_back, to_store, in_back, in_store] {
        assert_eq!(view.count, REQUESTS);
    }
    let planted_ns = u128::from(REQUESTS * DELAY_NS);
    assert!(to_back.min_ns >= in_back.min_ns + DELAY_NS);
    assert!(to_back.sum_ns >= in_back.sum_ns + planted_ns);
    assert!(to_store.sum_ns >= in_store.sum_ns);
    assert!(to_back.sum_ns + to_store.sum_ns <= waited_ns);
}
