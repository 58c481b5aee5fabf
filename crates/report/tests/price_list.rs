//! The price list of features, from trials with known figures.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use serde_json::json;
use tare_model::mesh::{DataPlaneKind, Feature};
use tare_model::plan::Plan;
use tare_model::summary::{FeaturePrice, Outcome, Summary};
use tare_model::trial::{Proof, TrialResult};
use tare_model::worker::Plane;
use tare_report::{render_page, render_table};

const MIB: f64 = 1_048_576.0;

fn plan() -> Plan {
    let meshes = [
        ("envoy", "Envoy sidecars"),
        ("features/nothing", "nothing"),
        ("features/cheap", "a cheap feature"),
        ("features/dear", "a <dear> feature"),
    ];
    let mut plan = support::plan(&meshes, &[400.0], 5);
    plan.workload.graph = tare_model::graph::builtin("chain-2").unwrap();
    for mesh in &mut plan.meshes {
        mesh.data_plane = DataPlaneKind::EnvoySidecar;
        let feature = match mesh.name.as_str() {
            "envoy" => continue,
            "features/nothing" => json!({}),
            _ => json!({"proofs": [{"counter": {"name": "used", "grows": "some"}}]}),
        };
        mesh.feature = Some(Box::new(
            serde_json::from_value::<Feature>(feature).unwrap(),
        ));
    }
    plan
}

/// Sidecars that use 0.12 cores and 60 MiB, more in later blocks. The cheap feature adds 0.012 cores, the
/// dear one 0.06 cores and 4 MiB.
fn measured(result: &mut TrialResult) {
    let (mesh, block) = (
        result.trial.mesh.name.clone(),
        f64::from(result.trial.block),
    );
    let (cores, memory) = match mesh.as_str() {
        "features/cheap" => (0.012, 0.0),
        "features/dear" => (0.06, 4.0 * MIB),
        _ => (0.0, 0.0),
    };
    let resources = result.resources.as_mut().unwrap();
    // The kind of memory of a plane is that of its processes.
    let mut process = resources.processes[0].clone();
    process.plane = Plane::DataPlane;
    resources.processes.push(process);
    let planes = &mut resources.planes;
    let mut plane = planes[&Plane::Application].clone();
    plane.processes = 2;
    plane.cpu_cores = 0.12 + 0.01 * block + cores;
    plane.memory_mean_bytes = 60.0 * MIB + MIB * block + memory;
    planes.insert(Plane::DataPlane, plane);
    let proof = |claim: String, seen: &str| Proof {
        claim,
        holds: true,
        seen: seen.to_owned(),
    };
    result.proofs = match mesh.as_str() {
        "envoy" => vec![
            proof(Feature::claim_off("features/dear"), "used is 0"),
            proof(Feature::claim_off("features/cheap"), "used is 0"),
        ],
        "features/nothing" => Vec::new(),
        mesh => {
            let claim = format!("{}: used grows", Feature::claim_on(mesh));
            vec![proof(claim, "grew by 12")]
        }
    };
}

fn summary() -> Summary {
    support::analysed(&plan(), measured)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

#[test]
fn each_feature_has_what_it_adds_to_a_hop_and_to_a_proxy() {
    let summary = summary();
    let list = summary.price_list.as_ref().unwrap();
    assert_eq!(list.reference, "envoy");
    let names: Vec<&str> = list.features.iter().map(|f| f.mesh.as_str()).collect();
    assert_eq!(names[..2], ["features/dear", "features/cheap"], "by CPU");
    // A request passes through 3 sidecars of services: in and out of s1, into s2.
    let hop_ns = list.reference_request_ns.as_ref().unwrap().value;
    assert!(close(hop_ns, 0.14 / 400.0 * 1e9 / 3.0), "{hop_ns}");
    let proxy = list.reference_proxy_bytes.as_ref().unwrap().value;
    assert!(close(proxy, 31.0 * MIB), "{proxy}");
    let added = |f: &FeaturePrice| {
        let cpu = f.cpu.as_ref().unwrap();
        let memory = f.memory.as_ref().unwrap();
        let cpu_ns = cpu.added.as_ref().unwrap().value;
        let bytes = memory.added.as_ref().unwrap().value;
        (cpu_ns, bytes, cpu.outcome, memory.outcome)
    };
    let (cpu_ns, bytes, cpu, memory) = added(&list.features[0]);
    assert!(
        close(cpu_ns, 50_000.0) && close(bytes, 2.0 * MIB),
        "{cpu_ns} {bytes}"
    );
    assert_eq!((cpu, memory), (Outcome::Different, Outcome::Different));
    let (cpu_ns, bytes, ..) = added(&list.features[1]);
    assert!(
        close(cpu_ns, 10_000.0) && close(bytes, 0.0),
        "{cpu_ns} {bytes}"
    );
    let (cpu_ns, _, cpu, memory) = added(&list.features[2]);
    assert!(list.features[2].nothing && close(cpu_ns, 0.0));
    assert_eq!((cpu, memory), (Outcome::Same, Outcome::Same));
    assert_eq!(list.features[0].proofs, ["used grows: grew by 12"]);
    assert_eq!(list.features[0].off.as_deref(), Some("used is 0"));
}

#[test]
fn features_are_compared_with_the_baseline_only() {
    let summary = summary();
    let references = summary.comparisons.iter().map(|c| c.reference.as_str());
    assert_eq!(references.collect::<Vec<_>>(), ["envoy"; 3]);
    let mut plan = plan();
    plan.meshes.iter_mut().for_each(|m| m.feature = None);
    let without = support::analysed(&plan, measured);
    assert_eq!(without.comparisons.len(), 6, "all pairs");
    assert_eq!(without.price_list, None);
}

#[test]
fn the_table_has_a_line_for_each_feature_in_80_columns() {
    let text = render_table(&summary(), false);
    assert!(
        text.starts_with("What each feature adds to envoy at 400 rps\n"),
        "{text}"
    );
    let line = |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap();
    assert!(line("dear").contains("+50.0 µs"), "{text}");
    assert!(line("dear").contains("+2.00 MiB"), "{text}");
    assert!(line("nothing").contains("= 0"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    assert!(
        !text.contains("against Envoy sidecars"),
        "no sentence for each feature:\n{text}"
    );
}

#[test]
fn the_page_answers_with_the_list_first() {
    let page = render_page(&summary());
    assert!(page.contains("<h1>What 2 features add to envoy</h1>"));
    let main = page.split_once("<main>").unwrap().1;
    let (first, rest) = main.split_once("<nav").unwrap();
    assert!(first.contains("a &lt;dear&gt; feature<small>dear</small>"));
    assert!(
        first.contains("<b>+50.0 µs</b>") && first.contains("higher"),
        "{first}"
    );
    assert!(first.contains("the same within the margin"));
    assert!(first.contains("used grows: grew by 12") && first.contains("used is 0"));
    assert!(first.contains("style=\"width:100%\""), "the longest bar");
    assert!(!first.contains("data-chart") && rest.contains("data-chart"));
}
