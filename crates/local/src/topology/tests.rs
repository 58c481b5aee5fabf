//! The layout of pods.

use super::*;
use std::collections::BTreeSet;

pub(crate) fn workload(instances: u32) -> Workload {
    let graph = serde_json::json!({
        "name": "shop",
        "services": [
            {"name": "front", "protocol": "http", "endpoints": [
                {"path": "/", "calls": [{"parallel": [{"service": "back", "path": "Get"}]},
                                        {"parallel": [{"service": "back", "path": "Get"}]}]}]},
            {"name": "back", "protocol": "grpc", "endpoints": [{"path": "Get"}]},
        ],
        "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": "front", "path": "/"}]}],
    });
    Workload {
        graph: serde_json::from_value(graph).unwrap(),
        instances,
        mix: "default".to_owned(),
    }
}

/// `front` calls `middle`, which has two replicas and calls `back`, which has three.
fn replicated(protocol: ServiceProtocol) -> Topology {
    let service = |name: &str, replicas: u32, calls: &str| {
        let calls = [calls].into_iter().filter(|c| !c.is_empty());
        let calls: Vec<_> = calls
            .map(|c| serde_json::json!({"service": c, "path": "/"}))
            .collect();
        serde_json::json!({"name": name, "protocol": "http", "replicas": replicas,
            "endpoints": [{"path": "/", "calls": calls}]})
    };
    let mut workload = workload(2);
    let services = [
        service("front", 1, "middle"),
        service("middle", 2, "back"),
        service("back", 3, ""),
    ];
    workload.graph.services = services.map(|s| serde_json::from_value(s).unwrap()).into();
    for service in &mut workload.graph.services {
        service.protocol = protocol;
    }
    Topology::new(&workload, 70).unwrap()
}

#[test]
fn each_replica_is_a_pod_that_every_caller_reaches() {
    let t = replicated(ServiceProtocol::Http);
    let names: Vec<&str> = t.pods[1..7].iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "shop-0/front",
            "shop-0/middle.0",
            "shop-0/middle.1",
            "shop-0/back.0",
            "shop-0/back.1",
            "shop-0/back.2"
        ]
    );
    assert_eq!(t.pods.len(), 1 + 2 * 6);
    assert_eq!(
        (&t.pods[0].calls, &t.pods[1].calls),
        (&vec![1, 7], &vec![2, 3])
    );
    assert_eq!(
        (&t.pods[3].calls, &t.pods[6].callers),
        (&vec![4, 5, 6], &vec![2, 3])
    );
    assert_eq!(
        t.pods[4].identity, t.pods[6].identity,
        "as of a service account"
    );
    // Without a proxy at the caller, its connections are spread over all replicas.
    for (sides, port) in [
        (Sides(None), 15080),
        (Sides(Some(Placement::Server)), 15006),
    ] {
        let back = &t.upstreams(&t.pods[3], sides)["back"];
        let expected = [5, 6, 7].map(|host| format!("127.70.0.{host}:{port}"));
        assert_eq!(back.addresses().cloned().collect::<Vec<_>>(), expected);
        assert!(t.routes(&t.pods[3], sides).is_empty());
    }
    // With one, the proxy spreads the requests.
    for (placement, port) in [(Placement::Both, 15006), (Placement::Client, 15080)] {
        let sides = Sides(Some(placement));
        let back = &t.upstreams(&t.pods[3], sides)["back"];
        assert_eq!(
            (back.connect.as_str(), back.further.len()),
            ("127.70.0.4:15001", 0)
        );
        let routes = t.routes(&t.pods[3], sides);
        assert_eq!(
            (routes.len(), routes[0].authority.as_str()),
            (1, "back.shop-0")
        );
        let expected = [5, 6, 7].map(|host| format!("127.70.0.{host}:{port}"));
        let found = routes[0].addresses.iter().map(ToString::to_string);
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_generator_calls_fronts_and_fronts_call_their_own_backs() {
    let t = Topology::new(&workload(2), 70).unwrap();
    let names: Vec<&str> = t.pods.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "generator",
            "shop-0/front",
            "shop-0/back",
            "shop-1/front",
            "shop-1/back"
        ]
    );
    assert_eq!(t.pods[0].calls, [1, 3]);
    assert_eq!(t.pods[3].calls, [4], "two calls, one edge");
    assert_eq!(t.pods[4].callers, [3]);
    assert_eq!(t.pods[4].identity, "spiffe://tare.local/ns/shop-1/sa/back");
}

#[test]
fn calls_go_through_the_own_sidecar_or_directly_without_a_mesh() {
    let t = Topology::new(&workload(1), 70).unwrap();
    let (both, bare) = (Sides(Some(Placement::Both)), Sides(None));
    let meshed = t.upstreams(&t.pods[1], both);
    assert_eq!(meshed["back"].connect, "127.70.0.2:15001");
    assert_eq!(meshed["back"].authority, "back.shop-0");
    assert_eq!(
        t.upstreams(&t.pods[1], bare)["back"].connect,
        "127.70.0.3:15080"
    );
    let key = ("shop-0".to_owned(), "front".to_owned());
    assert_eq!(t.targets(both)[&key].connect, "127.70.0.1:15001");
    assert_eq!(t.targets(bare)[&key].connect, "127.70.0.2:15080");
    assert_eq!(t.targets(both).len(), 1, "only the services in the mix");
    assert_eq!(
        t.routes(&t.pods[1], both)[0].addresses[0].to_string(),
        "127.70.0.3:15006"
    );
}

/// Where the generator connects to, where its sidecar leads, and the same of the front; then the pods
/// with a sidecar.
#[test]
fn only_the_sides_of_the_placement_are_in_the_path() {
    let t = Topology::new(&workload(1), 70).unwrap();
    let (generator, front) = (&t.pods[0], &t.pods[1]);
    let key = ("shop-0".to_owned(), "front".to_owned());
    let way = |placement| {
        let sides = Sides(Some(placement));
        let first = [
            t.targets(sides)[&key].connect.clone(),
            t.upstreams(front, sides)["back"].connect.clone(),
        ];
        let route = |pod| {
            t.routes(pod, sides)
                .first()
                .map(|r| r.addresses[0].to_string())
        };
        let with = t.pods.iter().filter(|pod| pod.has_sidecar(sides));
        let with: Vec<&str> = with.map(|p| p.name.as_str()).collect();
        (first, [route(generator), route(front)], with)
    };
    let (first, routes, with) = way(Placement::Client);
    assert_eq!(first, ["127.70.0.1:15001", "127.70.0.2:15001"]);
    let to = |s: &str| Some(s.to_owned());
    assert_eq!(routes, [to("127.70.0.2:15080"), to("127.70.0.3:15080")]);
    assert_eq!(with, ["generator", "shop-0/front"]);
    let (first, routes, with) = way(Placement::Server);
    assert_eq!(first, ["127.70.0.2:15006", "127.70.0.3:15006"]);
    assert_eq!(
        (routes, with),
        ([None, None], vec!["shop-0/front", "shop-0/back"])
    );
    let (first, routes, with) = way(Placement::Entry);
    assert_eq!(first, ["127.70.0.2:15006", "127.70.0.3:15080"]);
    assert_eq!((routes, with), ([None, None], vec!["shop-0/front"]));
    let (first, routes, with) = way(Placement::Both);
    assert_eq!(first, ["127.70.0.1:15001", "127.70.0.2:15001"]);
    assert_eq!(routes, [to("127.70.0.2:15006"), to("127.70.0.3:15006")]);
    assert_eq!(with.len(), 3);
}

#[test]
fn calls_of_each_tcp_service_have_a_port_of_their_own() {
    let mut workload = workload(2);
    for service in &mut workload.graph.services {
        service.protocol = ServiceProtocol::Tcp;
    }
    let t = Topology::new(&workload, 70).unwrap();
    let both = Sides(Some(Placement::Both));
    let targets = t.targets(both);
    let connect: Vec<&str> = targets.values().map(|t| t.connect.as_str()).collect();
    assert_eq!(connect, ["127.70.0.1:15100", "127.70.0.1:15101"]);
    assert_eq!(
        t.upstreams(&t.pods[1], both)["back"].connect,
        "127.70.0.2:15100"
    );
    let routes = t.routes(&t.pods[0], both);
    let listen: Vec<String> = routes.iter().map(|r| r.listen.to_string()).collect();
    assert_eq!(listen, connect);
    assert_eq!(routes[1].addresses[0].to_string(), "127.70.0.4:15006");
    // Without a proxy at the caller, the path is that of HTTP.
    let key = ("shop-1".to_owned(), "front".to_owned());
    let server = t.targets(Sides(Some(Placement::Server)));
    assert_eq!(server[&key].connect, "127.70.0.4:15006");

    workload.instances = TCP_CALLS_MAX as u32 + 1;
    assert_eq!(Topology::new(&workload, 70), None, "too few ports");
    workload.graph.services[0].protocol = ServiceProtocol::Http;
    let front = Topology::new(&workload, 70).unwrap();
    let ports = front.tcp_outbound().map(|a| a.port());
    assert_eq!(ports.collect::<BTreeSet<u16>>(), [15100].into());
}

#[test]
fn the_replicas_of_a_tcp_service_have_one_port_at_each_caller() {
    let t = replicated(ServiceProtocol::Tcp);
    let ports = t.tcp_outbound().map(|a| a.port());
    // Two fronts for the generator, and one service for each of the others.
    assert_eq!(ports.collect::<BTreeSet<u16>>(), [15100, 15101].into());
    let routes = t.routes(&t.pods[3], Sides(Some(Placement::Both)));
    assert_eq!(routes.len(), 1);
    assert_eq!(routes[0].listen.to_string(), "127.70.0.4:15100");
    let found = routes[0].addresses.iter().map(ToString::to_string);
    let expected = [5, 6, 7].map(|host| format!("127.70.0.{host}:15006"));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let sides = Sides(Some(Placement::Server));
    let back = &t.upstreams(&t.pods[3], sides)["back"];
    assert_eq!(back.addresses().cloned().collect::<Vec<_>>(), expected);
}

#[test]
fn addresses_are_distinct_and_valid_for_hosts() {
    let t = Topology::new(&workload(400), 70).unwrap();
    let ips: BTreeSet<Ipv4Addr> = t.pods.iter().map(|p| p.ip).collect();
    assert_eq!(ips.len(), 801);
    assert!(ips.iter().all(|ip| !matches!(ip.octets()[3], 0 | 255)));
    assert_eq!(Topology::new(&workload(40_000), 70), None);
}

#[test]
fn a_sidecar_of_a_mesh_file_has_a_port_for_each_called_service() {
    let both = Sides(Some(Placement::Both));
    let ports = |has_port_per_service| {
        let mut t = Topology::new(&workload(2), 70).unwrap();
        for pod in &mut t.pods {
            pod.has_port_per_service = has_port_per_service;
        }
        let routes = t.routes(&t.pods[0], both).into_iter();
        routes.map(|r| r.listen.port()).collect::<Vec<_>>()
    };
    // The generator calls a service in each of two instances.
    assert_eq!(ports(true), [15100, 15101]);
    assert_eq!(ports(false), [15001, 15001]);
}

#[test]
fn calls_to_a_service_outside_the_mesh_pass_the_sidecar_of_the_caller_or_none() {
    let mut workload = workload(1);
    let back = &mut workload.graph.services[1];
    (back.protocol, back.external) = (ServiceProtocol::Tcp, true);
    let both = Sides(Some(Placement::Both));
    let way = |external| {
        let t = Topology::new(&workload, 70)
            .unwrap()
            .with_external(external);
        let (front, back) = (&t.pods[1], &t.pods[2]);
        let routes = t.routes(front, both).into_iter();
        let routes: Vec<_> = routes
            .map(|r| (r.addresses[0].to_string(), r.identity.is_some()))
            .collect();
        let first = t.upstreams(front, both)["back"].connect.clone();
        (first, routes, back.has_sidecar(both))
    };
    let (sidecar, back) = ("127.70.0.2:15100".to_owned(), "127.70.0.3:15080".to_owned());
    let outside = (sidecar.clone(), vec![(back.clone(), false)], false);
    assert_eq!(way(External::Outside), outside);
    assert_eq!(way(External::Direct), (back, vec![], false));
    let meshed = vec![("127.70.0.3:15006".to_owned(), true)];
    assert_eq!(way(External::Meshed), (sidecar, meshed, true));
}
