//! Loads with churn whose figures are known, from the trials to the terminal and the page.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support::analysed;
use tare_plan::{EnvironmentKind, Figure, Plan, resolve};
use tare_records::churn::{ChurnMetric, ChurnResult};
use tare_records::summary::{CellChurn, Outcome, Summary};
use tare_records::trial::{PlaneUse, TrialResult};
use tare_records::worker::Plane;
use tare_report::{render_page, render_table};

const MS: u64 = 1_000_000;

fn plan(rest: &str) -> Plan {
    let text = format!(
        "environment: kubernetes\nworkload: echo\nmeshes: [bare, istio/minimal]\nrepeats: 5\n\
         load: {{rate: 200, connections: 8, churn: {{services: 10}}}}\n{rest}"
    );
    let plan = resolve("churn.yaml", &text, &[], &|_| Err(String::new()));
    let mut plan = plan.unwrap_or_else(|e| panic!("{e}"));
    plan.environment = EnvironmentKind::Fake;
    plan
}

/// Sets what the churn showed: a mesh is faster than none, and starts pods 1 s later. All times grow with the services.
fn set(result: &mut TrialResult) {
    let meshed = result.trial.mesh.name != "bare";
    let block = u64::from(result.trial.block);
    let services = u64::from(result.trial.load.churn.unwrap().services);
    let base = if meshed { 300 } else { 900 } + 10 * block + services;
    result.churn = Some(ChurnResult {
        planned: 100,
        written: 99,
        convergence_ns: [base, base + 50, base - 50].map(|ms| ms * MS).to_vec(),
        watchers: 2,
        requests: 1000,
        failed: if meshed { 3 } else { 0 },
        clock_uncertainty_ns: Some(2 * MS),
        pod_ready_ns: [1000, 1200]
            .map(|ms| (ms + if meshed { 1000 + block } else { 0 }) * MS)
            .to_vec(),
        mesh_ready_ns: meshed.then_some(20_000 * MS),
        metrics: vec![ChurnMetric {
            name: "pushes".into(),
            unit: String::new(),
            value: 400.0,
        }],
        ..ChurnResult::default()
    });
    let planes = &mut result.resources.as_mut().unwrap().planes;
    planes.remove(&Plane::ControlPlane);
    if meshed {
        let control = PlaneUse {
            cpu_cores: services as f64 / 1000.0,
            ..planes[&Plane::Application].clone()
        };
        planes.insert(Plane::ControlPlane, control);
    }
}

fn of<'a>(summary: &'a Summary, mesh: &str) -> &'a CellChurn {
    let cell = summary.cells.iter().find(|c| c.mesh == mesh).unwrap();
    cell.churn.as_ref().unwrap()
}

#[test]
fn the_figures_of_a_mesh_are_means_over_the_blocks_and_are_compared() {
    let summary = analysed(&plan(""), set);
    let (bare, mesh) = (of(&summary, "bare"), of(&summary, "istio/minimal"));
    // The median of each trial is its first value: 910 to 950 ms, and 310 to 350 ms.
    let value = |e: &Option<tare_records::summary::Estimate>| e.as_ref().unwrap().value / 1e6;
    assert_eq!(value(&bare.convergence_ns).round(), 930.0);
    assert_eq!(value(&mesh.convergence_ns).round(), 330.0);
    assert_eq!(mesh.convergence_max_ns, Some(400 * MS));
    assert_eq!(
        (mesh.arrived, mesh.unseen, mesh.failed, mesh.requests),
        (15, 0, 15, 5000)
    );
    assert_eq!(mesh.written_share, Some(0.99));
    // 1000 to 1004 ms more in the five blocks.
    assert_eq!(value(&mesh.pod_ready_added_ns), 1002.0);
    assert!(bare.pod_ready_added_ns.is_none() && bare.mesh_ready_ns.is_none());
    assert_eq!(value(&mesh.mesh_ready_ns), 20_000.0);
    let comparison = summary
        .comparisons
        .iter()
        .find(|c| c.mesh == "istio/minimal")
        .unwrap();
    let ratio = comparison.ratio(Figure::Convergence).unwrap();
    assert_eq!(ratio.outcome, Outcome::Different);
    assert!((ratio.value - 330.0 / 930.0).abs() < 0.01, "{ratio:?}");

    let table = render_table(&summary, false);
    for words in [
        "istio/minimal, 10 services x 10 endpoints, 1 changes/s, 2 watchers",
        "slowest arrival, s  0.400",
        "not arrived         0 of 15",
        "failed requests     15 of 5000",
        "changes stored, %   99.0",
        "pod later by, s     1.00 (",
        "mesh ready, s       20.0",
        "pushes 400",
    ] {
        assert!(table.contains(words), "no `{words}` in {table}");
    }
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "bare, 10 services without pods, 1 changes per second: half of the changed endpoints have arrived at all 2 \
         watchers after 0.930 s (0.",
        "after 0.330 s (0.",
        "of bare; a pod is ready 1.00 s (1.00 to 1.00) later.",
    ] {
        assert!(words.contains(part), "no `{part}` in {words}");
    }
    let page = render_page(&summary);
    for words in [
        "id=\"control-plane\"",
        "counted by the control plane",
        "15 of 5000",
    ] {
        assert!(page.contains(words), "no `{words}`");
    }
}

#[test]
fn changes_that_did_not_arrive_count_as_the_latest() {
    let summary = analysed(&plan(""), |result| {
        set(result);
        let churn = result.churn.as_mut().unwrap();
        // Of four changes, one did not arrive: the upper median is the largest that did.
        churn.unseen = 1;
        if result.trial.mesh.name != "bare" {
            churn.unseen = 4;
        }
    });
    let bare = of(&summary, "bare").convergence_ns.as_ref().unwrap();
    assert_eq!((bare.value / 1e6).round(), 980.0);
    assert_eq!(of(&summary, "istio/minimal").convergence_ns, None);
    let table = render_table(&summary, false);
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(
            "half of the changed endpoints or more have not arrived at all 2 watchers after 3 s"
        ),
        "{table}"
    );
}

#[test]
fn a_sweep_shows_the_control_plane_at_each_level() {
    let plan = plan("vary: {churn: {services: [10, 100, 500]}}");
    let names: Vec<&str> = plan.loads.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["services=10", "services=100", "services=500"]);
    let summary = analysed(&plan, set);
    let factor = &summary.sweep.as_ref().unwrap().factors[0];
    assert_eq!(
        (factor.title.as_str(), factor.unit.as_str()),
        ("services without pods", "service")
    );
    let line = &factor.slices[0].lines[1];
    let figure = |point: usize, what: &str| {
        let figures = &line.points[point].figures;
        figures
            .iter()
            .find(|f| f.what.id() == what)
            .unwrap()
            .estimate
            .value
    };
    assert_eq!(
        (figure(2, "convergence") / 1e6).round(),
        300.0 + 20.0 + 500.0
    );
    assert!((figure(2, "control_cpu") - 0.5).abs() < 1e-9);
    assert!(figure(0, "control_memory") > 0.0);
}
