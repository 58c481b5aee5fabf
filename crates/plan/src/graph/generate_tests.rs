//! Properties of generated graphs.

use std::collections::BTreeMap;

use super::*;
use proptest::prelude::*;
use tare_stats::rng::Rng;

/// Longest chain of calls from a service, itself included.
fn depth(graph: &ServiceGraph, service: &str) -> u32 {
    let callees = graph.callees(service).into_iter();
    1 + callees.map(|c| depth(graph, c)).max().unwrap_or(0)
}

/// The services that are reached from the entry, with their number of callers.
fn callers(graph: &ServiceGraph) -> BTreeMap<&str, u32> {
    let mut callers = BTreeMap::from([("s1", 0)]);
    let mut open = vec!["s1"];
    while let Some(service) = open.pop() {
        for callee in graph.callees(service) {
            if !callers.contains_key(callee) {
                open.push(callee);
            }
            *callers.entry(callee).or_default() += 1;
        }
    }
    callers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_graph_has_the_planned_shape(
        services in 1_u32..=60, depth_of in 1_u32..=5, fan_out in 1_u32..=6, fan_in in 1_u32..=3, seed in 0_u64..1000,
    ) {
        let settings = Generate {
            services,
            depth: Some(depth_of),
            fan_out,
            fan_in,
            seed,
            response_bytes: Spread { median: 100, p99: 1_000 },
            cpu_us: Spread { median: 50, p99: 50 },
            ..Generate::default()
        };
        // Other sizes are refused, see below.
        let most: u64 = (0..depth_of).map(|l| u64::from(fan_out).pow(l)).sum();
        prop_assume!(depth_of <= services && u64::from(services) <= most);
        let made = settings.graph();
        prop_assume!(made.is_ok() || !made.as_ref().unwrap_err().found.starts_with("one request"));
        let graph = made.unwrap();
        prop_assert_eq!(settings.graph().unwrap(), graph.clone(), "same seed, same graph");
        prop_assert_eq!(graph.validate(), Ok(()), "acyclic as well");
        prop_assert_eq!(graph.services.len(), services as usize);
        prop_assert_eq!(depth(&graph, "s1"), depth_of);
        let callers = callers(&graph);
        prop_assert_eq!(callers.len(), services as usize, "connected from the entry");
        prop_assert!(callers.values().all(|n| *n <= fan_in));
        prop_assert!(graph.services.iter().all(|s| graph.callees(&s.name).len() <= fan_out as usize));
        prop_assert!(graph.services.iter().all(|s| s.endpoints[0].cpu_us == 50));
        if fan_in == 1 {
            prop_assert_eq!(graph.requests_per_request("default"), Some(f64::from(services)), "a tree");
        }
    }
}

#[test]
fn two_hundred_services_are_possible_and_seeds_differ() {
    let settings = |seed| Generate {
        services: 200,
        depth: Some(5),
        seed,
        ..Generate::default()
    };
    let (one, two) = (settings(1).graph().unwrap(), settings(2).graph().unwrap());
    assert_eq!(one.services.len(), 200);
    assert_ne!(one, two);
}

#[test]
fn sizes_follow_their_distribution() {
    let spread = Spread {
        median: 1_000,
        p99: 10_000,
    };
    let mut rng = Rng::new(7);
    let mut drawn: Vec<u32> = (0..20_000)
        .map(|_| spread.draw(&mut rng, BYTES_MAX))
        .collect();
    drawn.sort_unstable();
    let (median, p99) = (drawn[10_000], drawn[19_800]);
    assert!((950..1_050).contains(&median), "{median}");
    assert!((9_000..11_000).contains(&p99), "{p99}");
    assert_eq!(Spread { median: 7, p99: 7 }.draw(&mut rng, 10), 7);
    assert!((0..1_000).all(|_| spread.draw(&mut rng, 500) <= 500));
}

#[test]
fn settings_that_no_graph_meets_are_refused() {
    let refused = |settings: serde_json::Value, expected: &str| {
        let settings: Generate = serde_json::from_value(settings).unwrap();
        let found = settings.graph().unwrap_err().to_string();
        assert!(found.contains(expected), "{found}");
    };
    let expected = "`services`: found 201, expected 1 to 200";
    refused(json!({"services": 201}), expected);
    let expected = "`depth`: found 4, expected 1 to 3";
    refused(json!({"services": 3, "depth": 4}), expected);
    let expected = "expected at most 7 for a depth of 3 and a fan-out of 2";
    refused(
        json!({"services": 8, "depth": 3, "fan_out": 2, "fan_in": 1}),
        expected,
    );
    refused(json!({"fan_in": 0}), "`fan_in`: found 0");
    refused(json!({"parallel": 1.5}), "`parallel`: found 1.5");
    let expected = "`cpu_us.p99`: found 1, expected 2 to 1000000";
    refused(json!({"cpu_us": {"median": 2, "p99": 1}}), expected);
    let expected = "`cpu_us.median`: found 0";
    refused(json!({"cpu_us": {"median": 0, "p99": 1}}), expected);
    let many = json!({"services": 60, "depth": 20, "fan_out": 5, "fan_in": 5});
    refused(many, "expected at most 1000: decrease `fan_in` or `depth`");
}

#[test]
fn the_entry_is_http_and_the_others_have_the_protocol() {
    let settings = Generate {
        protocol: ServiceProtocol::Grpc,
        ..Generate::default()
    };
    let graph = settings.graph().unwrap();
    assert_eq!(graph.validate(), Ok(()));
    let protocols: Vec<_> = graph.services.iter().map(|s| s.protocol).collect();
    assert_eq!(protocols[0], ServiceProtocol::Http);
    assert!(protocols[1..].iter().all(|p| *p == ServiceProtocol::Grpc));
}
