use super::*;
use crate::graph::{Store, builtin};
use serde_json::{Value, json};

/// front (http) -> back (grpc) -> store (http)
fn good() -> Value {
    json!({
        "name": "shop",
        "services": [
            {"name": "front", "protocol": "http", "endpoints": [
                {"path": "/", "calls": [{"service": "back", "path": "Get", "times": 2}]}]},
            {"name": "back", "protocol": "grpc", "endpoints": [
                {"path": "Get", "calls": [{"service": "store", "path": "/rows?n=3"}]}]},
            {"name": "store", "protocol": "http", "endpoints": [{"path": "/rows"}]},
        ],
        "mixes": [{"name": "default", "endpoints": [
            {"name": "home", "service": "front", "path": "/?u=1"}]}],
    })
}

/// The error for the good graph with `value` at `pointer`.
fn with(pointer: &str, value: Value) -> String {
    changed(good(), pointer, value)
}

fn changed(mut graph: Value, pointer: &str, value: Value) -> String {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match graph.pointer_mut(parent).unwrap() {
        Value::Object(map) => {
            map.insert(key.to_owned(), value);
        }
        other => other[key.parse::<usize>().unwrap()] = value,
    }
    let graph: ServiceGraph = serde_json::from_value(graph).unwrap();
    graph.validate().unwrap_err().to_string()
}

#[test]
fn a_good_graph_is_valid_and_lists_its_callees() {
    let graph: ServiceGraph = serde_json::from_value(good()).unwrap();
    assert_eq!(graph.validate(), Ok(()));
    assert_eq!(graph.callees("front"), ["back"]);
    assert_eq!(graph.callees("back"), ["store"]);
    assert!(graph.callees("store").is_empty());
    assert!(graph.callees("nobody").is_empty());
    let emojivoto = builtin("emojivoto").unwrap();
    assert_eq!(emojivoto.callees("web"), ["emoji", "voting"]);
}

#[test]
fn an_entry_point_has_a_name_of_a_kubernetes_service() {
    let graph = |length: usize, application: Value| -> ServiceGraph {
        let name = "a".repeat(length);
        serde_json::from_value(json!({"name": "shop", "application": application,
            "services": [{"name": name, "protocol": "http", "port": application.is_object().then_some(80),
                "endpoints": [{"path": "/"}]}],
            "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": name, "path": "/"}]}]}))
        .unwrap()
    };
    let application = json!({"manifests": ["k8s"]});
    assert_eq!(graph(63, application.clone()).validate(), Ok(()));
    assert_eq!(graph(40, Value::Null).validate(), Ok(()));
    for (length, application, max) in [(64, application, "63"), (41, Value::Null, "40")] {
        let error = graph(length, application)
            .validate()
            .unwrap_err()
            .to_string();
        let expected = format!("expected 1 to {max} lower-case letters");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn every_fault_is_reported_with_its_location() {
    let call = "/services/0/endpoints/0/calls/0";
    let faults = [
        ("/name", json!("Shop"), "name: found name \"Shop\""),
        ("/services", json!([]), "services: found none"),
        (
            "/services/1/name",
            json!("front"),
            "services[1].name: service \"front\" is defined twice",
        ),
        (
            "/services/2/name",
            json!("my.store"),
            "services[2].name: found name",
        ),
        (
            "/services/0/endpoints",
            json!([]),
            "services[0]: found neither",
        ),
        (
            "/services/1/replicas",
            json!(0),
            "services[1].replicas: found 0, expected at least 1",
        ),
        (
            "/services/1/replicas",
            json!(17),
            "services[1].replicas: found 17, expected at most 16",
        ),
        (
            "/services/0/app",
            json!("emojivoto-web"),
            "services[0]: found both",
        ),
        (
            "/services/0/uses",
            json!(["back"]),
            "services[0].uses: found `uses`",
        ),
        (
            "/services/2/endpoints",
            json!([{"path": "/rows"}, {"path": "rows"}]),
            "endpoints[1].path: found \"rows\"",
        ),
        (
            "/services/2/endpoints",
            json!([{"path": "/rows"}, {"path": "/tare/x"}]),
            "not under /tare/",
        ),
        (
            "/services/1/endpoints",
            json!([{"path": "Get"}, {"path": "/Get"}]),
            "expected a gRPC method name",
        ),
        (
            "/services/0/endpoints/0/error_rate",
            json!(1.5),
            "found 1.5, expected a share",
        ),
        (
            "/services/0/endpoints/0/error_rate",
            json!(-0.1),
            "found -0.1, expected a share",
        ),
        (
            "/services/0/endpoints/0/cpu_us",
            json!(60_000_001),
            "cpu_us: found 60000001",
        ),
        (
            "/services/0/endpoints/0/response_bytes",
            json!(16_777_217),
            "at most 16777216",
        ),
        (
            &format!("{call}/service"),
            json!("bakc"),
            "expected one of: front, back, store",
        ),
        (
            &format!("{call}/path"),
            json!("Put"),
            "calls[0].path: unknown path \"Put\"",
        ),
        (
            &format!("{call}/times"),
            json!(0),
            "times: found 0, expected at least 1",
        ),
        (&format!("{call}/share"), json!(2.0), "share: found 2"),
        (
            call,
            json!({"parallel": []}),
            "calls[0].parallel: found none",
        ),
        ("/mixes/0/name", json!("other"), "found no mix \"default\""),
        (
            "/mixes/0/endpoints",
            json!([]),
            "mixes[0].endpoints: found none",
        ),
        (
            "/mixes/0/endpoints/0/service",
            json!("back"),
            "mixes[0].endpoints[0].path: unknown path \"/?u=1\", expected one of: Get",
        ),
        (
            "/mixes/0/endpoints/0",
            json!({"name": "n", "service": "back", "path": "Get", "method": "POST"}),
            "method: found \"POST\" for \"back\", expected no `method`",
        ),
        (
            "/mixes/0/endpoints/0/request_bytes",
            json!(u32::MAX),
            "request_bytes: found 4294967295, expected at most",
        ),
        (
            "/mixes/0/endpoints/0/service",
            json!("x"),
            "unknown service \"x\"",
        ),
        (
            "/mixes/0/endpoints/0/path",
            json!("/no?q=1"),
            "unknown path \"/no\"",
        ),
        (
            "/mixes/0/endpoints/0/path",
            json!("/?q=\u{1F369}"),
            "percent-encoded",
        ),
        (
            "/mixes/0/endpoints/0/method",
            json!("get"),
            "method: found \"get\"",
        ),
        ("/mixes/0/endpoints/0/weight", json!(0), "weight: found 0"),
    ];
    for (pointer, value, expected) in faults {
        let found = with(pointer, value);
        assert!(found.contains(expected), "{pointer}: {found}");
    }
}

#[test]
fn cycles_are_reported_with_their_services() {
    let back = json!([{"service": "front", "path": "/"}]);
    let found = with("/services/2/endpoints/0/calls", back);
    assert!(found.contains("front -> back -> store -> front"), "{found}");
    let own = json!([{"service": "store", "path": "/rows"}]);
    let found = with("/services/2/endpoints/0/calls", own);
    assert!(found.contains("cycle: store -> store"), "{found}");
}

#[test]
fn two_endpoints_of_one_path_are_refused() {
    let twice = json!([{"path": "/rows"}, {"path": "/rows"}]);
    let found = with("/services/2/endpoints", twice);
    assert!(
        found.contains("endpoints[1].path: path \"/rows\" is defined twice"),
        "{found}"
    );
}

#[test]
fn built_in_applications_need_the_services_and_the_protocol_they_use() {
    let emojivoto = || serde_json::to_value(builtin("emojivoto").unwrap()).unwrap();
    let found = changed(emojivoto(), "/services/0/uses", json!(["emoji"]));
    assert!(
        found.contains("`emojivoto-web` calls `emojivoto-voting`"),
        "{found}"
    );
    let found = changed(emojivoto(), "/services/0/uses", json!(["nobody"]));
    assert!(
        found.contains("uses[0]: unknown service \"nobody\""),
        "{found}"
    );
    let found = changed(emojivoto(), "/services/1/protocol", json!("http"));
    assert!(
        found.contains("found protocol http, expected grpc"),
        "{found}"
    );
    let caller = json!({"name": "x", "protocol": "http", "endpoints": [
        {"path": "/", "calls": [{"service": "emoji", "path": "ListAll"}]}]});
    let found = changed(emojivoto(), "/services/0", caller);
    assert!(
        found.contains("\"emoji\" is a built-in gRPC application"),
        "{found}"
    );
}

#[test]
fn a_program_of_the_user_has_only_what_tare_does_not_determine() {
    let mut own = good();
    own["services"][0]["command"] = json!({"run": ["front", "{address}", "{url:back}"]});
    let graph: ServiceGraph = serde_json::from_value(own.clone()).unwrap();
    assert_eq!(graph.validate(), Ok(()));
    assert!(graph.has_commands());
    let called = changed(
        own.clone(),
        "/services/2/command",
        json!({"run": ["store"]}),
    );
    let expected = "services[2].command: found a call by \"back\", which is a server of tare";
    assert!(called.starts_with(expected), "{called}");
    for (pointer, value, expected) in [
        (
            "protocol",
            json!("tcp"),
            "services[0].protocol: found tcp, expected http",
        ),
        ("replicas", json!(2), "services[0].replicas: found 2"),
        ("concurrency", json!(1), "services[0].concurrency: found 1"),
        (
            "command/run",
            json!([]),
            "services[0].command.run: found none",
        ),
        (
            "command/run",
            json!(["x", "{url:store}"]),
            "services[0].command.run[1]: found {url:store}, expected a call of \"store\"",
        ),
        (
            "command/ready",
            json!("x"),
            "services[0].command.ready: found \"x\"",
        ),
        (
            "command/ready",
            json!("/ HTTP/1.1\r\nx: y"),
            "services[0].command.ready: found",
        ),
        (
            "command/env",
            json!({"A=B": "1"}),
            "services[0].command.env.A=B: found \"A=B\", expected the name of a variable",
        ),
        (
            "command/env",
            json!({"": "1"}),
            "services[0].command.env.: found \"\"",
        ),
        (
            "command/ready_within_s",
            json!(0),
            "services[0].command.ready_within_s: found 0",
        ),
        (
            "command/port",
            json!(8080),
            "services[0].command.port: found 8080, expected `port` only with `network: own`",
        ),
        (
            "endpoints/0/cpu_us",
            json!(1),
            "services[0].endpoints[0]: found sizes",
        ),
    ] {
        let error = changed(own.clone(), &format!("/services/0/{pointer}"), value);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_program_in_a_network_of_its_own_has_any_port_that_no_sidecar_uses() {
    let mut own = good();
    own["services"][0]["command"] = json!({"run": ["front"], "network": "own", "port": 8080});
    let graph: ServiceGraph = serde_json::from_value(own.clone()).unwrap();
    assert_eq!(graph.validate(), Ok(()));
    assert!(graph.has_own_networks());
    for port in [0, 15001, 15006, 15100, 20_000] {
        let error = changed(own.clone(), "/services/0/command/port", json!(port));
        let expected = format!("services[0].command.port: found {port}, expected 1 to 65535");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn a_service_outside_the_mesh_is_a_datastore() {
    let mut outside = good();
    outside["services"][2]["external"] = json!(true);
    let error = changed(outside.clone(), "/services/2/protocol", json!("http"));
    let expected = "services[2].external: found another protocol than tcp";
    assert!(error.starts_with(expected), "{error}");
    outside["services"][2]["protocol"] = json!("tcp");
    let graph: ServiceGraph = serde_json::from_value(outside.clone()).unwrap();
    assert_eq!(graph.validate(), Ok(()));
    let error = changed(outside.clone(), "/services/2/replicas", json!(2));
    assert!(error.contains("found several replicas"), "{error}");
    let endpoints = json!([{"name": "rows", "service": "store", "path": "/rows"}]);
    let error = changed(outside, "/mixes/0/endpoints", endpoints);
    assert!(error.contains("found a service in a mix"), "{error}");
}

#[test]
fn a_real_datastore_has_only_what_it_can_do() {
    let mut real = good();
    let store = &mut real["services"][2];
    store["protocol"] = json!("tcp");
    store["store"] = json!("valkey");
    store["endpoints"][0]["operation"] = json!("write");
    let graph: ServiceGraph = serde_json::from_value(real.clone()).unwrap();
    assert_eq!(graph.validate(), Ok(()));
    let names: Vec<_> = graph.stores().map(|(s, of)| (s, &*of.name)).collect();
    assert_eq!(names, [(Store::Valkey, "store")]);
    for (pointer, value, expected) in [
        ("protocol", json!("http"), "store: found another protocol"),
        ("replicas", json!(2), "store: found several replicas"),
        ("concurrency", json!(1), "store: found `concurrency`"),
        ("endpoints/0/cpu_us", json!(1), "endpoints[0].cpu_us: found"),
        ("endpoints/0/delay_us", json!(1), "endpoints[0].delay_us: "),
        (
            "endpoints/0/error_rate",
            json!(0.1),
            "endpoints[0].error_rate: found",
        ),
    ] {
        let error = changed(real.clone(), &format!("/services/2/{pointer}"), value);
        let expected = format!("services[2].{expected}");
        assert!(error.starts_with(&expected), "{error}");
    }
    let calls = json!([{"service": "front", "path": "/"}]);
    let error = changed(real.clone(), "/services/2/endpoints/0/calls", calls);
    assert!(
        error.starts_with("services[2].endpoints[0].calls: found `calls`, expected only"),
        "{error}"
    );
    let endpoints = json!([{"name": "rows", "service": "store", "path": "/rows"}]);
    let error = changed(real, "/mixes/0/endpoints", endpoints);
    assert!(error.contains("found a service in a mix"), "{error}");
    let error = with("/services/2/endpoints/0/operation", json!("write"));
    let expected = "services[2].endpoints[0].operation: found protocol http";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_place_without_a_value_is_named_with_the_permitted_ones() {
    let error = |command: Value, calls: Value| {
        let mut own = good();
        own["services"][0]["command"] = command;
        own["services"][0]["endpoints"][0]["calls"] = calls;
        let graph: ServiceGraph = serde_json::from_value(own).unwrap();
        graph.validate().unwrap_err().to_string()
    };
    let calls = || json!([{"service": "back", "path": "Get"}]);
    let variable = |text: &str| json!({"run": ["front"], "env": {"A": "1", "B.C": text}});
    let found = error(variable("x{url:bakc}y"), calls());
    assert!(
        found.starts_with("services[0].command.env.B.C: found {url:bakc}, expected {port}, "),
        "{found}"
    );
    assert!(
        found.contains("`calls` of its endpoints name: back;"),
        "{found}"
    );
    assert!(found.ends_with("; did you mean {url:back}?"), "{found}");
    let found = error(variable("{prot}"), json!([]));
    assert!(found.contains("name: no service"), "{found}");
    assert!(found.ends_with("; did you mean {port}?"), "{found}");
    // The called service exists, but no call names it.
    let found = error(variable("{host:store}"), calls());
    assert!(
        found.contains("expected a call of \"store\" in the `calls` of an endpoint of \"front\""),
        "{found}"
    );
    // The wrong call is the cause, and not the place that is right.
    let found = error(
        variable("{url:back}"),
        json!([{"service": "bakc", "path": "Get"}]),
    );
    assert!(
        found.starts_with("services[0].endpoints[0].calls[0].service: unknown service \"bakc\""),
        "{found}"
    );
    assert!(found.ends_with("; did you mean \"back\"?"), "{found}");
}
