//! Instructions and cycles per request, from runs with known hardware counters.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use crate::support::{analysed, trials};
use tare_analysis::StoredTrial;
use tare_analysis::compare::Side;
use tare_analysis::compare::across::compare;
use tare_analysis::summary::summarise;
use tare_plan::{Figure, Plan, Unit};
use tare_records::record::HardwareCounts;
use tare_records::summary::comparison::{Comparison, JudgedBy};
use tare_records::summary::{Ratio, Summary, TrialRow};
use tare_records::trial::TrialResult;
use tare_records::verdict::Grade;
use tare_records::worker::Plane;
use tare_report::{render_comparison, render_page};

const MESHES: [(&str, &str); 2] = [("bare", "No mesh"), ("envoy", "Envoy sidecars")];

/// Instructions and cycles of a request in the application.
const APPLICATION: [u64; 2] = [50_000, 40_000];

/// Instructions and cycles of a request in the proxies, by block. With those of the application, they
/// are 2, 4 and 8 times the instructions of the application alone, and always 3 times its cycles.
const PROXIES: [[u64; 2]; 3] = [[50_000, 80_000], [150_000, 80_000], [350_000, 80_000]];

fn plan() -> Plan {
    support::plan(&MESHES, &[200.0], 3)
}

/// Sets the counters of a trial. It achieves exactly 200 requests per second.
fn count(result: &mut TrialResult, user_only: bool) {
    result.load.as_mut().unwrap().rate.achieved = 200.0;
    let block = result.trial.block as usize;
    let resources = result.resources.as_mut().unwrap();
    let requests = 200 * resources.window_ns / 1_000_000_000;
    for (plane, used) in &mut resources.planes {
        let [instructions, cycles] = match plane {
            Plane::Application => APPLICATION,
            Plane::DataPlane => PROXIES[block],
            _ => [1_000_000, 1_000_000],
        };
        used.counters = Some(HardwareCounts {
            instructions: instructions * requests,
            cycles: cycles * requests,
            user_only,
        });
    }
}

/// Counts all trials, without the proxies of the second block.
fn count_in_part(result: &mut TrialResult) {
    count(result, false);
    if result.trial.mesh.name == "envoy" && result.trial.block == 1 {
        let planes = &mut result.resources.as_mut().unwrap().planes;
        planes.get_mut(&Plane::DataPlane).unwrap().counters = None;
    }
}

fn ratio(summary: &Summary, what: Figure) -> Option<&Ratio> {
    summary.comparisons[0].ratio(what)
}

/// The ratios of the blocks, without the rounding of logarithms.
fn blocks(ratio: &Ratio) -> Vec<f64> {
    let rounded = ratio.blocks.iter().map(|r| (r * 1e9).round() / 1e9);
    rounded.collect()
}

/// The instructions and cycles of a request in the trials of a mesh, by block.
fn rows(summary: &Summary, mesh: &str) -> Vec<Option<(f64, f64)>> {
    let of_mesh = summary.trials.iter().filter(|t| t.mesh == mesh);
    let mut rows: Vec<&TrialRow> = of_mesh.collect();
    rows.sort_by_key(|t| t.block);
    let figures = |t: &&TrialRow| t.instructions_per_request.zip(t.cycles_per_request);
    rows.iter().map(figures).collect()
}

#[test]
fn known_counters_give_the_figures_exactly() {
    let mut manifest = support::manifest(&plan());
    let what = "instructions and cycles in user space and kernel";
    manifest.fingerprint.hardware_counters = Some(what.to_owned());
    let stored = trials(&plan(), |r| count(r, false));
    let summary = summarise(&manifest, &stored, Vec::new());
    assert_eq!(rows(&summary, "bare"), [Some((50_000.0, 40_000.0)); 3]);
    assert_eq!(
        rows(&summary, "envoy"),
        [100_000.0, 200_000.0, 400_000.0].map(|n| Some((n, 120_000.0)))
    );
    let envoy = summary.cells.iter().find(|c| c.mesh == "envoy").unwrap();
    let proxies = &envoy.planes[&Plane::DataPlane];
    let instructions = proxies.instructions_per_request.as_ref().unwrap();
    assert!((instructions.value - 550_000.0 / 3.0).abs() < 1e-6);
    // Student's t with two degrees of freedom, times the deviation of the mean.
    let half = 4.302_652_73 * (70_000_000_000.0_f64 / 3.0).sqrt() / 3_f64.sqrt();
    let high = instructions.value + half;
    assert!((instructions.high.unwrap() - high).abs() < 1.0, "{high}");
    let cycles = proxies.cycles_per_request.as_ref().unwrap();
    assert_eq!((cycles.value, cycles.low), (80_000.0, Some(80_000.0)));

    let instructions = ratio(&summary, Figure::Instructions).unwrap();
    assert_eq!(blocks(instructions), [2.0, 4.0, 8.0]);
    assert!((instructions.value - 4.0).abs() < 1e-9);
    let high = 4.0 * (4.302_652_73 * 2_f64.ln() / 3_f64.sqrt()).exp();
    assert!((instructions.high.unwrap() / high - 1.0).abs() < 1e-6);
    assert!((instructions.difference - 150_000.0).abs() < 1e-6);
    assert_eq!(instructions.unit, Unit::Count);
    assert!((ratio(&summary, Figure::Cycles).unwrap().value - 3.0).abs() < 1e-9);
    for what in [Figure::Instructions, Figure::Cycles] {
        let ratio = ratio(&summary, what).unwrap();
        assert!(!ratio.primary && ratio.p_holm.is_none(), "{what}");
        assert_eq!(ratio.margin, 0.03);
    }
    let page = render_page(&summary);
    for text in [
        "<dt>Hardware counters</dt><dd>instructions and cycles in user space and kernel</dd>",
        "<b>183 k</b>",
        "<b>80.0 k</b> <small>80.0 k to 80.0 k</small>",
        "instructions per request</th>",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn a_trial_without_counters_is_unknown_and_in_no_figure() {
    let summary = analysed(&plan(), count_in_part);
    let known = |n| Some((n, 120_000.0));
    assert_eq!(
        rows(&summary, "envoy"),
        [known(100_000.0), None, known(400_000.0)]
    );
    let instructions = ratio(&summary, Figure::Instructions).unwrap();
    assert_eq!(blocks(instructions), [2.0, 8.0]);
    assert_eq!(ratio(&summary, Figure::Cpu).unwrap().blocks.len(), 3);
    let envoy = summary.cells.iter().find(|c| c.mesh == "envoy").unwrap();
    let of = |plane| {
        let counted = envoy.planes[&plane].instructions_per_request.as_ref();
        counted.unwrap().runs.clone()
    };
    assert_eq!(of(Plane::DataPlane).len(), 2);
    assert_eq!(of(Plane::Application), [50_000.0; 3]);
    assert!(render_page(&summary).contains("<small>2 of 3 trials</small>"));
}

#[test]
fn a_run_without_counters_shows_none() {
    let summary = analysed(&plan(), |_| ());
    assert_eq!(rows(&summary, "envoy"), [None; 3]);
    assert!(
        ratio(&summary, Figure::Instructions).is_none()
            && ratio(&summary, Figure::Cycles).is_none()
    );
    let page = render_page(&summary);
    assert!(!page.contains("instructions per request</th>"));
    assert!(!page.contains("Hardware counters"));
}

fn compared(before: &[StoredTrial], after: &[StoredTrial]) -> Comparison {
    let manifest = support::manifest(&plan());
    let side = |trials| Side {
        manifest: &manifest,
        trials,
        grade: Grade::Valid,
    };
    let limits = ["instructions:+10%".parse().unwrap()];
    compare(&side(before), &side(after), &limits, JudgedBy::Bound)
}

#[test]
fn counters_with_and_without_the_kernel_are_not_compared() {
    let of = |user_only| trials(&plan(), |r| count(r, user_only));
    let has = |c: &Comparison| {
        let mut changes = c.cells.iter().flat_map(|c| &c.changes);
        changes.any(|c| c.ratio.what == Figure::Instructions)
    };
    let (all, user_only) = (of(false), of(true));
    let same = compared(&all, &all);
    assert!(has(&same) && same.warnings.is_empty());
    let text = render_comparison(&same, false);
    assert!(
        text.contains("instructions per request   50.0 k   50.0 k"),
        "{text}"
    );
    let other = compared(&all, &user_only);
    assert!(!has(&other));
    assert_eq!(
        other.warnings,
        [
            "hardware counters count user space and kernel before and user space only after, and are \
             not compared"
        ]
    );
}
