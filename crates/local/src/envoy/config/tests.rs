use super::*;
use std::net::Ipv4Addr;

pub(in crate::envoy) fn proxy(tls: bool) -> Proxy {
    let at = |host, port| SocketAddrV4::new(Ipv4Addr::new(127, 70, 0, host), port);
    let file = |name: &str| PathBuf::from("/keys").join(name);
    Proxy {
        name: "shop-0/front".to_owned(),
        admin: "/tmp/front.sock".into(),
        routes: vec![Route {
            authority: "back.shop-0".to_owned(),
            protocol: ServiceProtocol::Grpc,
            listen: at(2, 15001),
            any_host: false,
            addresses: vec![at(3, 15006), at(4, 15006)],
            identity: Some("spiffe://tare.local/ns/shop-0/sa/back".to_owned()),
        }],
        inbound: Some(Inbound {
            listen: at(2, 15006),
            application: at(2, 15080),
            protocol: ServiceProtocol::Http,
            callers: vec!["spiffe://tare.local/ns/tare/sa/generator".to_owned()],
        }),
        tls: tls.then(|| TlsFiles {
            certificate: file("front.crt"),
            key: file("front.key"),
            authority: file("ca.crt"),
        }),
        settings: MeshSettings {
            mtls: if tls { Mtls::Strict } else { Mtls::Off },
            ..MeshSettings::default()
        },
        access_log: "/logs/front.access.log".into(),
        feature: None,
    }
}

fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value
        .pointer(pointer)
        .unwrap_or_else(|| panic!("no value at {pointer}"))
}

#[test]
fn mutual_tls_checks_the_identity_of_both_peers() {
    let b = bootstrap(&proxy(true));
    let down = at(
        &b,
        "/static_resources/listeners/0/filter_chains/0/transport_socket/typed_config",
    );
    assert_eq!(at(down, "/require_client_certificate"), true);
    let san =
        "/common_tls_context/validation_context/match_typed_subject_alt_names/0/matcher/exact";
    assert_eq!(at(down, san), "spiffe://tare.local/ns/tare/sa/generator");
    let up = at(
        &b,
        "/static_resources/clusters/1/transport_socket/typed_config",
    );
    assert_eq!(at(up, san), "spiffe://tare.local/ns/shop-0/sa/back");
    for side in [down, up] {
        let params = at(side, "/common_tls_context/tls_params");
        assert_eq!(at(params, "/tls_minimum_protocol_version"), "TLSv1_3");
    }
    // The connection from the sidecar to its own application has no TLS.
    assert!(
        b.pointer("/static_resources/clusters/0/transport_socket")
            .is_none()
    );
    assert!(!b.to_string().contains("PRIVATE KEY"));
}

#[test]
fn without_client_certificates_only_the_server_is_checked() {
    let mut p = proxy(true);
    p.settings.mtls = Mtls::Server;
    let b = bootstrap(&p);
    let down = at(
        &b,
        "/static_resources/listeners/0/filter_chains/0/transport_socket/typed_config",
    );
    assert!(down.get("require_client_certificate").is_none());
    assert!(
        down.pointer("/common_tls_context/validation_context")
            .is_none()
    );
    at(down, "/common_tls_context/tls_certificates/0");
    let up = at(
        &b,
        "/static_resources/clusters/1/transport_socket/typed_config/common_tls_context",
    );
    assert!(up.get("tls_certificates").is_none());
    let san = "/validation_context/match_typed_subject_alt_names/0/matcher/exact";
    assert_eq!(at(up, san), "spiffe://tare.local/ns/shop-0/sa/back");
    assert!(!b.to_string().contains("forward_client_cert"));
}

#[test]
fn without_mtls_the_configuration_has_no_tls() {
    let text = bootstrap(&proxy(false)).to_string();
    assert!(!text.contains("transport_socket") && !text.contains("forward_client_cert"));
}

#[test]
fn tcp_services_have_tcp_proxies_and_listeners_of_their_own() {
    let mut p = proxy(true);
    let http = bootstrap(&p);
    let mut tcp = p.routes[0].clone();
    tcp.authority = "store.shop-0".to_owned();
    tcp.protocol = ServiceProtocol::Tcp;
    tcp.listen.set_port(15101);
    p.routes.push(tcp);
    p.inbound.as_mut().unwrap().protocol = ServiceProtocol::Tcp;
    let b = bootstrap(&p);
    let listeners = at(&b, "/static_resources/listeners").as_array().unwrap();
    let names: Vec<_> = listeners.iter().map(|l| &l["name"]).collect();
    assert_eq!(names, ["inbound", "outbound", "outbound.store.shop-0"]);
    for (place, prefix, cluster) in [
        (0, "inbound", "application"),
        (2, "outbound.store.shop-0", "store.shop-0"),
    ] {
        let filters = at(&listeners[place], "/filter_chains/0/filters");
        assert_eq!(filters.as_array().unwrap().len(), 1);
        assert_eq!(filters[0]["name"], "envoy.filters.network.tcp_proxy");
        let proxy = &filters[0]["typed_config"];
        assert_eq!(
            (&proxy["stat_prefix"], &proxy["cluster"]),
            (&json!(prefix), &json!(cluster))
        );
        assert_eq!(proxy["idle_timeout"], "0s");
    }
    let port = at(&listeners[2], "/address/socket_address/port_value");
    assert_eq!(port, 15101);
    // The listener for HTTP has the other service only, and both sides have the same TLS.
    let manager = at(&listeners[1], "/filter_chains/0/filters/0/typed_config");
    let hosts = at(manager, "/route_config/virtual_hosts")
        .as_array()
        .unwrap();
    assert_eq!(hosts.len(), 1);
    let socket = "/static_resources/listeners/0/filter_chains/0/transport_socket";
    assert_eq!(at(&b, socket), at(&http, socket));
    let clusters = at(&b, "/static_resources/clusters").as_array().unwrap();
    let options = |i: usize| clusters[i].get("typed_extension_protocol_options");
    assert_eq!((options(0), options(2)), (None, None));
    assert!(options(1).is_some());
    let san = "/transport_socket/typed_config/common_tls_context/validation_context/match_typed_subject_alt_names";
    assert_eq!(at(&clusters[2], san), at(&clusters[1], san));
}

#[test]
fn nothing_is_retried_timed_out_or_limited() {
    let b = bootstrap(&proxy(false));
    for listener in b["static_resources"]["listeners"].as_array().unwrap() {
        let manager = at(listener, "/filter_chains/0/filters/0/typed_config");
        for route in at(manager, "/route_config/virtual_hosts/0/routes")
            .as_array()
            .unwrap()
        {
            assert_eq!(at(route, "/route/timeout"), "0s");
            assert_eq!(at(route, "/route/retry_policy/num_retries"), 0);
        }
        assert_eq!(manager["stream_idle_timeout"], "0s");
    }
    for cluster in b["static_resources"]["clusters"].as_array().unwrap() {
        assert_eq!(
            at(cluster, "/circuit_breakers/thresholds/0/max_requests"),
            UNREACHABLE
        );
    }
}

#[test]
fn settings_of_the_mesh_are_in_the_configuration() {
    let mut p = proxy(false);
    assert!(bootstrap(&p).get("stats_config").is_none());
    assert!(!bootstrap(&p).to_string().contains("access_log"));
    p.settings = MeshSettings {
        l7_stats: false,
        access_log: true,
        concurrency: 2,
        ..MeshSettings::default()
    };
    let b = bootstrap(&p);
    assert!(
        b["stats_config"]
            .to_string()
            .contains("downstream_rq_total")
    );
    assert!(b.to_string().contains("/logs/front.access.log"));
    let arguments = arguments(Path::new("/c.json"), &p.settings);
    assert_eq!(
        arguments[..4],
        ["--config-path", "/c.json", "--concurrency", "2"]
    );
}

#[test]
fn requests_go_to_the_replicas_of_a_service_in_turn() {
    let b = bootstrap(&proxy(true));
    let cluster = at(&b, "/static_resources/clusters/1");
    assert_eq!(cluster["lb_policy"], "ROUND_ROBIN");
    let endpoints = at(cluster, "/load_assignment/endpoints/0/lb_endpoints");
    let hosts = endpoints.as_array().unwrap().iter();
    let hosts: Vec<&Value> = hosts
        .map(|e| at(e, "/endpoint/address/socket_address/address"))
        .collect();
    assert_eq!(hosts, ["127.70.0.3", "127.70.0.4"]);
}

#[test]
fn the_generators_sidecar_has_no_inbound_listener() {
    let b = bootstrap(&Proxy {
        inbound: None,
        ..proxy(false)
    });
    let listeners = b["static_resources"]["listeners"].as_array().unwrap();
    assert_eq!(listeners.len(), 1);
    assert_eq!(listeners[0]["name"], OUTBOUND);
}

#[test]
fn calls_of_a_program_of_the_user_are_routed_by_their_port() {
    let mut p = proxy(true);
    let mut other = p.routes[0].clone();
    (other.authority, other.identity) = ("store.shop-0".to_owned(), None);
    other.listen.set_port(15101);
    p.routes.push(other);
    for route in &mut p.routes {
        route.any_host = true;
    }
    let b = bootstrap(&p);
    for (place, name) in [(1, "outbound.back.shop-0"), (2, "outbound.store.shop-0")] {
        let listener = at(&b, "/static_resources/listeners").get(place).unwrap();
        assert_eq!(listener["name"], name);
        let manager = at(listener, "/filter_chains/0/filters/0/typed_config");
        assert_eq!(manager["stat_prefix"], OUTBOUND);
        let domains = at(manager, "/route_config/virtual_hosts/0/domains");
        assert_eq!(*domains, json!(["*"]));
    }
    let clusters = at(&b, "/static_resources/clusters").as_array().unwrap();
    let with_tls = clusters.iter().map(|c| c["transport_socket"].is_object());
    assert_eq!(
        with_tls.collect::<Vec<_>>(),
        [false, true, false],
        "none outside the mesh"
    );
}
