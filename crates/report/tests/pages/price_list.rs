//! The price list of features, from trials with known figures.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use serde_json::json;
use tare_plan::Plan;
use tare_plan::mesh::{DataPlaneKind, Feature, Placement};
use tare_records::summary::{FeaturePrice, Outcome, Price, PriceList, Summary};
use tare_records::trial::{MemoryKind, ProcessUse, Proof, TrialResult};
use tare_records::verdict::{Finding, Grade, Reason, Verdict};
use tare_records::worker::Plane;
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
    plan.workload.graph = tare_plan::graph::builtin("chain-2").unwrap();
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

#[test]
fn a_price_list_of_three_meshes_compares_features_with_the_reference_only() {
    let mut plan = plan();
    for count in [4, 3, 2] {
        plan.meshes.truncate(count);
        let summary = support::analysed(&plan, measured);
        let others = summary.answers.iter().filter(|a| a.reference != "envoy");
        assert_eq!(others.count(), 0, "{count} meshes: {:#?}", summary.answers);
        assert_eq!(summary.answers.len(), count - 1);
        let table = render_table(&summary, false);
        assert!(!table.contains("no comparison"), "{table}");
    }
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
    let hop_ns = list.reference_hop_ns.as_ref().unwrap().value;
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
    let different = Some(Outcome::Different);
    assert_eq!((cpu, memory), (different, different));
    let (cpu_ns, bytes, ..) = added(&list.features[1]);
    assert!(
        close(cpu_ns, 10_000.0) && close(bytes, 0.0),
        "{cpu_ns} {bytes}"
    );
    let (cpu_ns, _, cpu, memory) = added(&list.features[2]);
    assert!(list.features[2].nothing && close(cpu_ns, 0.0));
    assert_eq!((cpu, memory), (Some(Outcome::Same), Some(Outcome::Same)));
    assert_eq!(list.features[0].proofs, ["used grows: grew by 12"]);
    assert_eq!(list.features[0].off.as_deref(), Some("used is 0"));
}

/// Each mesh has its own number of proxies and hops.
#[test]
fn what_a_feature_adds_is_scaled_by_its_own_proxies_and_hops() {
    let mut plan = plan();
    plan.meshes[3].settings.placement = Placement::Server;
    let summary = support::analysed(&plan, |result| {
        measured(result);
        if result.trial.mesh.name == "features/dear" {
            let planes = &mut result.resources.as_mut().unwrap().planes;
            planes.get_mut(&Plane::DataPlane).unwrap().processes = 1;
        }
    });
    let list = summary.price_list.unwrap();
    let mut features = list.features.iter();
    let dear = features.find(|f| f.mesh == "features/dear").unwrap();
    let added = |price: &Option<Price>| price.as_ref().unwrap().added.clone().unwrap().value;
    // Two hops: into s1 and s2.
    let cpu = (0.14 + 0.06) / 2.0 - 0.14 / 3.0;
    assert!(close(added(&dear.cpu), cpu / 400.0 * 1e9), "{dear:?}");
    // 62 MiB and 4 MiB in one proxy, 62 MiB in two.
    assert!(close(added(&dear.memory), 35.0 * MIB), "{dear:?}");
}

#[test]
fn kinds_of_memory_are_not_subtracted_from_each_other() {
    let kind = |result: &mut TrialResult, kind| {
        let resources = result.resources.as_mut().unwrap();
        let processes = resources.processes.iter_mut();
        processes.for_each(|p: &mut ProcessUse| p.memory_kind = kind);
    };
    let list = |rss: fn(&TrialResult) -> bool| {
        let of = |result: &mut TrialResult| {
            measured(result);
            if rss(result) {
                kind(result, MemoryKind::Rss);
            }
        };
        support::analysed(&plan(), of).price_list.unwrap()
    };
    let memory = |list: &PriceList, mesh: &str| {
        let feature = list.features.iter().find(|f| f.mesh == mesh).unwrap();
        feature.memory.clone()
    };
    let one_mesh = list(|r| r.trial.mesh.name == "features/dear");
    assert_eq!(memory(&one_mesh, "features/dear"), None);
    assert!(memory(&one_mesh, "features/cheap").unwrap().added.is_some());
    assert!(one_mesh.reference_proxy_bytes.is_some());
    let one_block = list(|r| r.trial.block == 2);
    assert_eq!(memory(&one_block, "features/dear").unwrap().added, None);
    assert_eq!(one_block.reference_proxy_bytes, None);
}

#[test]
fn a_list_without_an_answer_says_so_once() {
    let summary = support::analysed(&plan(), |result| {
        measured(result);
        if result.trial.mesh.name == "features/dear" {
            let finding = Finding::new(Grade::Invalid, Reason::NoisyNeighbour, "a neighbour");
            result.verdict = Verdict::from_findings(vec![finding]);
        }
    });
    let list = summary.price_list.as_ref().unwrap();
    let cpu = list
        .features
        .iter()
        .map(|f| f.cpu.as_ref().unwrap().outcome);
    assert_eq!(cpu.collect::<Vec<_>>(), [None; 3]);
    let why = "No answer, because something outside the trials disturbed some meshes more often than others.";
    let text = render_table(&summary, false);
    assert_eq!(text.replace('\n', " ").matches(why).count(), 1, "{text}");
    assert!(text.contains("! +") && !text.contains("? +"), "{text}");
    assert!(text.contains("The run is invalid: "), "{text}");
    let page = render_page(&summary);
    let first = page.split_once("<nav").unwrap().0;
    assert_eq!(first.matches(why).count(), 1, "{first}");
    assert!(first.contains("<small>no answer</small>") && !first.contains("<small>higher"));
}

/// What qualifies a feature's answer, a feature that reached a limit, and a mesh that is no feature.
#[test]
fn what_a_list_cannot_show_has_a_sentence() {
    let mut plan = plan();
    plan.meshes[2].feature = None;
    let summary = support::analysed(&plan, |result| {
        measured(result);
        let load = result.load.as_mut().unwrap();
        if result.trial.mesh.name == "features/dear" {
            load.counts.planned += 40;
            load.counts.error += 40;
        }
    });
    let text = render_table(&summary, false);
    let dear = "* dear: Latencies are of successful requests; of all, 200 of which failed,";
    let cheap = "* a cheap feature against Envoy sidecars at 400 rps: the median is";
    assert!(text.contains(dear) && text.contains(cheap), "{text}");
    assert!(!text.contains("* nothing"), "{text}");
    let page = render_page(&summary);
    let first = page.split_once("<nav").unwrap().0;
    assert!(first.contains("<p class=\"caution\">Latencies are of successful requests"));
    assert!(first.contains("a cheap feature against Envoy sidecars"));
    assert!(!first.contains("feature against Envoy sidecars at 400 rps: <b>"));
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

/// More features do not make the answers about one of them less certain.
#[test]
fn each_feature_is_corrected_for_its_own_ratios_only() {
    let summary = summary();
    assert_eq!(summary.comparisons.len(), 3);
    for comparison in &summary.comparisons {
        let primary = comparison.ratios.iter().filter(|r| r.primary);
        let (p, corrected): (Vec<f64>, Vec<f64>) =
            primary.map(|r| (r.p.unwrap(), r.p_holm.unwrap())).unzip();
        assert_eq!(p.len(), 3);
        assert_eq!(corrected, tare_stats::hypothesis::holm(&p));
    }
}

#[test]
fn features_have_prices_only_against_sidecars_without_one() {
    let mut plan = plan();
    plan.meshes[0].data_plane = DataPlaneKind::None;
    let against_bare = support::analysed(&plan, measured);
    assert_eq!(against_bare.price_list, None);
    assert_eq!(against_bare.comparisons.len(), 3);
}

#[test]
fn the_table_has_a_line_for_each_feature_in_80_columns() {
    let text = render_table(&summary(), false);
    assert!(
        text.starts_with("What each feature adds to envoy at 400 rps\n"),
        "{text}"
    );
    let line = |name: &str| text.lines().find(|l| l.starts_with(name)).unwrap();
    assert!(line("dear").contains(" +50.000 µs"), "{text}");
    assert!(line("dear").contains(" +2.000 MiB"), "{text}");
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
        first.contains("<b>+50.000 µs</b>") && first.contains("higher"),
        "{first}"
    );
    assert!(first.contains("the same within the margin"));
    assert!(first.contains("used grows: grew by 12") && first.contains("used is 0"));
    assert!(first.contains("width:100.0%"), "the longest bar");
    assert!(!first.contains("data-chart") && rest.contains("data-chart"));
}
