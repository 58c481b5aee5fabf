//! The analysis of runs with known properties.

#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::collections::BTreeMap;

use tare_analysis::StoredTrial;
use tare_analysis::compare::stopping::CONFIDENCE;
use tare_analysis::summary::summarise;
use tare_model::load::transport::TlsResult;
use tare_model::plan::{PrecisionTarget, StopRule};
use tare_model::summary::{Cell, Distinction, Estimate, Summary, Tls};
use tare_model::trial::{TrialResult, order};
use tare_model::verdict::{Finding, Grade, Reason, Verdict};
use tare_model::worker::Plane;
use tare_stats::Histogram;
use tare_stats::special::t_quantile;

fn analysed(plan: &tare_model::plan::Plan, mut change: impl FnMut(&mut TrialResult)) -> Summary {
    let trials: Vec<StoredTrial> = order(plan)
        .iter()
        .map(|spec| {
            let (_, mut result) = support::trial(spec);
            change(&mut result);
            StoredTrial {
                dir: spec.dir_name(),
                result,
                seconds: Vec::new(),
            }
        })
        .collect();
    summarise(&support::manifest(plan), &trials, Vec::new())
}

/// The table, which ends with the legend, without line breaks.
fn legend(summary: &Summary) -> String {
    let table = tare_report::render_table(summary, false);
    table.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn against_itself() -> tare_model::plan::Plan {
    support::plan(
        &[("bare", "No mesh"), ("bare-again", "No mesh, once more")],
        &[200.0],
        3,
    )
}

fn invalid(result: &mut TrialResult) {
    result.verdict = Verdict::from_findings(vec![Finding::new(
        Grade::Invalid,
        Reason::GeneratorSaturated,
        "the event loop was busy for 99 % of the window",
    )]);
}

#[test]
fn a_mesh_against_itself_is_not_distinguishable() {
    let mut alarms = 0;
    for seed in 0..40 {
        let mut plan = against_itself();
        plan.seed = seed;
        let summary = analysed(&plan, |_| {});
        let found = summary.answers[0].distinction.unwrap();
        if found == Distinction::NotDistinguishable {
            let text = &summary.answers[0].text;
            assert!(text.contains("not distinguishable from bare"), "{text}");
        } else {
            alarms += 1;
        }
    }
    // 5 % of 40 is 2; more than 6 has a probability of 0.3 %.
    assert!(alarms <= 6, "{alarms} of 40");
}

#[test]
fn pooled_percentiles_are_those_of_the_merged_counts() {
    let plan = support::quick();
    let summary = analysed(&plan, |_| {});
    let mut merged = Histogram::new();
    for spec in order(&plan) {
        if spec.mesh.name == "envoy" && spec.load.name == "400rps" {
            let load = support::trial(&spec).1.load.unwrap();
            merged.merge(&Histogram::from_wire(&load.histograms.latency).unwrap());
        }
    }
    let cell = summary
        .cells
        .iter()
        .find(|c| c.mesh == "envoy" && c.load == "400rps")
        .unwrap();
    assert_eq!(cell.counts.ok, merged.len());
    for q in &cell.latency {
        assert_eq!(q.value_ns, merged.quantile(q.q), "{}", q.name);
    }
    let p50 = &cell.latency[0];
    assert!(p50.low_ns.unwrap() < p50.value_ns && p50.value_ns < p50.high_ns.unwrap());
}

#[test]
fn too_few_samples_give_a_reason_on_the_cell() {
    let plan = support::plan(&[("bare", "")], &[20.0], 3);
    let summary = analysed(&plan, |_| {});
    let verdict = &summary.cells[0].verdict;
    assert_eq!(verdict.grade, Grade::Suspect);
    assert_eq!(verdict.reasons[0].reason, Reason::TooFewSamples);
    assert_eq!(verdict.reasons[0].found, "600 responses: p99.9 needs 2,995");
    assert!(summary.answers.is_empty());
}

#[test]
fn a_percentile_with_too_few_samples_is_not_shown() {
    // 20 rps for 10 s: 200 responses in one block, 600 in three.
    let at = |blocks| {
        let meshes = [("bare", "No mesh"), ("envoy", "Envoy sidecars")];
        analysed(&support::plan(&meshes, &[20.0], blocks), |_| {})
    };
    let supported = |s: &Summary| -> Vec<bool> {
        let latency = &s.cells[1].overhead.as_ref().unwrap().latency;
        latency.iter().map(|d| d.supported).collect()
    };
    let enough = at(3);
    assert_eq!(supported(&enough), [true, true, true, false]);
    assert!(
        enough.answers[0].text.contains("p99"),
        "{:?}",
        enough.answers
    );

    // As many blocks, but in two of them the baseline cannot be used.
    let one_sided = {
        let meshes = [("bare", "No mesh"), ("envoy", "Envoy sidecars")];
        analysed(&support::plan(&meshes, &[12.0], 3), |r| {
            if r.trial.mesh.name == "bare" && r.trial.block == 0 {
                invalid(r);
            }
        })
    };
    assert_eq!(supported(&one_sided), [true, true, false, false]);
    assert!(one_sided.cells[1].latency[2].supported);
    assert!(!one_sided.cells[0].latency[2].supported);
    let text = &one_sided.answers[0].text;
    assert!(
        text.contains("to the median") && !text.contains("p99"),
        "{text}"
    );

    let table = tare_report::render_table(&one_sided, false);
    let row = |name: &str| -> Vec<&str> {
        let mut lines = table.lines();
        lines
            .find(|l| l.starts_with(name))
            .unwrap()
            .split_whitespace()
            .collect()
    };
    assert_eq!(row("bare (base)")[4..6], ["-", "-"], "{table}");
    assert_ne!(row("envoy")[3], "-", "{table}");
    assert_eq!(row("envoy")[4], "-", "{table}");
    let over = table
        .lines()
        .skip_while(|l| !l.starts_with("over bare"))
        .nth(1);
    assert!(over.unwrap().ends_with(" -"), "{table}");
    // By endpoint there are 180 responses each, too few for p99 of either.
    let page = tare_report::render_page(&one_sided);
    let endpoints =
        &page[page.find("Latency by endpoint").unwrap()..page.find("id=\"trials\"").unwrap()];
    assert_eq!(
        endpoints
            .matches("<td><b>-</b></td><td><b>-</b></td>")
            .count(),
        4
    );
}

#[test]
fn meshes_with_the_same_title_are_named() {
    let meshes = [
        ("bare", "No mesh"),
        ("one", "Envoy"),
        ("two", "Envoy"),
        ("three", "Other"),
    ];
    let summary = analysed(&support::plan(&meshes, &[200.0], 1), |_| {});
    let begins: Vec<&str> = summary
        .answers
        .iter()
        .map(|a| a.text.split(':').next().unwrap())
        .collect();
    assert_eq!(begins, ["one", "two", "Other"]);
}

#[test]
fn findings_about_too_few_samples_end_with_pooling() {
    let plan = support::quick();
    let summary = analysed(&plan, |result| {
        result.verdict = Verdict::from_findings(vec![Finding::new(
            Grade::Suspect,
            Reason::TooFewSamples,
            "2,000 responses: p99.9 needs 2,995",
        )]);
    });
    assert!(
        summary
            .cells
            .iter()
            .all(|c| c.verdict.grade == Grade::Valid)
    );
    assert!(
        summary
            .trials
            .iter()
            .all(|t| t.verdict.grade == Grade::Suspect)
    );
}

#[test]
fn one_block_gives_no_interval() {
    let plan = support::plan(&[("bare", ""), ("envoy", "Envoy")], &[400.0], 1);
    let summary = analysed(&plan, |_| {});
    let overhead = summary.cells[1].overhead.as_ref().unwrap();
    assert_eq!(overhead.latency[0].distinction, Distinction::TooFewBlocks);
    assert_eq!(
        (overhead.latency[0].low, summary.cells[1].latency[0].low_ns),
        (None, None)
    );
    assert!(
        summary.answers[0]
            .text
            .contains("only one block was compared")
    );
    let reasons = &summary.cells[1].verdict.reasons;
    assert!(
        reasons.iter().any(|f| f.reason == Reason::TooFewBlocks),
        "{reasons:?}"
    );
}

#[test]
fn without_a_usable_trial_there_is_no_answer() {
    let plan = support::quick();
    let of_mesh = analysed(&plan, |r| {
        if r.trial.mesh.name == "envoy" {
            invalid(r);
        }
    });
    assert_eq!(
        of_mesh.answers[0].text,
        "Envoy sidecars: no usable trial at 400 rps."
    );
    assert!(of_mesh.answers[1].text.contains("added"));
    assert_eq!(of_mesh.grade, Grade::Invalid);
    let cell = of_mesh.cells.iter().find(|c| c.mesh == "envoy").unwrap();
    assert!(cell.latency.is_empty() && cell.overhead.is_none() && cell.achieved_rps.is_none());
    assert!(
        cell.verdict
            .reasons
            .iter()
            .any(|f| f.found.contains("busy for 99 %"))
    );

    let of_base = analysed(&plan, |r| {
        if r.trial.mesh.name == "bare" {
            invalid(r);
        }
    });
    assert_eq!(
        of_base.answers[0].text,
        "Envoy sidecars: no comparison, because bare has no usable trial at 400 rps."
    );
}

#[test]
fn only_common_blocks_are_compared() {
    let plan = support::quick();
    let summary = analysed(&plan, |r| {
        let t = &r.trial;
        let left_out = match t.mesh.name.as_str() {
            "bare" => t.block == 0,
            "envoy" => t.block == 2,
            _ => false,
        };
        if left_out {
            invalid(r);
        }
    });
    let cell = summary.cells.iter().find(|c| c.mesh == "envoy").unwrap();
    let overhead = cell.overhead.as_ref().unwrap();
    assert_eq!(overhead.blocks, [1]);
    assert_eq!(overhead.latency[0].distinction, Distinction::TooFewBlocks);
    assert_eq!(cell.trials_used.len(), 2);
}

#[test]
fn a_damaged_histogram_makes_its_trial_invalid() {
    let plan = support::quick();
    let summary = analysed(&plan, |r| {
        if r.trial.index == 3 {
            r.load
                .as_mut()
                .unwrap()
                .histograms
                .latency
                .v2
                .replace_range(20..24, "!!!!");
        }
    });
    let row = &summary.trials[3];
    assert_eq!((row.used, row.verdict.grade), (false, Grade::Invalid));
    assert!(row.verdict.reasons[0].found.contains("invalid histogram"));
}

#[test]
fn the_same_trial_twice_counts_once() {
    let plan = support::quick();
    let mut trials: Vec<StoredTrial> = order(&plan)
        .iter()
        .map(|spec| StoredTrial {
            dir: spec.dir_name(),
            result: support::trial(spec).1,
            seconds: Vec::new(),
        })
        .collect();
    let mut copy = trials[0].clone();
    copy.dir = "copy".to_owned();
    trials.push(copy);
    let summary = summarise(&support::manifest(&plan), &trials, Vec::new());
    assert!(
        summary
            .notes
            .iter()
            .any(|n| n.starts_with("copy: another trial")),
        "{:?}",
        summary.notes
    );
    assert_eq!(summary.trials.iter().filter(|t| !t.used).count(), 1);
}

#[test]
fn a_reason_that_all_trials_have_is_shown_once() {
    let plan = support::quick();
    let summary = analysed(&plan, |r| {
        r.verdict = Verdict::from_findings(vec![Finding::new(
            Grade::Suspect,
            Reason::DebugBuild,
            "a debug build",
        )]);
    });
    for cell in &summary.cells {
        let found: Vec<&str> = cell
            .verdict
            .reasons
            .iter()
            .map(|f| f.found.as_str())
            .collect();
        assert_eq!(found, ["every trial: a debug build"]);
    }
    let table = tare_report::render_table(&summary, false);
    assert_eq!(table.matches("a debug build").count(), 1, "{table}");
    assert!(table.contains("suspect: all meshes and loads: every trial: a debug build"));
}

#[test]
fn resources_of_an_adaptive_plan_have_the_raised_confidence() {
    let fixed = support::quick();
    let mut adaptive = fixed.clone();
    adaptive.until = Some(StopRule {
        targets: vec![PrecisionTarget {
            what: "p50".to_owned(),
            half_width: 0.5,
        }],
        min: 3,
    });
    let width = |summary: &Summary, of: fn(&Cell) -> &Estimate| {
        let e = of(&summary.cells[2]);
        e.high.unwrap() - e.low.unwrap()
    };
    let (fixed, adaptive) = (analysed(&fixed, |_| {}), analysed(&adaptive, |_| {}));
    // Student's t with 2 degrees of freedom at 97 and at 95 %.
    let expected = t_quantile(1.0 - CONFIDENCE, 2.0) / t_quantile(0.05, 2.0);
    assert!(expected > 1.2);
    let figures: [fn(&Cell) -> &Estimate; 3] = [
        |c| &c.planes[&Plane::DataPlane].cpu_cores,
        |c| &c.planes[&Plane::DataPlane].memory_bytes,
        |c| c.machine_busy_cores.as_ref().unwrap(),
    ];
    for of in figures {
        let found = width(&adaptive, of) / width(&fixed, of);
        assert!((found - expected).abs() < 1e-9, "{found}, {expected}");
    }
}

#[test]
fn the_instrument_error_is_pooled_and_shown() {
    let summary = analysed(&support::quick(), |_| {});
    let cell = &summary.cells[0];
    let found = cell.instrument.as_ref().unwrap();
    assert_eq!((found.sampled, found.missed), (cell.counts.ok, 15));
    assert_eq!((found.below_zero, found.clock_uncertainty_ns_max), (6, 300));
    // 4,000 to 7,960 ns in steps of 40, to the end of a bucket.
    let at = |name: &str| found.service_time.iter().find(|q| q.name == name).unwrap();
    assert_eq!(at("p50").value_ns, Histogram::bucket_end(5_960));
    assert_eq!(at("max").value_ns, 7_960);
    assert_eq!(at("p50").runs_ns.len(), 3);
    assert_eq!(cell.lateness.len(), found.send.len());
    assert_eq!(cell.tls, None);
    let mut silent = support::quick();
    silent.repeats = 2;
    let silent = analysed(&silent, |r| {
        r.load.as_mut().unwrap().instrument_error = None;
    });
    assert_eq!(silent.cells[0].instrument, None);
    let words = "the generator adds at most 5.96 µs at p50";
    assert!(legend(&summary).contains(words), "{}", legend(&summary));
    assert!(!legend(&silent).contains("the generator adds"));
}

#[test]
fn tls_of_the_generators_is_pooled() {
    let summary = analysed(&support::quick(), |r| {
        let mut handshake = Histogram::new();
        handshake.record_n(1_500_000, 16);
        let resumed = u64::from(r.trial.index == 0);
        r.load.as_mut().unwrap().tls = Some(TlsResult {
            handshake_ns: handshake.summary(),
            handshakes_full: 16 - resumed,
            handshakes_resumed: resumed,
            protocols: BTreeMap::from([("TLSv1.3 AES".to_owned(), 16)]),
            failures: BTreeMap::new(),
            insecure: r.trial.index == 0,
            handshake: handshake.to_wire(),
        });
    });
    let tls: Vec<&Tls> = summary
        .cells
        .iter()
        .filter_map(|c| c.tls.as_ref())
        .collect();
    assert_eq!(tls.len(), summary.cells.len());
    for one in &tls {
        assert_eq!(one.handshakes_full + one.handshakes_resumed, 48);
        assert_eq!(one.protocols["TLSv1.3 AES"], 48);
        assert_eq!(one.handshake[0].value_ns, 1_500_000);
    }
    assert_eq!(tls.iter().filter(|t| t.insecure).count(), 1);
}

#[test]
fn a_varying_core_distance_is_shown_by_mesh() {
    let measured = |of: fn(&str) -> Vec<[f64; 2]>| {
        analysed(&against_itself(), |r| {
            let distances = of(&r.trial.mesh.name);
            r.load.as_mut().unwrap().generator.core_to_core_ns = distances;
        })
    };
    let moved = measured(|mesh| match mesh {
        "bare" => vec![[38.0, 40.0]],
        _ => vec![[40.0, 190.0]],
    });
    let found: Vec<_> = moved
        .cells
        .iter()
        .map(|c| c.core_to_core.unwrap())
        .collect();
    assert_eq!((found[0].least_ns, found[0].most_ns), (38.0, 40.0));
    assert_eq!((found[1].median_ns, found[1].most_ns), (115.0, 190.0));
    let words = "a cache line took 38 ns to 190 ns from core to core";
    assert!(legend(&moved).contains(words), "{}", legend(&moved));
    assert!(tare_report::render_page(&moved).contains(words));
    assert!(!legend(&measured(|_| vec![[38.0, 70.0]])).contains("core to core"));
    let unknown = measured(|_| Vec::new());
    assert_eq!(unknown.cells[0].core_to_core, None);
    assert!(!legend(&unknown).contains("core to core"));
}
