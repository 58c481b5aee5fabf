//! The analysis of runs with known properties.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use std::collections::BTreeMap;

use crate::support::{analysed, legend};
use tare_analysis::compare::ratio::Level;
use tare_plan::trial::order;
use tare_plan::{EnvironmentKind, Figure, Plan, PrecisionTarget, StopRule};
use tare_records::load::TlsResult;
use tare_records::summary::{
    Cell, Estimate, MeshComparison, Outcome, QuantileSpread, Summary, Tls,
};
use tare_records::verdict::{Finding, Grade, Reason, Verdict};
use tare_records::worker::Plane;
use tare_stats::Histogram;
use tare_stats::special::t_quantile;

fn against_itself() -> Plan {
    support::plan(
        &[("bare", "No mesh"), ("bare-again", "No mesh, once more")],
        &[200.0],
        3,
    )
}

fn pair<'a>(summary: &'a Summary, mesh: &str, reference: &str, load: &str) -> &'a MeshComparison {
    let same = |c: &&MeshComparison| c.mesh == mesh && c.reference == reference && c.load == load;
    summary.comparisons.iter().find(same).unwrap()
}

#[test]
fn a_mesh_against_itself_is_rarely_different() {
    let mut alarms = 0;
    for seed in 0..40 {
        let mut plan = against_itself();
        plan.seed = seed;
        let summary = analysed(&plan, |_| {});
        let text = &summary.answers[0].text;
        match summary.answers[0].outcome.unwrap() {
            Outcome::Different => alarms += 1,
            Outcome::Same => assert!(text.contains("the median is the same within 5"), "{text}"),
            Outcome::NotResolved => assert!(text.contains("the median is not resolved"), "{text}"),
        }
    }
    // 5 % of 40 is 2; more than 6 has a probability of 0.3 %.
    assert!(alarms <= 6, "{alarms} of 40");
}

#[test]
fn percentiles_are_those_of_the_typical_trial_with_the_pooled_ones_beside() {
    let plan = support::quick();
    let summary = analysed(&plan, |_| {});
    let mut merged = Histogram::new();
    let mut medians = Vec::new();
    for spec in order(&plan) {
        if spec.mesh.name == "envoy" && spec.load.name == "400rps" {
            let load = support::trial(&spec).1.load.unwrap();
            let latency = Histogram::from_wire(&load.histograms.latency).unwrap();
            medians.push(latency.quantile(0.5));
            merged.merge(&latency);
        }
    }
    let mut cells = summary.cells.iter();
    let cell = cells
        .find(|c| c.mesh == "envoy" && c.load == "400rps")
        .unwrap();
    assert_eq!(cell.counts.ok, merged.len());
    for q in &cell.latency {
        assert_eq!(q.pooled.value_ns, merged.quantile(q.q), "{}", q.name);
        assert_eq!(
            q.pooled.low_ns, None,
            "3 trials are no base for an interval"
        );
    }
    let p50 = &cell.latency[0];
    assert_eq!(p50.runs_ns, medians);
    medians.sort_unstable();
    assert_eq!(p50.value_ns, medians[1]);
    assert_eq!(
        (p50.low_ns, p50.high_ns),
        (Some(medians[0]), Some(medians[2]))
    );
    assert_eq!(p50.spread, Some(QuantileSpread::Range));
}

#[test]
fn all_pairs_of_meshes_are_compared_and_few_questions_decide() {
    let summary = analysed(&support::quick(), |_| {});
    let pairs: Vec<(&str, &str, &str)> = summary
        .comparisons
        .iter()
        .map(|c| (c.mesh.as_str(), c.reference.as_str(), c.load.as_str()))
        .collect();
    let at = |load| {
        [
            ("envoy", "bare", load),
            ("envoy/mtls", "bare", load),
            ("envoy/mtls", "envoy", load),
        ]
    };
    assert_eq!(pairs, [at("200rps"), at("400rps")].concat());
    let mtls = pair(&summary, "envoy/mtls", "envoy", "400rps");
    let primary: Vec<&str> = mtls
        .ratios
        .iter()
        .filter(|r| r.primary)
        .map(|r| r.what.id())
        .collect();
    assert_eq!(primary, ["p50", "p99", "proxy_cpu"]);
    let all = summary.comparisons.iter().flat_map(|c| &c.ratios);
    for ratio in all {
        assert_eq!(ratio.p_holm.is_some(), ratio.primary, "{ratio:?}");
        assert!(
            ratio.p_holm.is_none_or(|p| p >= ratio.p.unwrap()),
            "{ratio:?}"
        );
    }
    let p50 = mtls.ratio(Figure::P50).unwrap();
    assert!(
        (p50.value - 1.2).abs() < 0.1 && p50.blocks.len() == 3,
        "{p50:?}"
    );
    assert!(
        summary.answers[2]
            .text
            .starts_with("Envoy with mTLS against Envoy sidecars at 400 rps:")
    );
}

#[test]
fn failed_requests_are_in_the_percentiles_of_all_requests() {
    let summary = analysed(&support::quick(), |r| {
        let counts = &mut r.load.as_mut().unwrap().counts;
        counts.planned += counts.ok / 20;
        counts.timeout += counts.ok / 20;
    });
    let cell = summary
        .cells
        .iter()
        .find(|c| c.mesh == "envoy" && c.load == "400rps")
        .unwrap();
    let of_all = |name: &str| {
        cell.latency_of_all
            .iter()
            .find(|p| p.name.id() == name)
            .unwrap()
    };
    assert_eq!(of_all("p99").value_ns, None, "one in twenty timed out");
    assert!(of_all("p50").value_ns.unwrap() > cell.latency[0].pooled.value_ns);
    let caution = summary.answers[0].caution.as_ref().unwrap();
    assert!(
        caution.contains("600 of which failed, p99 is not answered within the timeout"),
        "{caution}"
    );
}

#[test]
fn too_few_samples_give_a_reason_on_the_cell() {
    let plan = support::plan(&[("bare", "")], &[20.0], 3);
    let summary = analysed(&plan, |_| {});
    let verdict = &summary.cells[0].verdict;
    assert_eq!(verdict.grade, Grade::Suspect);
    assert_eq!(verdict.reasons[0].reason, Reason::TooFewSamples);
    let found = "a trial has 200 responses: p99 needs 299";
    assert_eq!(verdict.reasons[0].found, found);
    assert!(summary.answers.is_empty());
}

#[test]
fn a_percentile_with_too_few_samples_in_a_trial_is_not_shown() {
    // 20 rps for 10 s: 200 responses in each trial, 600 in three.
    let meshes = [("bare", "No mesh"), ("envoy", "Envoy sidecars")];
    let summary = analysed(&support::plan(&meshes, &[20.0], 3), |_| {});
    let supported: Vec<bool> = summary.cells[1]
        .latency
        .iter()
        .map(|q| q.supported)
        .collect();
    assert_eq!(supported, [true, true, false, false, false, true]);
    let ratios = &summary.comparisons[0].ratios;
    assert!(ratios.iter().any(|r| r.what == Figure::P90));
    assert!(!ratios.iter().any(|r| r.what == Figure::P99), "{ratios:?}");
    let text = &summary.answers[0].text;
    assert!(
        text.contains("the median is x") && !text.contains("p99"),
        "{text}"
    );
    let table = tare_report::render_table(&summary, false);
    let row = |name: &str| -> Vec<&str> {
        let line = table.lines().find(|l| l.starts_with(name)).unwrap();
        line.split_whitespace().collect()
    };
    assert_eq!(row("bare (base)")[7..9], ["-", "-"], "{table}");
    assert_eq!(row("envoy")[6..8], ["-", "-"], "{table}");
    let over = table
        .lines()
        .skip_while(|l| !l.starts_with("over bare"))
        .nth(1)
        .unwrap();
    assert!(over.contains(" - "), "{table}");
    // By endpoint there are 300 responses each, enough for p99 and not for p99.9.
    let page = tare_report::render_page(&summary);
    let endpoints =
        &page[page.find("Latency by endpoint").unwrap()..page.find("id=\"trials\"").unwrap()];
    assert_eq!(endpoints.matches(">-</td>").count(), 4);
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
    assert_eq!(
        begins,
        [
            "one against No mesh at 200 rps",
            "two against No mesh at 200 rps",
            "Other against No mesh at 200 rps"
        ]
    );
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
    let p50 = summary.comparisons[0].ratio(Figure::P50).unwrap();
    assert_eq!((p50.low, p50.outcome), (None, Outcome::NotResolved));
    assert_eq!(summary.cells[1].latency[0].low_ns, None);
    let text = &summary.answers[0].text;
    assert!(
        text.contains("the median is not resolved: x") && text.contains("in a single block"),
        "{text}"
    );
    let reasons = &summary.cells[1].verdict.reasons;
    assert!(
        reasons.iter().any(|f| f.reason == Reason::TooFewBlocks),
        "{reasons:?}"
    );
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
            what: Figure::P50,
            half_width: 0.5,
        }],
        min: 3,
        resolved: false,
        budget_ns: None,
    });
    let width = |summary: &Summary, of: fn(&Cell) -> &Estimate| {
        let e = of(&summary.cells[2]);
        e.high.unwrap() - e.low.unwrap()
    };
    let (fixed, adaptive) = (analysed(&fixed, |_| {}), analysed(&adaptive, |_| {}));
    // Student's t with 2 degrees of freedom at 97 and at 95 %.
    let expected = t_quantile(1.0 - Level::ADAPTIVE.different, 2.0) / t_quantile(0.05, 2.0);
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
fn cpu_of_proxies_is_a_fixed_part_and_one_for_each_request() {
    let mut plan = support::quick();
    plan.loads.remove(0);
    plan.workload.graph = tare_plan::graph::builtin("emojivoto").unwrap();
    let summary = analysed(&plan, |r| {
        if r.trial.mesh.name == "envoy" {
            let mut idle = r.resources.clone().unwrap();
            idle.planes.get_mut(&Plane::DataPlane).unwrap().cpu_cores = 0.05;
            r.idle = Some(idle);
        }
    });
    let [cpu] = &summary.proxy_cpu[..] else {
        panic!("{:?}", summary.proxy_cpu);
    };
    assert_eq!((cpu.mesh.as_str(), cpu.proxies), ("envoy", 6));
    assert!(
        cpu.idle_cores.runs.iter().all(|c| (c - 0.05).abs() < 1e-12),
        "{cpu:?}"
    );
    let plane = &summary.cells[1].planes[&Plane::DataPlane].cpu_cores;
    let by_hand = (plane.value - 0.05) / 400.0 * 1e9;
    assert!(
        (cpu.request_ns.value / by_hand - 1.0).abs() < 1e-9,
        "{cpu:?}"
    );
    assert!(cpu.request_ns.low.unwrap() < by_hand && by_hand < cpu.request_ns.high.unwrap());
    // The services receive 17/3 requests for one of the mix: all but the generator's first pass two
    // sidecars of services.
    let hops = cpu.hops_per_request.unwrap();
    assert!((hops - (2.0 * 17.0 / 3.0 - 1.0)).abs() < 1e-12, "{hops}");
    let hop = cpu.hop_ns.as_ref().unwrap();
    assert!((hop.value * hops / by_hand - 1.0).abs() < 1e-9, "{hop:?}");
    assert_eq!(hop.runs.len(), cpu.request_ns.runs.len());
    let table = tare_report::render_table(&summary, false);
    assert!(table.contains("0.008 (0.008 to 0.008)"), "{table}");
    assert!(table.contains("per hop, µs"), "{table}");
    assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
    assert!(tare_report::render_page(&summary).contains("per hop, µs"));
}

#[test]
fn the_generators_share_of_the_machine_is_in_the_first_screen() {
    let with = |environment, cores: [f64; 2]| {
        let mut plan = support::plan(&[("bare", "No mesh")], &[400.0], 2);
        plan.environment = environment;
        let manifest = support::manifest(&plan);
        assert_eq!(manifest.fingerprint.cores, 4);
        let summary = analysed(&plan, |r| {
            let planes = &mut r.resources.as_mut().unwrap().planes;
            let generator = planes.get_mut(&Plane::Generator).unwrap();
            generator.cpu_cores = cores[r.trial.block as usize];
        });
        let table = tare_report::render_table(&summary, false);
        let (first, _) = table.split_once("latency, ms").unwrap();
        let page = tare_report::render_page(&summary);
        let is_in_page = page.contains("The load generator used");
        assert_eq!(is_in_page, first.contains("The load generator used"));
        first.replace("\n  ", " ")
    };
    let local = |cores| with(EnvironmentKind::Local, cores);
    let first = local([0.16, 0.28]);
    let words = "The load generator used 4 to 7 % of the CPU that tare may use.\n";
    assert!(first.contains(words), "{first}");
    assert!(local([0.012, 0.012]).contains("used 0.3 % of"), "{first}");
    let first = local([0.28, 1.2]);
    let words = "The load generator used 7 to 30 % of the CPU that tare may use. It competes";
    assert!(first.contains(words), "{first}");
    let first = with(EnvironmentKind::Kubernetes, [0.16, 0.28]);
    assert!(!first.contains("The load generator used"), "{first}");
}

#[test]
fn the_instrument_error_is_pooled_and_shown() {
    let summary = analysed(&support::quick(), |_| {});
    let cell = &summary.cells[0];
    let found = cell.instrument.as_ref().unwrap();
    assert_eq!((found.sampled, found.missed), (cell.counts.ok, 15));
    assert_eq!((found.below_zero, found.clock_uncertainty_ns_max), (6, 300));
    // 4,000 to 7,960 ns in steps of 40, to the end of a bucket.
    let at = |name: &str| {
        found
            .service_time
            .iter()
            .find(|q| q.name.id() == name)
            .unwrap()
    };
    assert_eq!(at("p50").value_ns, Some(Histogram::bucket_end(5_960)));
    assert_eq!(at("max").value_ns, Some(7_960));
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
        assert_eq!(one.handshake[0].value_ns, Some(1_500_000));
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
