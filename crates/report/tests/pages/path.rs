//! Where in the path of a request the costs are, on synthetic trials whose answer is known.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use tare_analysis::StoredTrial;
use tare_analysis::summary::summarise;
use tare_plan::SCHEMA_VERSION;
use tare_plan::mesh::Placement;
use tare_plan::{EnvironmentKind, Plan};
use tare_records::calls::{CallLatency, ServiceCalls, TrialCalls};
use tare_records::summary::path::{Part, PathCosts, PathEdge};
use tare_records::summary::{Estimate, Summary};
use tare_records::trial::{MemoryKind, ProcessUse, TrialResult};
use tare_records::worker::Plane;
use tare_report::{render_page, render_table};
use tare_stats::Histogram;
use tare_stats::rng::Rng;

use crate::support::{manifest, plan, trials};

const US: f64 = 1_000.0;
const CALLS: u64 = 400;

/// A plan with all placements, and a mesh of which the tests know what it adds.
fn placements() -> Plan {
    let meshes = [
        ("bare", "No mesh"),
        ("envoy/client", "Caller"),
        ("envoy/server", "Called service"),
        ("envoy", "Both"),
        ("envoy/entry", "Entry"),
        ("envoy/mtls", "Both with mutual TLS"),
        ("envoy/planted", "1 ms planted"),
    ];
    let mut plan = plan(&meshes, &[100.0], 7);
    plan.environment = EnvironmentKind::Local;
    plan.workload.instances = 1;
    plan.workload.graph.services[0].uses = vec!["emoji".to_owned(), "voting".to_owned()];
    for mesh in &mut plan.meshes {
        mesh.settings.placement = match mesh.name.as_str() {
            "envoy/client" => Placement::Client,
            "envoy/server" => Placement::Server,
            "envoy/entry" => Placement::Entry,
            _ => Placement::Both,
        };
        // Another setting, so that it is not taken for one of the parts.
        mesh.settings.concurrency = 1 + u32::from(mesh.name == "envoy/planted");
    }
    plan
}

/// What a mesh adds to the mean latency of a request, in nanoseconds.
fn adds(mesh: &str) -> f64 {
    US * match mesh {
        "envoy/client" => 300.0,
        "envoy/server" => 350.0,
        "envoy" => 600.0,
        "envoy/entry" => 120.0,
        "envoy/mtls" => 680.0,
        _ => 0.0,
    }
}

/// What a mesh adds to a call of an edge, in nanoseconds.
fn adds_to(mesh: &str, callee: &str) -> f64 {
    match (mesh, callee) {
        ("envoy/planted", "voting") => 1_000.0 * US,
        ("envoy/planted", _) | ("bare", _) => 0.0,
        _ => 200.0 * US,
    }
}

fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.next_f64()).sum::<f64>() - 6.0
}

fn histogram(values: impl IntoIterator<Item = f64>) -> Histogram {
    let mut h = Histogram::new();
    values.into_iter().for_each(|ns| h.record(ns as u64));
    h
}

fn latency(service: &str, endpoint: &str, of: &Histogram) -> CallLatency {
    CallLatency {
        service: service.to_owned(),
        endpoint: endpoint.to_owned(),
        latency: of.to_wire(),
    }
}

/// The calls of a trial. All trials of a block share how slow the machine is.
fn calls(result: &TrialResult, rng: &mut Rng) -> TrialCalls {
    let spec = &result.trial;
    let slow = 1.0 + 0.1 * normal(&mut Rng::stream(7, u64::from(spec.block)));
    let noise = 15.0 * US * normal(rng);
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    for (callee, endpoint) in [("emoji", "Find"), ("voting", "Vote")] {
        let own: Vec<f64> = (0..CALLS)
            .map(|_| 200.0 * US * slow * (0.2 * normal(rng)).exp())
            .collect();
        let between = 80.0 * US * slow + adds_to(&spec.mesh.name, callee) + noise;
        let seen = histogram(own.iter().map(|ns| ns + between));
        outgoing.push(latency(callee, endpoint, &seen));
        incoming.push(latency(callee, endpoint, &histogram(own)));
    }
    let service = |name: &str, incoming, outgoing| ServiceCalls {
        service: name.to_owned(),
        incoming,
        outgoing,
    };
    let list = histogram((0..CALLS).map(|_| 400.0 * US * slow));
    let (voting, emoji) = (incoming.pop().unwrap(), incoming.pop().unwrap());
    TrialCalls {
        schema_version: SCHEMA_VERSION,
        window_start_unix_ns: 0,
        window_ns: 4_000_000_000,
        services: vec![
            service("web", vec![latency("web", "list", &list)], outgoing),
            service("emoji", vec![emoji], vec![]),
            service("voting", vec![voting], vec![]),
        ],
    }
}

fn process(name: &str, plane: Plane, cpu_cores: f64) -> ProcessUse {
    ProcessUse {
        name: name.to_owned(),
        plane,
        cpu_cores,
        cpu_cores_max: cpu_cores,
        memory_mean_bytes: 1e7,
        memory_max_bytes: 10_000_000,
        memory_kind: MemoryKind::Pss,
        rss_mean_bytes: Some(1e7),
        throttled_ns: None,
        gone_at_ns: None,
        run_queue_delay_ns: None,
        counters: None,
    }
}

fn stored(plan: &Plan) -> Vec<StoredTrial> {
    let mut all = trials(plan, |result| {
        let spec = result.trial.clone();
        let mut rng = Rng::stream(11, u64::from(spec.index));
        let slow = 50.0 * US * normal(&mut Rng::stream(13, u64::from(spec.block)));
        let at = 1_500.0 * US + slow + adds(&spec.mesh.name) + 10.0 * US * normal(&mut rng);
        let of = histogram((0..CALLS).map(|_| at + 100.0 * US * normal(&mut rng)));
        let load = result.load.as_mut().unwrap();
        load.histograms.latency = of.to_wire();
        load.histograms.service_time = of.to_wire();
        load.latency_ns = of.summary();
        let resources = result.resources.as_mut().unwrap();
        resources.processes = ["web", "emoji", "voting"]
            .iter()
            .flat_map(|name| {
                let app = process(&format!("emojivoto-0/{name}"), Plane::Application, 0.1);
                let sidecar = format!("emojivoto-0/{name}/sidecar");
                let sidecar = process(&sidecar, Plane::DataPlane, 0.15);
                let meshed = spec.mesh.name != "bare";
                [Some(app), meshed.then_some(sidecar)].into_iter().flatten()
            })
            .collect();
    });
    for trial in &mut all {
        let mut rng = Rng::stream(17, u64::from(trial.result.trial.index));
        trial.calls = Some(calls(&trial.result, &mut rng));
    }
    all
}

fn summary(plan: &Plan, stored: &[StoredTrial]) -> Summary {
    summarise(&manifest(plan), stored, Vec::new())
}

fn costs(plan: &Plan, stored: &[StoredTrial]) -> PathCosts {
    summary(plan, stored).path.unwrap()
}

fn holds(e: &Estimate, truth: f64) -> bool {
    e.low.unwrap() <= truth && truth <= e.high.unwrap()
}

#[test]
fn the_parts_and_their_interaction_add_up_to_the_whole() {
    let plan = placements();
    let stored = stored(&plan);
    let costs = costs(&plan, &stored);
    assert_eq!(costs.decompositions.len(), 1);
    let found = &costs.decompositions[0];
    assert_eq!((found.mesh.as_str(), found.blocks.len()), ("envoy", 7));
    let part = |wanted| found.parts.iter().find(|p| p.part == wanted).unwrap();
    let [client, server, interaction, whole] =
        [Part::Client, Part::Server, Part::Interaction, Part::Whole].map(part);
    let sum = client.mean_ns.value + server.mean_ns.value + interaction.mean_ns.value;
    assert!((sum - whole.mean_ns.value).abs() < 1e-6);
    for (part, truth) in [
        (client, 300.0),
        (server, 350.0),
        (interaction, -50.0),
        (whole, 600.0),
        (part(Part::Entry), 120.0),
        (part(Part::MutualTls), 80.0),
    ] {
        let mean = &part.mean_ns;
        // One in twenty intervals of 95 % misses: six of them hold the truth when 1.5 times as wide.
        let half = (mean.high.unwrap() - mean.low.unwrap()) / 2.0;
        let far = (mean.value - truth * US).abs();
        let found = (part.part, mean);
        assert!(far < 1.5 * half && half < 40.0 * US, "{found:?}");
    }
    assert!(
        interaction.percentiles.is_empty(),
        "percentiles do not add up"
    );
    let names: Vec<&str> = whole.percentiles.iter().map(|p| p.name.id()).collect();
    assert_eq!(names, ["p50", "p90", "p99"]);
    let text = render_table(&summary(&plan, &stored), false);
    let row = text
        .lines()
        .find(|l| l.starts_with("proxies on both sides "));
    assert!(row.unwrap().contains(" +0.6"), "{text}");
    assert!(!text.contains("\n\n\n"), "{text}");
}

/// A block without one of the meshes is left out for all of them, so that the identity holds.
#[test]
fn parts_are_compared_in_the_same_blocks() {
    let plan = placements();
    let mut stored = stored(&plan);
    stored.retain(|t| {
        let spec = &t.result.trial;
        (spec.block, spec.mesh.name.as_str()) != (3, "envoy/client")
    });
    let found = costs(&plan, &stored).decompositions.remove(0);
    assert_eq!(found.blocks, [0, 1, 2, 4, 5, 6]);
    let mean = |i: usize| found.parts[i].mean_ns.value;
    assert!((mean(0) + mean(1) + mean(2) - mean(3)).abs() < 1e-6);
    // A mesh without one of its parts has no decomposition.
    stored.retain(|t| t.result.trial.mesh.name != "envoy/client");
    assert_eq!(costs(&plan, &stored).decompositions, []);
}

/// A mesh with a feature is no part of one without it.
#[test]
fn parts_differ_in_the_placement_only() {
    let mut plan = placements();
    let client = plan.meshes.iter_mut().find(|m| m.name == "envoy/client");
    client.unwrap().feature = Some(Box::default());
    assert_eq!(costs(&plan, &stored(&plan)).decompositions, []);
}

/// What no request or call measured has no figure, and neither does a percentile that too few measured.
#[test]
fn trials_without_responses_or_calls_give_no_figure() {
    let plan = placements();
    let mut stored = stored(&plan);
    let few = histogram([2e6; 100]);
    for trial in &mut stored {
        let spec = &trial.result.trial;
        let load = trial.result.load.as_mut().unwrap();
        match (spec.mesh.name.as_str(), spec.block) {
            ("envoy", 2) => load.histograms.latency = Histogram::new().to_wire(),
            ("envoy", 4) => load.histograms.latency = few.to_wire(),
            _ => {}
        }
        let services = &mut trial.calls.as_mut().unwrap().services;
        match (spec.mesh.name.as_str(), spec.block) {
            ("envoy", 3) => services[1].incoming[0].latency = Histogram::new().to_wire(),
            ("envoy/mtls", _) => {
                let two = histogram([3e6; 2]).to_wire();
                services[0].outgoing[0].latency = two.clone();
                services[1].incoming[0].latency = two;
            }
            _ => {}
        }
    }
    let costs = costs(&plan, &stored);
    let found = &costs.decompositions[0];
    assert_eq!(found.blocks, [0, 1, 3, 4, 5, 6]);
    let whole = found.parts.iter().find(|p| p.part == Part::Whole).unwrap();
    let runs = |name: &str| {
        let mut all = whole.percentiles.iter();
        all.find(|p| p.name.id() == name).unwrap().ns.runs.len()
    };
    assert_eq!(
        (whole.mean_ns.runs.len(), runs("p90"), runs("p99")),
        (6, 6, 5)
    );
    let edge = |mesh: &str| {
        let mut edges = costs.edges.iter().filter(|e| e.mesh == mesh);
        edges.find(|e| e.to == "emoji").unwrap()
    };
    let emoji = edge("envoy");
    assert_eq!(emoji.between_ns.runs.len(), 6);
    assert_eq!(emoji.caller.count, 6 * CALLS);
    let rare = edge("envoy/mtls");
    assert_eq!((&rare.between_p50_ns, &rare.added_p50_ns), (&None, &None));
    assert!((rare.added_ns.as_ref().unwrap().value + 80.0 * US).abs() < 40.0 * US);
    assert!(rare.caller.p50.is_some() && rare.caller.p99.is_none());
    assert!(render_page(&summary(&plan, &stored)).contains("emoji"));
}

#[test]
fn a_planted_delay_is_found_on_its_edge_only() {
    let plan = placements();
    let costs = costs(&plan, &stored(&plan));
    let edges: Vec<&PathEdge> = costs
        .edges
        .iter()
        .filter(|e| e.mesh == "envoy/planted")
        .collect();
    let ends: Vec<(&str, &str)> = edges.iter().map(|e| (&*e.from, &*e.to)).collect();
    assert_eq!(
        ends,
        [("generator", "web"), ("web", "emoji"), ("web", "voting")]
    );
    for edge in edges {
        let estimates = [&edge.added_ns, &edge.added_p50_ns].map(|e| e.as_ref().unwrap());
        for added in estimates {
            if edge.to == "voting" {
                assert!(holds(added, 1_000.0 * US), "{added:?}");
                assert!((added.value - 1_000.0 * US).abs() < 50.0 * US, "{added:?}");
            } else {
                let most = added.low.unwrap().abs().max(added.high.unwrap());
                assert!(most < 300.0 * US, "{} to {}: {added:?}", edge.from, edge.to);
            }
        }
    }
    let bare = costs.edges.iter().find(|e| e.mesh == "bare").unwrap();
    assert_eq!(bare.added_ns, None);
}

/// With two callers of different endpoints, each edge has the endpoints that its caller calls.
#[test]
fn another_caller_of_a_service_does_not_change_an_edge() {
    let plan = placements();
    let mut stored = stored(&plan);
    let before = costs(&plan, &stored).edges;
    for trial in &mut stored {
        let emoji = &mut trial.calls.as_mut().unwrap().services[1];
        let slow = histogram([9e9; 50]);
        emoji.incoming.push(latency("emoji", "ListAll", &slow));
    }
    assert_eq!(costs(&plan, &stored).edges, before);
}

#[test]
fn cpu_is_summed_by_service() {
    let plan = placements();
    let alone = costs(&plan, &stored(&plan));
    // A second replica of voting uses as much as the first.
    let mut stored = stored(&plan);
    for trial in &mut stored {
        let processes = &mut trial.result.resources.as_mut().unwrap().processes;
        let of_voting: Vec<ProcessUse> = processes
            .extract_if(.., |p| p.name.contains("/voting"))
            .collect();
        for replica in 0..2 {
            let name = |p: &ProcessUse| p.name.replace("voting", &format!("voting.{replica}"));
            let replica = of_voting.iter().map(|p| ProcessUse {
                name: name(p),
                ..p.clone()
            });
            processes.extend(replica);
        }
    }
    let replicated = costs(&plan, &stored);
    let of = |costs: &PathCosts, mesh: &str, service: Option<&str>| {
        let own = |s: &&_| {
            let s: &tare_records::summary::path::ServiceCosts = s;
            s.mesh == mesh && s.service.as_deref() == service
        };
        costs.services.iter().find(own).unwrap().clone()
    };
    let voting = of(&replicated, "envoy", Some("voting"));
    assert!((voting.application_cores.value - 0.2).abs() < 1e-9);
    assert!((voting.sidecar_cores.as_ref().unwrap().value - 0.3).abs() < 1e-9);
    assert!((of(&replicated, "envoy", None).application_cores.value - 0.4).abs() < 1e-9);
    let voting = of(&alone, "envoy", Some("voting"));
    assert!((voting.application_cores.value - 0.1).abs() < 1e-9);
    assert!((voting.sidecar_cores.as_ref().unwrap().value - 0.15).abs() < 1e-9);
    assert_eq!(of(&alone, "bare", Some("voting")).sidecar_cores, None);
    // 400 calls in 4 s with 0.25 cores; with 0.1 cores.
    let per_day = |mesh| {
        of(&alone, mesh, Some("voting"))
            .calls_per_day_and_core
            .clone()
            .unwrap()
    };
    assert!((per_day("envoy").value - 86_400.0 * 400.0).abs() < 1e-3);
    assert!((per_day("bare").value - 86_400.0 * 1_000.0).abs() < 1e-3);
    let all = of(&alone, "envoy", None);
    assert!((all.application_cores.value - 0.3).abs() < 1e-9);
}

/// Every file of a trial that is damaged has its own note.
#[test]
fn damaged_calls_are_not_used_and_all_damage_has_notes() {
    let plan = placements();
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &plan, |_| {});
    let result = &stored(&plan)[0].result;
    let trial = dir.path().join("trials").join(result.trial.dir_name());
    let write = |calls: &TrialCalls| support::write_json(&trial.join("calls.json"), calls);
    let good = calls(result, &mut Rng::stream(1, 1));
    let read = || {
        let run = tare_report::load_run(dir.path()).unwrap();
        (run.trials[0].calls.clone(), run.notes)
    };
    write(&good);
    assert_eq!(read(), (Some(good.clone()), Vec::new()));
    let mut other = good.clone();
    other.services.swap(0, 1);
    write(&other);
    let (calls, notes) = read();
    assert!(calls.is_none() && notes.len() == 1, "{notes:?}");
    let found =
        "found the services emoji, web, voting, expected web, emoji, voting; the calls are not";
    assert!(notes[0].contains(found), "{notes:?}");
    let mut damaged = good;
    damaged.services[0].incoming[0].latency.max_ns += 1_000_000;
    write(&damaged);
    std::fs::write(trial.join("load.ndjson"), "no record").unwrap();
    let (calls, notes) = read();
    assert!(calls.is_none() && notes.len() == 2, "{notes:?}");
    assert!(notes[0].contains("load.ndjson: "), "{notes:?}");
    let found = "calls.json: list of web: invalid histogram: max_ns contradicts the buckets";
    assert!(notes[1].contains(found), "{notes:?}");
}
