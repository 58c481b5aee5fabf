//! Comparisons of two runs with known changes, and the figures other than the pooled ones.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use crate::support::{analysed, scale, trials};
use tare_analysis::StoredTrial;
use tare_analysis::compare::across::{compare, different_workloads};
use tare_analysis::compare::{Side, clusters};
use tare_analysis::summary::METHODS;
use tare_plan::trial::order;
use tare_plan::{Figure, Plan};
use tare_records::calls::TrialCalls;
use tare_records::layout::IdleCores;
use tare_records::summary::Outcome;
use tare_records::summary::comparison::{Comparison, Judged, JudgedBy, ThresholdResult};
use tare_records::trial::{MemoryKind, PlaneUse, TrialResult};
use tare_records::verdict::{Grade, Reason};
use tare_records::worker::Plane;
use tare_report::{
    render_comparison, render_comparison_markdown, render_comparison_page, render_detectable,
    render_method, render_published,
};

const MESHES: [(&str, &str); 2] = [("bare", "No mesh"), ("envoy", "Envoy sidecars")];

fn plan(blocks: u32, seed: u64) -> Plan {
    Plan {
        seed,
        ..support::plan(&MESHES, &[200.0], blocks)
    }
}

/// Multiplies all latencies of `mesh` by `factor`.
fn slower(mesh: &'static str, factor: f64) -> impl FnMut(&mut TrialResult) {
    move |result| {
        if result.trial.mesh.name == mesh {
            scale(result, factor);
        }
    }
}

fn compared(before: &[StoredTrial], after: &[StoredTrial], limits: &[&str]) -> Comparison {
    let (a, b) = (
        support::manifest(&plan(6, 1)),
        support::manifest(&plan(6, 2)),
    );
    let side = |manifest, trials| Side {
        manifest,
        trials,
        grade: Grade::Valid,
    };
    let limits: Vec<_> = limits.iter().map(|l| l.parse().unwrap()).collect();
    compare(
        &side(&a, before),
        &side(&b, after),
        &limits,
        JudgedBy::Bound,
    )
}

fn exceeded(found: &Comparison) -> Vec<&Judged> {
    let exceeded = |j: &&Judged| j.result == ThresholdResult::Exceeded;
    found.thresholds.iter().filter(exceeded).collect()
}

#[test]
fn equal_runs_are_not_different_and_exceed_no_threshold() {
    let found = compared(
        &trials(&plan(6, 1), |_| {}),
        &trials(&plan(6, 2), |_| {}),
        &["p50:+5%", "p99:+1ms", "ratio_p50:+20%", "memory:+5%"],
    );
    assert!(exceeded(&found).is_empty(), "{:?}", found.thresholds);
    assert_eq!(found.cells.len(), 2);
    // p50 and p99 of both; the ratio and the memory of envoy alone.
    assert_eq!(found.thresholds.len(), 6);
    for change in found.cells.iter().flat_map(|c| &c.changes) {
        assert!(change.ratio.p_holm.unwrap() > 0.05, "{change:?}");
        assert_ne!(change.ratio.outcome, Outcome::Different);
    }
    assert_eq!(found.warnings, Vec::<String>::new());
}

#[test]
fn a_slower_mesh_is_found_where_it_is_slower() {
    let after = trials(&plan(6, 2), slower("envoy", 1.3));
    let found = compared(
        &trials(&plan(6, 1), |_| {}),
        &after,
        &["p50:+10%", "p50:+45%"],
    );
    let all = exceeded(&found);
    assert_eq!(all.len(), 1, "{:?}", found.thresholds);
    assert_eq!((all[0].mesh.as_str(), all[0].limit), ("envoy", Some(0.10)));
    let change = |what: &str| {
        let mut changes = found.cells[1].changes.iter();
        &changes.find(|c| c.ratio.what.id() == what).unwrap().ratio
    };
    let p50 = change("p50");
    assert_eq!(p50.outcome, Outcome::Different);
    let (low, high) = (p50.low.unwrap(), p50.high.unwrap());
    assert!(
        1.1 < low && low < 1.3 && 1.3 < high && high < 1.5,
        "{p50:?}"
    );
    assert!(p50.p_holm.unwrap() < 0.05 && p50.p.unwrap() <= p50.p_holm.unwrap());
    assert_eq!(change("ratio_p50").outcome, Outcome::Different);

    let text = render_comparison(&found, false);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(
        text.contains("exceeded p50:+10%: envoy at 200rps: lower end"),
        "{text}"
    );
    let markdown = render_comparison_markdown(&found);
    assert!(
        markdown.starts_with("### tare: 1 of 4 thresholds exceeded"),
        "{markdown}"
    );
    assert!(markdown.contains("| envoy | 200rps | p50 |"), "{markdown}");
    assert!(markdown.contains("**higher**"), "{markdown}");
}

#[test]
fn the_page_of_a_comparison_says_what_changed_and_draws_each_figure_once() {
    let found = compared(
        &trials(&plan(6, 1), |_| {}),
        &trials(&plan(6, 2), slower("envoy", 1.3)),
        &["p50:+10%"],
    );
    let page = render_comparison_page(&found);
    let answer = page.split("class=\"answer\">").nth(1).unwrap();
    let answer = answer.split("</p>").next().unwrap();
    assert!(
        answer.starts_with("Different: envoy at 200rps: p50 x1.3"),
        "{answer}"
    );
    assert!(!answer.contains("bare"), "{answer}");
    let figures: usize = found.cells.iter().map(|c| c.changes.len()).sum();
    assert_eq!(page.matches("<circle").count(), figures);
    assert!(page.contains("exceeded p50:+10%: envoy"), "{answer}");
    assert!(
        page.contains("script-src 'none'") && !page.contains("<script"),
        "a page without a script"
    );
    let same = trials(&plan(6, 1), |_| {});
    let page = render_comparison_page(&compared(&same, &same, &[]));
    assert!(page.contains("No figure is different: "), "{page}");
}

#[test]
fn one_block_exceeds_no_threshold_by_its_bound() {
    let one = |seed| -> Vec<StoredTrial> {
        let all = trials(&plan(6, seed), |_| {});
        all.into_iter()
            .filter(|t| t.result.trial.block == 0)
            .collect()
    };
    // p99 exists, so that more responses would not help.
    let found = compared(&one(1), &one(2), &["p99:+5%"]);
    let text = render_comparison(&found, false);
    assert!(text.contains("it needs at least 2 blocks"), "{text}");
    assert!(!text.contains("responses in each trial"), "{text}");
    let found = compared(&one(1), &one(2), &["p50:+0%"]);
    let unchecked = |j: &Judged| j.result == ThresholdResult::NotChecked && j.found.is_none();
    assert!(found.thresholds.iter().all(unchecked));
    assert_eq!(
        found.cells[0].changes[0].ratio.outcome,
        Outcome::NotResolved
    );
    assert!(render_comparison(&found, false).contains("not checked p50:+0%"));
    let markdown = render_comparison_markdown(&found);
    assert!(
        markdown.starts_with("### tare: 2 of 2 thresholds not checked"),
        "{markdown}"
    );
}

#[test]
fn kinds_of_memory_are_never_compared_with_one_another() {
    let other = |result: &mut TrialResult| {
        let processes = &mut result.resources.as_mut().unwrap().processes;
        processes
            .iter_mut()
            .for_each(|p| p.memory_kind = MemoryKind::Rss);
    };
    let found = compared(
        &trials(&plan(6, 1), |_| {}),
        &trials(&plan(6, 2), other),
        &["memory:+5%"],
    );
    let mut changes = found.cells.iter().flat_map(|c| &c.changes);
    assert!(!changes.any(|c| c.ratio.what == Figure::Memory));
    assert!(found.thresholds.is_empty());
    assert_eq!(
        found.warnings,
        ["memory is PSS before and RSS after, and is not compared"]
    );
    // The same holds if one trial differs from the others of its run.
    let one = |result: &mut TrialResult| {
        if result.trial.block == 5 {
            other(result);
        }
    };
    let found = compared(
        &trials(&plan(6, 1), one),
        &trials(&plan(6, 2), one),
        &["memory:+5%"],
    );
    assert!(found.thresholds.is_empty());
    assert_eq!(
        found.warnings,
        ["memory is PSS and RSS before and PSS and RSS after, and is not compared"]
    );
}

#[test]
fn what_only_one_run_measured_is_a_warning() {
    let undelayed = |result: &mut TrialResult| {
        let processes = result.resources.as_mut().unwrap().processes.iter_mut();
        processes.for_each(|p| p.run_queue_delay_ns = None);
    };
    let (without, mut with) = (trials(&plan(3, 1), undelayed), trials(&plan(3, 2), |_| {}));
    with[0].calls = Some(TrialCalls {
        schema_version: tare_plan::SCHEMA_VERSION,
        window_start_unix_ns: 0,
        window_ns: 1,
        services: Vec::new(),
    });
    let warnings = |a: &[StoredTrial], b: &[StoredTrial]| compared(a, b, &[]).warnings;
    assert_eq!(warnings(&with, &with), Vec::<String>::new());
    assert_eq!(
        warnings(&without, &with),
        [
            "run-queue delay: not measured before, measured after; reading it takes CPU time",
            "time of the calls between services: not measured before, measured after; timing adds \
             to each call"
        ]
    );
    let manifest = support::manifest(&plan(3, 1));
    let side = |trials| Side {
        manifest: &manifest,
        trials,
        grade: Grade::Valid,
    };
    let sides = [
        ("a", side(&with[..])),
        ("b", side(&without)),
        ("c", side(&with)),
    ];
    let found = clusters::compare(&sides).warnings;
    assert_eq!(
        found[0],
        "run-queue delay: measured on a and c only; reading it takes CPU time"
    );
    assert_eq!(found.len(), 2);
    assert!(clusters::compare(&sides[1..2]).warnings.is_empty());
}

#[test]
fn meshes_with_other_kinds_of_memory_have_no_ratio_of_memory() {
    let meshes = [
        ("bare", "No mesh"),
        ("envoy", "Envoy"),
        ("envoy/mtls", "Envoy with mTLS"),
    ];
    let plan = support::plan(&meshes, &[200.0], 4);
    let with = |kinds: [MemoryKind; 2]| {
        let summary = analysed(&plan, |r| {
            let processes = &mut r.resources.as_mut().unwrap().processes;
            let proxies = processes.iter_mut().filter(|p| p.plane == Plane::DataPlane);
            let of = usize::from(r.trial.mesh.name == "envoy/mtls");
            proxies.for_each(|p| p.memory_kind = kinds[of]);
        });
        let mut ratios = summary.comparisons.iter().flat_map(|c| &c.ratios);
        ratios.any(|r| r.what == Figure::Memory)
    };
    assert!(with([MemoryKind::Pss, MemoryKind::Pss]));
    assert!(!with([MemoryKind::Pss, MemoryKind::Rss]));
    assert!(!with([MemoryKind::Rss, MemoryKind::WorkingSet]));
}

#[test]
fn published_methods_state_the_maxima_of_the_control_plane() {
    // Cores of the busiest second and MiB of the 4 runs of `envoy`, in order of block.
    let (cores, mib) = ([0.071, 0.084, 0.069, 0.078], [324.0, 330.0, 318.0, 326.0]);
    let summary = analysed(&plan(4, 1), |r| {
        let of = r.trial.block as usize;
        if r.trial.mesh.name == "envoy" {
            let plane = PlaneUse {
                processes: 3,
                cpu_cores: 0.02,
                cpu_cores_max: cores[of],
                memory_mean_bytes: 1.0,
                memory_max_bytes: (mib[of] * 1_048_576.0) as u64,
                rss_mean_bytes: Some(1.0),
                ..PlaneUse::default()
            };
            let planes = &mut r.resources.as_mut().unwrap().planes;
            planes.insert(Plane::ControlPlane, plane);
        }
    });
    let cell = &summary.cells[1];
    let figure = |i: usize, what: &str| {
        let mut figures = cell.named[i].figures.iter();
        figures.find(|f| f.what.id() == what).unwrap()
    };
    let (cpu, memory) = (
        figure(0, "control_plane_cpu"),
        figure(0, "control_plane_memory"),
    );
    assert_eq!(
        (cpu.value, cpu.low, cpu.high),
        (0.0745, Some(0.069), Some(0.084))
    );
    assert_eq!(memory.value, 325.0 * 1_048_576.0);
    // The mean without the run that has the highest maximum latency.
    let worst = cell.named[1].dropped.unwrap();
    let worst = cell.trials_used.iter().position(|t| *t == worst).unwrap();
    let kept: Vec<f64> = (0..4).filter(|i| *i != worst).map(|i| cores[i]).collect();
    let cpu = figure(1, "control_plane_cpu");
    assert_eq!(cpu.runs, kept);
    assert!((cpu.value - kept.iter().sum::<f64>() / 3.0).abs() < 1e-12);
    for method in METHODS {
        let text = render_method(&summary, method).unwrap();
        assert!(text.contains("control plane  "), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
    let text = render_method(&summary, "kinvolk-2019").unwrap();
    assert!(
        text.contains("0.074 (0.069 to 0.084)") || text.contains("0.075 (0.069 to 0.084)"),
        "{text}"
    );
    assert!(text.contains("325 (318 to 330)"), "{text}");
    let without = render_method(&analysed(&plan(4, 1), |_| {}), "kinvolk-2019").unwrap();
    assert!(!without.contains("control plane"), "{without}");
}

#[test]
fn different_machines_and_settings_are_named() {
    let before = support::manifest(&plan(3, 1));
    let mut after = support::manifest(&plan(3, 1));
    after.fingerprint.cores = 8;
    after.fingerprint.idle = Some(IdleCores {
        awake: true,
        how: "by spinning".into(),
    });
    after
        .fingerprint
        .programs
        .insert("envoy".into(), "1.0".into());
    let connections = after.plan.loads[0].connections;
    let concurrency = after.plan.meshes[1].settings.concurrency;
    after.plan.loads[0].connections = 99;
    after.plan.meshes[1].settings.concurrency += 1;
    let stored = trials(&plan(3, 1), |_| {});
    let side = |manifest| Side {
        manifest,
        trials: stored.as_slice(),
        grade: Grade::Valid,
    };
    let found = compare(&side(&before), &side(&after), &[], JudgedBy::Bound);
    assert_eq!(
        found.warnings,
        [
            "cores: 4 before, 8 after",
            "idle cores: unknown before, kept awake after",
            "envoy: 0.0 (synthetic) before, 1.0 after",
            format!("the load 200rps: connections: {connections} before, 99 after").as_str(),
            format!(
                "envoy: concurrency: {concurrency} before, {} after",
                concurrency + 1
            )
            .as_str(),
        ]
    );
    let markdown = render_comparison_markdown(&found);
    assert!(markdown.contains("envoy: concurrency: "), "{markdown}");
    assert_eq!(
        different_workloads(&side(&before), &side(&after)),
        [format!(
            "the load 200rps: connections: {connections} before, 99 after"
        )]
    );
}

#[test]
fn methods_of_published_benchmarks_give_the_figures_computed_by_hand() {
    let summary = analysed(&plan(4, 1), |_| {});
    let cell = &summary.cells[1];
    let names: Vec<&str> = cell.named.iter().map(|n| n.method.as_str()).collect();
    assert_eq!(names, METHODS);
    let figure = |i: usize, what: &str| {
        cell.named[i]
            .figures
            .iter()
            .find(|f| f.what.id() == what)
            .unwrap()
    };
    let runs: Vec<f64> = cell.latency[2]
        .runs_ns
        .iter()
        .map(|ns| *ns as f64)
        .collect();
    let mut sorted = runs.clone();
    sorted.sort_by(f64::total_cmp);
    let kinvolk = figure(0, "p99");
    assert_eq!(kinvolk.value, f64::midpoint(sorted[1], sorted[2]));
    assert_eq!(
        (kinvolk.low, kinvolk.high),
        (Some(sorted[0]), Some(sorted[3]))
    );
    assert_eq!(cell.named[0].dropped, None);

    // The run with the highest maximum is left out of every figure.
    let maxima = &cell.latency.last().unwrap().runs_ns;
    let worst = (0..4).max_by_key(|i| maxima[*i]).unwrap();
    assert_eq!(cell.named[1].dropped, Some(cell.trials_used[worst]));
    let kept: Vec<f64> = (0..4).filter(|i| *i != worst).map(|i| runs[i]).collect();
    let mean = kept.iter().sum::<f64>() / 3.0;
    let linkerd = figure(1, "p99");
    assert_eq!(linkerd.runs, kept);
    assert!((linkerd.value - mean).abs() < 1e-6);
    let squares: f64 = kept.iter().map(|x| (x - mean).powi(2)).sum();
    assert!((linkerd.high.unwrap() - mean - (squares / 2.0).sqrt()).abs() < 1e-6);

    for method in METHODS {
        let text = render_method(&summary, method).unwrap();
        assert!(text.contains(method) && text.contains("envoy"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
    assert_eq!(render_method(&summary, "other"), None);
    let published = render_published(&summary);
    assert!(
        published.contains("linkerd edge-19.5.2 at 500 rps: p99 6.70 ms"),
        "{published}"
    );
    assert!(published.starts_with("Published figures: measured by others on other machines"));
    assert!(
        published.lines().all(|l| l.chars().count() <= 80),
        "{published}"
    );
}

#[test]
fn among_many_like_meshes_the_correction_leaves_few_that_differ() {
    let names: Vec<String> = (0..12).map(|i| format!("m{i}")).collect();
    let mut meshes: Vec<(&str, &str)> = vec![("bare", "No mesh")];
    meshes.extend(names.iter().map(|n| (n.as_str(), "Like bare")));
    let (mut alone, mut corrected) = (0, 0);
    for seed in 0..6 {
        let plan = Plan {
            seed,
            ..support::plan(&meshes, &[100.0], 3)
        };
        let summary = analysed(&plan, |_| {});
        let ratios = summary.comparisons.iter().flat_map(|c| &c.ratios);
        for ratio in ratios.filter(|r| r.primary) {
            alone += u32::from(ratio.p.unwrap() < 0.05);
            corrected += u32::from(ratio.outcome == Outcome::Different);
        }
    }
    // 6 runs of 78 pairs with 3 questions each.
    assert!(alone > 20 && corrected <= 3, "{alone}, {corrected}");
}

#[test]
fn sameness_and_detectable_ratios_are_stated() {
    let names = [("bare", "No mesh"), ("again", "Bare again")];
    let summary = analysed(&support::plan(&names, &[400.0], 10), |_| {});
    let p50 = summary.comparisons[0].ratio(Figure::P50).unwrap();
    assert_eq!((p50.outcome, p50.margin), (Outcome::Same, 0.05), "{p50:?}");
    let [least, most] = p50.detectable.unwrap();
    assert!(1.0 < least && least < most && most < 1.2, "{p50:?}");
    let text = render_detectable(&summary, &[3, 10, 20]).unwrap();
    assert!(
        text.contains("10 blocks") && text.contains("again  400rps"),
        "{text}"
    );
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let one = analysed(&support::plan(&names, &[400.0], 1), |_| {});
    assert_eq!(render_detectable(&one, &[3]), None);
}

#[test]
fn seconds_show_whether_a_trial_was_steady() {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &plan(5, 3), |_| {});
    let loaded = tare_report::load_run(dir.path()).unwrap();
    assert!(loaded.trials.iter().all(|t| t.seconds.len() == 10));
    let summary = tare_report::summarise(&loaded);
    for cell in &summary.cells {
        let pooled = &cell.latency[0].pooled;
        // 10,000 responses; runs are shifted by 3 %.
        assert!(pooled.effective_samples.unwrap() < 9_000.0, "{pooled:?}");
    }
    assert!(summary.trials.iter().all(|t| t.stability.is_some()));
    let findings = |r: Reason| {
        let all = summary.trials.iter().flat_map(|t| &t.verdict.reasons);
        all.filter(|f| f.reason == r).count()
    };
    assert_eq!(
        (findings(Reason::NotSteady), findings(Reason::WarmUpVisible)),
        (0, 0)
    );
}

#[test]
fn an_outlier_is_named_and_used() {
    let plan = plan(6, 4);
    let odd = order(&plan)
        .iter()
        .find(|t| t.block == 3 && t.mesh.name == "envoy")
        .unwrap()
        .index;
    let summary = analysed(&plan, |r| {
        let mut cores = vec![[40.0, 44.0]];
        if r.trial.index == odd {
            scale(r, 2.0);
            cores = vec![[160.0, 170.0]];
        }
        r.load.as_mut().unwrap().generator.core_to_core_ns = cores;
    });
    let named: Vec<u32> = summary
        .trials
        .iter()
        .filter(|t| t.outlier.is_some())
        .map(|t| t.index)
        .collect();
    assert_eq!(named, [odd]);
    assert!(summary.cells[1].trials_used.contains(&odd));
    let table = tare_report::render_table(&summary, false);
    assert!(
        table.contains(&format!("outlier, used: trial {odd}, envoy")),
        "{table}"
    );
    let unwrapped = table.replace("\n  ", " ");
    assert!(
        unwrapped.contains("; core to core took 165 ns, in the other trials 42 ns."),
        "{table}"
    );
}
