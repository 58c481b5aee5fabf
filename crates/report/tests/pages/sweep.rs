//! Sweeps whose slopes are known, from the trials to the terminal and the page.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support::{analysed, embedded, manifest, rounded, trials};
use tare_analysis::summary::summarise;
use tare_plan::{
    EnvironmentKind, FactorKind, Figure, Plan, PrecisionTarget, StopRule, extend, resolve,
};
use tare_records::summary::{Fit, Outcome, Slice, Summary, SweepLine};
use tare_records::trial::{PlaneUse, TrialResult};
use tare_records::worker::Plane;
use tare_report::{render_page, render_table};
use tare_stats::Histogram;

/// Microseconds of CPU time and of latency for a KiB without a mesh and with Envoy.
const PER_KIB: [f64; 2] = [1.0, 3.0];

fn plan(text: &str) -> Plan {
    let text = format!("meshes: [bare, envoy]\nrepeats: 5\n{text}");
    let mut plan = resolve("sweep.yaml", &text, &[], &|_| Err(String::new())).unwrap();
    plan.environment = EnvironmentKind::Fake;
    plan
}

fn payload() -> Plan {
    plan(
        "workload: echo\nload: {rate: 200, connections: 8}\n\
         vary: {response_bytes: [0, 1KiB, 16KiB, 64KiB]}",
    )
}

/// The size of the level of a factor of a trial.
fn level(plan: &Plan, result: &TrialResult, kind: FactorKind) -> f64 {
    let sweep = plan.sweep.as_ref().unwrap();
    let spec = &result.trial;
    let of_load = sweep.loads[&spec.load.name].get(&kind);
    let label = of_load.unwrap_or_else(|| &sweep.meshes[&spec.mesh.name].levels[&kind]);
    let factor = sweep.factors.iter().find(|f| f.kind == kind).unwrap();
    let level = factor.levels.iter().find(|l| l.label == *label).unwrap();
    level.value.unwrap()
}

/// Sets CPU time per request and latency, both in microseconds.
fn set(result: &mut TrialResult, cpu_us: f64, latency_us: f64) {
    let rps = result.load.as_ref().unwrap().rate.achieved;
    let planes = &mut result.resources.as_mut().unwrap().planes;
    planes.remove(&Plane::DataPlane);
    let application = PlaneUse {
        cpu_cores: cpu_us * rps / 1e6,
        ..planes[&Plane::Application].clone()
    };
    planes.insert(Plane::Application, application);
    let load = result.load.as_mut().unwrap();
    let mut latency = Histogram::new();
    latency.record_n((latency_us * 1e3) as u64, load.counts.ok);
    load.latency_ns = latency.summary();
    load.histograms.latency = latency.to_wire();
}

/// How much faster or slower a block is: by -20 % to 20 %.
fn factor(result: &TrialResult) -> f64 {
    1.0 + 0.1 * (f64::from(result.trial.block) - 2.0)
}

/// Trials on a line, of which each block has its own.
fn on_a_line(plan: &Plan, bend_us: f64) -> Summary {
    analysed(plan, |result| {
        let kib = level(plan, result, FactorKind::ResponseBytes);
        let per_kib = PER_KIB[usize::from(result.trial.mesh.name != "bare")];
        let bent = if kib == 16.0 { bend_us } else { 0.0 };
        let us = (50.0 + per_kib * kib + bent) * factor(result);
        set(result, us, 10.0 * us);
    })
}

fn slice(summary: &Summary) -> &Slice {
    &summary.sweep.as_ref().unwrap().factors[0].slices[0]
}

fn fit<'a>(line: &'a SweepLine, what: &str) -> &'a Fit {
    line.fits.iter().find(|f| f.what.id() == what).unwrap()
}

fn near(found: f64, expected: f64, relative: f64) {
    assert!(
        (found - expected).abs() <= relative * expected.abs(),
        "{found} for {expected}"
    );
}

#[test]
fn the_slope_of_an_exact_line_and_its_interval_over_blocks_are_known() {
    let plan = payload();
    let summary = on_a_line(&plan, 0.0);
    let slice = slice(&summary);
    assert_eq!(slice.at, "");
    let meshes: Vec<&str> = slice.lines.iter().map(|l| l.mesh.as_str()).collect();
    assert_eq!(meshes, ["bare", "envoy"]);
    // The factors 0.8 to 1.2 have the deviation 0.158; t of 5 blocks is 2.776.
    let half = 2.776_445 * 0.025_f64.sqrt() / 5.0_f64.sqrt();
    for (line, per_kib) in slice.lines.iter().zip(PER_KIB) {
        let cpu = fit(line, "cpu");
        near(cpu.slope.value, 1e3 * per_kib, 1e-9);
        near(cpu.slope.high.unwrap(), 1e3 * per_kib * (1.0 + half), 1e-6);
        near(cpu.slope.low.unwrap(), 1e3 * per_kib * (1.0 - half), 1e-6);
        near(cpu.intercept.value, 50e3, 1e-9);
        assert_eq!((cpu.lack_of_fit_p, cpu.curved), (Some(1.0), false));
        assert_eq!(cpu.residuals.len(), 4);
        // Histograms round latencies.
        near(fit(line, "latency").slope.value, 1e4 * per_kib, 0.01);
        assert!(!line.fits.iter().any(|f| f.what == Figure::Memory));
    }
    let over = fit(&slice.lines[1], "cpu").over_baseline.as_ref().unwrap();
    near(over.value, 2e3, 1e-9);
    near(over.low.unwrap(), 2e3 * (1.0 - half), 1e-6);
    assert!(fit(&slice.lines[0], "cpu").over_baseline.is_none());
}

#[test]
fn each_level_is_compared_with_the_baseline_and_with_the_anchor_by_block() {
    let summary = on_a_line(&payload(), 0.0);
    let envoy = &slice(&summary).lines[1];
    let labels: Vec<&str> = envoy.points.iter().map(|p| p.level.as_str()).collect();
    assert_eq!(labels, ["0", "1KiB", "16KiB", "64KiB"]);
    let figure = |point: usize, what: &str| {
        let figures = &envoy.points[point].figures;
        figures.iter().find(|f| f.what.id() == what).unwrap()
    };
    // 50 + 3 x 64 = 242 over 50 + 64 = 114, and over 50 at the anchor.
    let last = figure(3, "cpu");
    near(last.estimate.value, 242e3, 1e-9);
    let baseline = last.to_baseline.as_ref().unwrap();
    near(baseline.value, 242.0 / 114.0, 1e-6);
    let anchor = last.to_anchor.as_ref().unwrap();
    near(anchor.value, 242.0 / 50.0, 1e-6);
    assert_eq!([baseline.outcome, anchor.outcome], [Outcome::Different; 2]);
    let anchor = figure(0, "p50");
    assert!(anchor.to_anchor.is_none());
    assert_eq!(anchor.to_baseline.as_ref().unwrap().outcome, Outcome::Same);
    // The baseline has no ratio to itself.
    let bare = &slice(&summary).lines[0].points[3].figures;
    assert!(bare.iter().all(|f| f.to_baseline.is_none()));
}

#[test]
fn levels_that_are_not_on_a_line_are_flagged_and_every_output_says_it() {
    let plan = payload();
    let curved = on_a_line(&plan, 30.0);
    for line in &slice(&curved).lines {
        assert!(
            fit(line, "cpu").curved,
            "{:?}",
            fit(line, "cpu").lack_of_fit_p
        );
    }
    let words = "not on a straight line with envoy, bare";
    let table = render_table(&curved, false);
    let flat = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(words), "{table}");
    assert!(
        flat.contains("more than chance: not a straight line"),
        "{table}"
    );
    assert!(render_page(&curved).contains(words));
    let straight = render_table(&on_a_line(&plan, 0.0), false);
    assert!(!straight.contains("straight line"), "{straight}");
}

#[test]
fn the_first_lines_state_what_a_unit_adds() {
    let summary = on_a_line(&payload(), 0.0);
    let expected = "Each KiB of response adds CPU time per request: 3.0 µs (2.4 to 3.6) with envoy and \
                    1.00 µs (0.80 to 1.20) without a mesh.";
    let answers = &summary.sweep.as_ref().unwrap().factors[0].answers;
    assert_eq!(answers[0], expected);
    assert!(
        answers[1].starts_with("Each KiB of response adds mean latency: 30 µs"),
        "{}",
        answers[1]
    );
    assert_eq!(answers.len(), 2);
    let table = render_table(&summary, false);
    assert!(
        table.starts_with("* Each KiB of response adds CPU time per request: 3.0 µs"),
        "{table}"
    );
    assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
    assert!(table.contains("Response size"), "{table}");
    let page = render_page(&summary);
    let first = page.find("Each KiB of response adds").unwrap();
    let charts = page.find("data-chart=\"sweep-first\"").unwrap();
    let pairs = page.find(&summary.answers[0].text[..20]).unwrap();
    assert!(first < charts && charts < pairs);
    assert!(!page.contains("data-chart=\"headline\"") && !page.contains("data-chart=\"scaling\""));
    let read: Summary = embedded(&page, "summary");
    let of = |summary: &Summary| serde_json::to_value(&summary.sweep).unwrap();
    assert_eq!(of(&read), rounded(of(&summary)));
}

#[test]
fn a_slope_that_may_be_negative_is_not_resolved() {
    let plan = payload();
    let summary = analysed(&plan, |result| {
        let kib = level(&plan, result, FactorKind::ResponseBytes);
        // From -1 to 3 µs for a KiB: 1 on average, and a deviation of 1.58.
        let per_kib = f64::from(result.trial.block) - 1.0;
        set(result, 100.0 + per_kib * kib, 1000.0);
    });
    let cpu = fit(&slice(&summary).lines[0], "cpu");
    near(cpu.slope.value, 1e3, 1e-9);
    near(
        cpu.slope.low.unwrap(),
        1e3 * (1.0 - 2.776_445 * 0.5_f64.sqrt()),
        1e-6,
    );
    let answers = &summary.sweep.as_ref().unwrap().factors[0].answers;
    let words = "1.0 µs (-1.0 to 3.0, not resolved) without a mesh.";
    assert!(answers[0].ends_with(words), "{}", answers[0]);
}

#[test]
fn a_full_design_has_a_line_for_each_level_of_the_other_factors() {
    let plan = plan(
        "workload: chain-2\nload: {rate: 200, connections: 8}\n\
         vary: {design: full, depth: [1, 2, 4], response_bytes: [0, 16KiB], mesh: {concurrency: [1, 2]}}",
    );
    let summary = analysed(&plan, |result| {
        let kib = level(&plan, result, FactorKind::ResponseBytes);
        let depth = level(&plan, result, FactorKind::Depth);
        // A KiB costs 1 µs at each service.
        let us = (20.0 + 5.0 * depth + kib * depth) * factor(result);
        set(result, us, us);
    });
    let sweep = summary.sweep.as_ref().unwrap();
    let by_kind = |kind| sweep.factors.iter().find(|f| f.kind == kind).unwrap();
    let response = by_kind(FactorKind::ResponseBytes);
    let at: Vec<&str> = response.slices.iter().map(|s| s.at.as_str()).collect();
    assert_eq!(
        at,
        [
            "depth=1,concurrency=1",
            "depth=2,concurrency=1",
            "depth=4,concurrency=1",
            "depth=1,concurrency=2",
            "depth=2,concurrency=2",
            "depth=4,concurrency=2",
        ]
    );
    for (slice, depth) in response.slices.iter().zip([1.0, 2.0, 4.0, 1.0, 2.0, 4.0]) {
        // A mesh without the setting is in every slice.
        let meshes: Vec<&str> = slice.lines.iter().map(|l| l.mesh.as_str()).collect();
        assert_eq!(meshes, ["bare", "envoy"]);
        for line in &slice.lines {
            near(fit(line, "cpu").slope.value, 1e3 * depth, 1e-6);
        }
    }
    assert_eq!(
        response.slices[3].lines[1].points[0].mesh,
        "envoy[concurrency=2]"
    );
    // At two levels every line fits.
    let two = fit(&response.slices[0].lines[0], "cpu");
    assert!(two.residuals.is_empty() && two.lack_of_fit_p.is_none());
    let depth = &by_kind(FactorKind::Depth).slices[0];
    near(fit(&depth.lines[0], "cpu").slope.value, 5e3, 1e-6);
    // Only the meshes that have the setting, and no line through it.
    let concurrency = by_kind(FactorKind::MeshConcurrency);
    assert_eq!(concurrency.slices[0].lines.len(), 1);
    assert!(concurrency.slices[0].lines[0].fits.is_empty() && concurrency.answers.is_empty());
}

#[test]
fn a_block_without_one_of_the_levels_has_no_line() {
    let plan = payload();
    let mut stored = trials(&plan, |result| {
        let kib = level(&plan, result, FactorKind::ResponseBytes);
        let us = (50.0 + 2.0 * kib) * factor(result);
        set(result, us, us);
    });
    stored.retain(|t| {
        let spec = &t.result.trial;
        !(spec.block == 4 && spec.mesh.name == "envoy" && spec.load.name == "response=16KiB")
    });
    let summary = summarise(&manifest(&plan), &stored, Vec::new());
    let lines = &slice(&summary).lines;
    let blocks = |line: &SweepLine| fit(line, "cpu").slope.runs.len();
    assert_eq!([blocks(&lines[0]), blocks(&lines[1])], [5, 4]);
    assert_eq!(
        fit(&lines[1], "cpu")
            .over_baseline
            .as_ref()
            .unwrap()
            .runs
            .len(),
        4
    );
    near(fit(&lines[1], "cpu").slope.value, 2e3 * 0.95, 1e-6);
}

/// A sweep of 0 to 64 KiB that was extended to 1 MiB. The machine is slower during the extension.
fn extended() -> Plan {
    extend(&payload(), "response_bytes=512KiB,1MiB").unwrap()
}

#[test]
fn an_extended_sweep_pairs_the_new_levels_with_the_anchor_of_the_same_blocks() {
    let plan = extended();
    let summary = on_a_line(&plan, 0.0);
    assert_eq!((summary.trials_done, summary.trials_planned), (70, 70));
    assert_eq!(summary.setup.repeats, 10);
    let envoy = &slice(&summary).lines[1];
    let labels: Vec<&str> = envoy.points.iter().map(|p| p.level.as_str()).collect();
    assert_eq!(labels, ["0", "1KiB", "16KiB", "64KiB", "512KiB", "1MiB"]);
    let runs = |point: usize| envoy.points[point].figures[0].estimate.runs.len();
    assert_eq!([runs(0), runs(3), runs(5)], [10, 5, 5]);
    // Blocks 6 to 10 are 1.3 to 1.7 times as slow, with every level: ratios have none of it.
    let last = &envoy.points[5].figures;
    let cpu = last.iter().find(|f| f.what == Figure::Cpu).unwrap();
    near(cpu.estimate.value, 1.5 * (50.0 + 3.0 * 1024.0) * 1e3, 1e-9);
    let over = [
        cpu.to_anchor.as_ref().unwrap(),
        cpu.to_baseline.as_ref().unwrap(),
    ];
    near(over[0].value, 3122.0 / 50.0, 1e-6);
    near(over[1].value, 3122.0 / 1074.0, 1e-6);
    // Only levels that all blocks have show the state of the machine.
    assert_eq!(summary.machine.blocks.len(), 10);
    near(
        summary.machine.blocks[9] / summary.machine.blocks[0],
        1.7 / 0.8,
        0.01,
    );
    let note =
        "blocks 6 to 10 were added later, with response=0, response=512KiB, response=1MiB only";
    assert!(
        summary.notes.iter().any(|n| n.starts_with(note)),
        "{:?}",
        summary.notes
    );
    let table = render_table(&summary, false);
    assert!(table.contains("x 10 blocks"), "{table}");
    assert!(!table.contains("of 10 blocks"), "{table}");
}

#[test]
fn the_slope_of_an_extended_sweep_is_that_of_least_squares_with_a_constant_for_each_block() {
    let plan = extended();
    let summary = on_a_line(&plan, 0.0);
    // The squared distances of the levels from their mean: 0, 1, 16, 64 and 0, 512, 1024.
    let [near_levels, far] = [2_712.75, 524_288.0];
    let weights = [near_levels, far].map(|w| w / (5.0 * (near_levels + far)));
    let factor: f64 = weights[0] * 5.0 + weights[1] * 7.5;
    for (line, per_kib) in slice(&summary).lines.iter().zip(PER_KIB) {
        let cpu = fit(line, "cpu");
        near(cpu.slope.value, 1e3 * per_kib * factor, 1e-9);
        assert_eq!(cpu.slope.runs.len(), 10);
        // The blocks of the extension have nearly all the weight: the factors 1.3 to 1.7 with the
        // t of 5 blocks, and a little for the others.
        let half = 2.776 * 0.025_f64.sqrt() / 5.0_f64.sqrt() / 1.5;
        near(cpu.slope.high.unwrap() / cpu.slope.value - 1.0, half, 0.03);
        assert_eq!(cpu.lack_of_fit_p, Some(1.0));
    }
    let over = fit(&slice(&summary).lines[1], "cpu")
        .over_baseline
        .as_ref()
        .unwrap();
    near(over.value, 2e3 * factor, 1e-9);

    // Without factors, the line is exact: also where it is drawn.
    let summary = analysed(&plan, |result| {
        let kib = level(&plan, result, FactorKind::ResponseBytes);
        set(result, 50.0 + 2.0 * kib, 100.0);
    });
    let cpu = fit(&slice(&summary).lines[0], "cpu");
    near(cpu.slope.value, 2e3, 1e-9);
    near(cpu.intercept.value, 50e3, 1e-9);
    assert_eq!(cpu.residuals.len(), 6);
    assert!(cpu.residuals.iter().all(|r| r.residual.value.abs() < 1e-3));
}

#[test]
fn a_curve_that_only_the_new_levels_show_is_flagged() {
    // Two levels in each new block, which every line fits.
    let plan = extend(&payload(), "response_bytes=1MiB").unwrap();
    let steeper = |bend: f64| {
        analysed(&plan, |result| {
            let kib = level(&plan, result, FactorKind::ResponseBytes);
            let us = 50.0 + kib + bend * (kib - 64.0).max(0.0);
            let noise = 1.0 + 0.01 * f64::from(result.trial.index % 7);
            set(result, us * factor(result) * noise, 1000.0);
        })
    };
    let (straight, curved) = (steeper(0.0), steeper(1.0));
    let [straight, curved] = [&straight, &curved].map(|s| fit(&slice(s).lines[0], "cpu").clone());
    assert!(
        !straight.curved && curved.curved,
        "{straight:?}, {curved:?}"
    );
    // The residuals are those of the drawn line: most of the slope comes from the new level.
    let residual = |level: &str| {
        let found = curved.residuals.iter().find(|r| r.level == level).unwrap();
        found.residual.value
    };
    assert!(residual("64KiB") < -70e3, "{curved:?}");
    assert!(residual("1MiB").abs() < 20e3, "{curved:?}");
}

#[test]
fn an_unfinished_extension_is_incomplete_and_an_adaptive_one_stops_in_each_of_its_parts() {
    let mut plan = extended();
    let all = trials(&plan, |result| set(result, 50.0, 1000.0));
    let without_last = || all.iter().filter(|t| t.result.trial.block < 9).cloned();
    let stored: Vec<_> = without_last().collect();
    let summary = summarise(&manifest(&plan), &stored, Vec::new());
    assert_eq!((summary.trials_done, summary.trials_planned), (64, 70));
    let table = render_table(&summary, false);
    assert!(table.contains("x 9 of 10 blocks"), "{table}");

    // Both parts have as many blocks as the rule needs at least.
    let target = PrecisionTarget {
        what: Figure::P50,
        half_width: 0.5,
    };
    plan.until = Some(StopRule {
        targets: vec![target],
        min: 3,
        resolved: false,
        budget_ns: None,
    });
    let stops = |t: &tare_analysis::StoredTrial| ![3, 4, 8, 9].contains(&t.result.trial.block);
    let stored: Vec<_> = all.iter().filter(|t| stops(t)).cloned().collect();
    let summary = summarise(&manifest(&plan), &stored, Vec::new());
    assert_eq!((summary.trials_done, summary.trials_planned), (42, 42));
    let stopping = summary.stopping.as_ref().unwrap();
    assert_eq!((stopping.reached_after, stopping.blocks_max), (Some(6), 10));
    assert_eq!(summary.setup.repeats, 6);
    let note = |n: &String| n.starts_with("blocks 6 to 8 were added later");
    assert!(summary.notes.iter().any(note), "{:?}", summary.notes);
}

#[test]
fn the_answers_are_of_the_first_level() {
    let summary = on_a_line(&payload(), 0.0);
    assert!(summary.answers.iter().all(|a| a.load == "response=0"));
    assert!(
        summary.answers[0].text.contains("at 200 rps, response=0"),
        "{}",
        summary.answers[0].text
    );
    let primary = summary
        .comparisons
        .iter()
        .filter(|c| c.ratios.iter().any(|r| r.primary));
    assert!(primary.map(|c| c.load.as_str()).eq(["response=0"]));
}
