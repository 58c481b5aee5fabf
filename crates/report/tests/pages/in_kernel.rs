//! The CPU of a mesh that also works in the kernel, from runs with known CPU of the nodes.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use crate::support::{analysed, legend};
use tare_plan::mesh::MeshKubernetes;
use tare_plan::{Figure, Plan};
use tare_records::summary::Summary;
use tare_records::trial::TrialResult;
use tare_report::render_page;

const MESHES: [(&str, &str); 3] = [
    ("bare", "No mesh"),
    ("kernel", "In the kernel"),
    ("envoy", "Envoy sidecars"),
];

/// Busy cores of the application's nodes at 200 rps, of each block: those of the mesh are 2, 4 and 8 times those of bare.
const BARE: [f64; 3] = [0.1, 0.1, 0.1];
const KERNEL: [f64; 3] = [0.2, 0.4, 0.8];

fn plan() -> Plan {
    let mut plan = support::plan(&MESHES, &[200.0], 3);
    let mut section = MeshKubernetes::default();
    section.parts.in_kernel = true;
    plan.meshes[1].kubernetes = Some(Box::new(section));
    plan
}

fn with_nodes(result: &mut TrialResult) {
    result.load.as_mut().unwrap().rate.achieved = 200.0;
    let block = result.trial.block as usize;
    let busy = match result.trial.mesh.name.as_str() {
        "kernel" => KERNEL[block],
        _ => BARE[block],
    };
    let resources = result.resources.as_mut().unwrap();
    resources.machine.application_nodes_busy_cores = Some(busy);
}

fn pair<'a>(summary: &'a Summary, mesh: &str) -> &'a tare_records::summary::MeshComparison {
    let mut all = summary.comparisons.iter();
    all.find(|c| c.mesh == mesh && c.reference == "bare")
        .unwrap()
}

#[test]
fn its_comparisons_have_the_cpu_of_the_nodes_in_place_of_that_of_containers() {
    let summary = analysed(&plan(), with_nodes);
    let kernel = pair(&summary, "kernel");
    let nodes = kernel.ratio(Figure::NodeCpu).unwrap();
    assert!((nodes.value - 4.0).abs() < 1e-9, "{}", nodes.value);
    let blocks = nodes.blocks.iter().map(|r| (r * 1e9).round() / 1e9);
    assert_eq!(blocks.collect::<Vec<_>>(), [2.0, 4.0, 8.0]);
    // Student's t with two degrees of freedom, times the deviation of the mean logarithm. The resolution of figures in
    // nanoseconds makes the interval a little wider.
    let (low, high) = nodes.low.zip(nodes.high).unwrap();
    assert!((low * high - 16.0).abs() < 1e-6);
    let exact = 4.0 * (4.302_652_73 * 2_f64.ln() / 3_f64.sqrt()).exp();
    assert!(high > exact && high < 1.05 * exact, "{high}, {exact}");
    // 0.3 cores more at 200 rps are 1.5 ms for each request.
    assert!((nodes.difference - 1.5e6).abs() < 1e-3);
    assert!(nodes.primary && nodes.p_holm.is_some());
    for what in [Figure::Cpu, Figure::ProxyCpu] {
        assert!(kernel.ratio(what).is_none(), "{what} lacks the kernel");
    }

    let envoy = pair(&summary, "envoy");
    assert!(envoy.ratio(Figure::Cpu).unwrap().primary);
    assert!(!envoy.ratio(Figure::NodeCpu).unwrap().primary);
}

#[test]
fn table_answer_and_page_name_the_figure() {
    let summary = analysed(&plan(), with_nodes);
    let label = "CPU of the application's nodes per request";
    let sentence = format!("kernel over bare, envoy over kernel: {label}");
    let table = legend(&summary);
    assert!(table.contains(&sentence), "{table}");
    let page = render_page(&summary).replace("&#39;", "'");
    assert!(
        page.contains(&sentence) && page.contains(&format!("{}</th>", Figure::NodeCpu.label()))
    );
    let mut answers = summary.answers.iter();
    assert!(
        answers.any(|a| a.text.contains(label)),
        "{:?}",
        summary.answers
    );

    // Without agents on the nodes, the figure is unknown, and no other CPU takes its place.
    let summary = analysed(&plan(), |_| ());
    let kernel = pair(&summary, "kernel");
    assert!(kernel.ratio(Figure::Cpu).is_none() && kernel.ratio(Figure::NodeCpu).is_none());
    assert!(!render_page(&summary).contains(&format!("{label}</th>")));
    assert!(!legend(&summary).contains("in the kernel, outside"));
}
