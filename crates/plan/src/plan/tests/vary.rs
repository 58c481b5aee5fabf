//! Plans with `vary`.

use super::{good, with};
use crate::graph::ServiceProtocol;
use crate::plan::{Design, FactorKind, Plan};

fn names(plan: &Plan) -> Vec<&str> {
    plan.loads.iter().map(|l| l.name.as_str()).collect()
}

#[test]
fn a_factor_makes_a_load_of_each_level() {
    let text = "workload: echo\nmeshes: [bare, envoy]\nload: {rate: 50, connections: 4, duration: 2s}\n\
                vary: {response_bytes: [0, 1KiB, 100, 1MiB]}";
    let plan = good(text, &[]);
    assert_eq!(
        names(&plan),
        [
            "response=0",
            "response=1KiB",
            "response=100B",
            "response=1MiB"
        ]
    );
    let bytes =
        |i: usize| plan.workload_of(&plan.loads[i]).graph.services[0].endpoints[0].response_bytes;
    assert_eq!(
        [bytes(0), bytes(1), bytes(2), bytes(3)],
        [0, 1024, 100, 1 << 20]
    );
    // The plan's own workload is that of the anchor, which is not stored twice.
    assert_eq!(
        plan.workload.graph.services[0].endpoints[0].response_bytes,
        0
    );
    let sweep = plan.sweep.as_ref().unwrap();
    assert_eq!(sweep.workloads.len(), 3);
    let values: Vec<f64> = sweep.factors[0]
        .levels
        .iter()
        .filter_map(|l| l.value)
        .collect();
    assert_eq!(values, [0.0, 1.0, 100.0 / 1024.0, 1024.0]);
    assert_eq!(plan.trial_count(), 2 * 4 * 5);
    plan.check_names().unwrap();
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
}

#[test]
fn factors_vary_one_at_a_time_or_in_all_combinations() {
    let text = "workload: chain-2\nmeshes: bare\nload: {connections: 8}\n\
                vary: {depth: [1, 3], connections: [8, 32], response_bytes: [1KiB, 4KiB]}";
    let plan = good(text, &[]);
    assert_eq!(
        names(&plan),
        ["anchor", "depth=3", "response=4KiB", "connections=32"]
    );
    let all: Vec<(usize, u32)> = plan
        .loads
        .iter()
        .map(|l| (plan.workload_of(l).graph.services.len(), l.connections))
        .collect();
    assert_eq!(all, [(1, 8), (3, 8), (1, 8), (1, 32)]);
    let full = good(text, &["vary.design=full"]);
    assert_eq!(full.sweep.as_ref().unwrap().design, Design::Full);
    assert_eq!(full.loads.len(), 8);
    let last = full.loads.last().unwrap();
    assert_eq!(last.name, "depth=3,response=4KiB,connections=32");
    let last = full.workload_of(last);
    let sizes = last
        .graph
        .services
        .iter()
        .map(|s| s.endpoints[0].response_bytes);
    assert_eq!(sizes.collect::<Vec<_>>(), [4096; 3]);
    full.check_names().unwrap();
}

#[test]
fn every_factor_changes_what_it_names() {
    let of = |workload: &str, vary: &str| {
        let text = format!(
            "workload: {workload}\nmeshes: bare\nload: {{connections: 64}}\nvary: {{{vary}}}"
        );
        let plan = good(&text, &[]);
        assert_eq!(plan.loads.len(), 2, "{vary}");
        plan
    };
    let second = |plan: &Plan| plan.workload_of(&plan.loads[1]).clone();
    assert_eq!(
        second(&of("fanout-3", "width: [2, 6]"))
            .graph
            .services
            .len(),
        7
    );
    assert_eq!(second(&of("emojivoto", "instances: [1, 3]")).instances, 3);
    let replicas = second(&of("chain-3", "replicas: [1, 4]"));
    let of_services = replicas.graph.services.iter().map(|s| s.replicas);
    assert_eq!(of_services.collect::<Vec<_>>(), [1, 4, 4]);
    assert_eq!((replicas.pods(), replicas.graph.validate()), (9, Ok(())));
    // Each service that the load calls has one, also if others call it as well.
    let mixed = second(&of("{graph: emojivoto, mix: grpc}", "rate: [1, 2]"));
    assert!(mixed.replicable().is_empty());
    let requests = second(&of("chain-2", "request_bytes: [0, 2KiB]")).graph;
    assert_eq!(requests.mixes[0].endpoints[0].request_bytes, 2048);
    assert_eq!(
        requests.services[0].endpoints[0].calls[0].parallel[0].request_bytes,
        2048
    );
    let plan = of("echo", "requests_per_connection: [0, 10]");
    let found = plan.loads.iter().map(|l| l.requests_per_connection);
    assert_eq!(found.collect::<Vec<_>>(), [None, Some(10)]);
    let level = &plan.sweep.as_ref().unwrap().factors[0].levels[1];
    assert_eq!((level.label.as_str(), level.value), ("10", Some(0.1)));
    let plan = of("{graph: emojivoto, mix: grpc}", "streams: [1, 50]");
    assert_eq!(plan.loads[1].streams, Some(50));
    let grpc = second(&of("chain-2", "protocol: [http, grpc]"));
    assert_eq!(grpc.protocols(), [ServiceProtocol::Grpc]);
    assert_eq!(grpc.graph.validate(), Ok(()));
    let tcp = second(&of("chain-2", "protocol: [grpc, tcp]"));
    assert_eq!(tcp.protocols(), [ServiceProtocol::Tcp]);
    assert_eq!(tcp.graph.validate(), Ok(()));
    let http2 = second(&of("chain-2", "protocol: [grpc, http2]"));
    assert_eq!(http2.protocols(), [ServiceProtocol::Http2]);
    assert_eq!(http2.graph.validate(), Ok(()));
    assert_eq!(
        of("echo", "rate: [100, 250]").loads[1].rate_rps(),
        Some(250.0)
    );
}

#[test]
fn settings_of_meshes_are_combined_with_every_load() {
    let text = "workload: echo\nmeshes: [bare, envoy]\nload: {connections: 8}\n\
                vary: {response_bytes: [0, 1KiB], mesh: {concurrency: [1, 2], mtls: [off, strict]}}";
    let plan = good(text, &[]);
    let meshes: Vec<&str> = plan.meshes.iter().map(|m| m.name.as_str()).collect();
    // One at a time; the mesh with its own settings keeps its name.
    assert_eq!(
        meshes,
        [
            "bare",
            "envoy",
            "envoy[concurrency=2,mtls=off]",
            "envoy[concurrency=1,mtls=strict]"
        ]
    );
    assert_eq!(plan.meshes[2].settings.concurrency, 2);
    let sweep = plan.sweep.as_ref().unwrap();
    assert_eq!(
        sweep.meshes["envoy"].levels[&FactorKind::MeshConcurrency],
        "1"
    );
    assert!(!sweep.meshes.contains_key("bare"));
    assert_eq!((plan.loads.len(), plan.baseline.as_str()), (2, "bare"));
    plan.check_names().unwrap();
    // The baseline follows its anchor.
    let text = "workload: echo\nmeshes: envoy\nload: {connections: 8}\nvary: {mesh: {concurrency: [2, 1]}}";
    assert_eq!(good(text, &[]).baseline, "envoy[concurrency=2]");
}

#[test]
fn what_needs_http_is_refused_with_tcp() {
    let plan = |meshes: &str| {
        let text = format!(
            "workload: chain-2\nmeshes: {meshes}\nload: {{connections: 4}}\nvary: {{protocol: [http, tcp]}}"
        );
        with(&text, &[]).map_err(|e| e.to_string())
    };
    let all = "[bare, envoy/mtls, envoy/entry, features/mtls, features/tls, features/nothing, \
               features/workers-2, features/circuit-breaking]";
    plan(all).unwrap();
    for (meshes, expected) in [
        (
            "[bare, {name: logged, mesh: envoy, settings: {access_log: true}}]",
            "`logged` has an access log of requests, but `s1` is a service with `protocol: tcp`",
        ),
        (
            "[envoy, features/rbac-10-last]",
            "`features/rbac-10-last` has a feature that needs HTTP",
        ),
        (
            "[envoy, features/access-log-text]",
            "a feature that needs HTTP",
        ),
    ] {
        let found = plan(meshes).unwrap_err();
        assert!(found.contains(expected), "{found}");
        assert!(found.contains("plan.yaml:2:"), "{found}");
    }
    // Levels that are added later are checked as well.
    let text = "workload: chain-2\nmeshes: [envoy, features/jwt]\nload: {connections: 4}\n\
                vary: {protocol: [http, http2]}";
    let error = crate::plan::extend(&good(text, &[]), "protocol=tcp").unwrap_err();
    let found = error.to_string();
    assert!(
        found.contains("`features/jwt` has a feature that needs HTTP"),
        "{found}"
    );
}

#[test]
fn a_mesh_on_a_cluster_needs_counters_of_bytes_for_tcp() {
    let plan = |proof: &str| {
        let text = format!(
            "environment: kubernetes\nworkload: chain-2\nload: {{connections: 4}}\n\
             vary: {{protocol: [http, tcp]}}\nmeshes:\n  - bare\n  - {{name: ours, mesh: installed, \
             kubernetes: {{proof: {{port: 9901, path: /metrics, counters: [requests]{proof}}}}}}}\n"
        );
        with(&text, &[]).map_err(|e| e.to_string())
    };
    let found = plan("").unwrap_err();
    assert!(
        found.contains("`ours` has no `proof.tcp_counters`"),
        "{found}"
    );
    plan(", tcp_counters: [bytes]").unwrap();
    plan(", of_node_proxies: true").unwrap();
    let shipped = "environment: kubernetes\nworkload: chain-2\nload: {connections: 4}\n\
                   vary: {protocol: [http, tcp]}\nmeshes: [bare, istio/minimal, istio/ambient, linkerd]";
    let plan = good(shipped, &[]);
    let join = |i: usize| {
        &plan.meshes[i]
            .kubernetes
            .as_ref()
            .unwrap()
            .join
            .tcp_annotations
    };
    assert_eq!(join(3)["config.linkerd.io/opaque-ports"], "8080");
    assert!(join(1).is_empty());
}

#[test]
fn a_factor_that_the_workload_lacks_is_an_error_that_names_the_others() {
    let error = |vary: &str, more: &str| {
        let text = format!("meshes: bare\n{more}\nvary: {{{vary}}}");
        with(&text, &[]).unwrap_err().to_string()
    };
    let found = error("response_bytes: [0, 1KiB]", "workload: emojivoto");
    assert!(
        found.contains("`response_bytes` cannot vary: the services of `emojivoto` are built-in"),
        "{found}"
    );
    assert!(
        found.contains("one of instances, replicas, connections, requests_per_connection, rate"),
        "{found}"
    );
    assert!(found.contains("plan.yaml:3:"), "{found}");
    for (vary, more, expected) in [
        ("depth: [1, 2]", "workload: echo", "not chain-N"),
        ("width: [1, 2]", "workload: chain-2", "not fanout-N"),
        (
            "streams: [1, 2]",
            "workload: echo",
            "no service with gRPC or HTTP/2",
        ),
        (
            "rate: [1, 2]",
            "load: {arrivals: 'ramp:100rps..200rps'}",
            "determine the rate",
        ),
        (
            "replicas: [1, 2]",
            "workload: echo",
            "no service of `echo` is called by another service and not by the load",
        ),
        (
            "replicas: [1, 2], depth: [1, 2]",
            "workload: chain-2",
            "no service of `chain-1` is called by another service",
        ),
        (
            "replicas: [1, 17]",
            "workload: chain-2",
            "a whole number from 1 to 16",
        ),
        ("rate: [100]", "workload: echo", "found a single level"),
        (
            "rate: [100, 100rps]",
            "workload: echo",
            "found the level 100rps of `rate` twice",
        ),
        ("design: full", "workload: echo", "found no factor"),
        (
            "rate: [100, 200]",
            "load: {connections: [8, 16]}",
            "`vary` needs one load, this plan has 2",
        ),
        (
            "connections: [32, 1]",
            "workload: {graph: echo, instances: 2}",
            "too few connections: 1 for 2 origins",
        ),
        (
            "connections: [32, 1]",
            "load: {threads: 2}",
            "2 threads with 1 connections",
        ),
        (
            "mesh: {concurrency: [1, 2]}",
            "workload: echo",
            "no mesh of the plan has the setting `concurrency`",
        ),
        (
            "response_bytes: [0, 1GiB]",
            "workload: echo",
            "expected at most 16777216 bytes",
        ),
        ("size: [0, 1]", "workload: echo", "unknown key `size`"),
    ] {
        let found = error(vary, more);
        assert!(found.contains(expected), "{vary}: {found}");
    }
}

#[test]
fn replicas_are_kept_at_every_depth_and_the_load_calls_one() {
    let text = "workload: chain-2\nmeshes: bare\nload: {connections: 8}\n\
                vary: {design: full, replicas: [1, 2], depth: [2, 3]}";
    let plan = good(text, &[]);
    let extended = crate::plan::extend(&plan, "depth=4").unwrap();
    let last = extended.loads.last().unwrap();
    assert_eq!(last.name, "depth=4,replicas=2");
    let services = &extended.workload_of(last).graph.services;
    let replicas: Vec<u32> = services.iter().map(|s| s.replicas).collect();
    assert_eq!(replicas, [1, 2, 2, 2]);

    let graph = |front: u32, back: u32| {
        format!(
            "meshes: bare\nload: {{connections: 8}}\nworkload:\n  graph:\n    name: shop\n    services:\n\
             \x20     - {{name: front, protocol: http, replicas: {front}, endpoints: [{{path: /, calls: [{{service: back, path: /}}]}}]}}\n\
             \x20     - {{name: back, protocol: http, replicas: {back}, endpoints: [{{path: /}}]}}\n\
             \x20   mixes: [{{name: default, endpoints: [{{name: home, service: front, path: /}}]}}]\n"
        )
    };
    assert_eq!(good(&graph(1, 3), &[]).workload.pods(), 4);
    let found = with(&graph(2, 1), &[]).unwrap_err().to_string();
    assert!(found.contains("`front` has 2 replicas"), "{found}");
    assert!(found.contains("in the mix `default`"), "{found}");
}

#[test]
fn the_number_of_levels_is_limited_before_anything_is_made_of_them() {
    let many = |key: &str, number: usize| {
        let levels: Vec<String> = (1..=number).map(|n| n.to_string()).collect();
        format!("{key}: [{}]", levels.join(", "))
    };
    let error = |text: &str| with(text, &[]).unwrap_err().to_string();
    let levels = many("connections", 10_000);
    let found = error(&format!("vary: {{{levels}}}"));
    assert!(found.contains("10000 levels of `connections`"), "{found}");
    assert!(found.contains("expected at most 64"), "{found}");
    let found = error(&format!("load: {{{levels}, {}}}", many("rate", 9_000)));
    assert!(found.contains("90000000 loads"), "{found}");
    let loads = vec!["{rate: 1}"; 5_000].join(", ");
    assert!(error(&format!("loads: [{loads}]")).contains("5000 loads"));
    let percent = many("percent", 900);
    let found = error(&format!(
        "loads: [{{capacity: {{slo: [p99<20ms]}}}}, {{overload: {{{percent}}}}}]"
    ));
    assert!(found.contains("900 loads"), "{found}");
    let factors = [
        "rate",
        "connections",
        "requests_per_connection",
        "instances",
    ];
    let factors = factors.map(|key| many(key, 60)).join(", ");
    let found = error(&format!(
        "workload: echo\nvary: {{design: full, {factors}}}"
    ));
    assert!(found.contains("12960000 loads"), "{found}");
    let of_mesh = many("concurrency", 60);
    let found = error(&format!("vary: {{mesh: {{{of_mesh}}}}}"));
    assert!(found.contains("121 meshes"), "{found}");
}
