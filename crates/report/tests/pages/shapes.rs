//! Tests of the checks that `crates/tare/tests/cluster.rs` applies to real runs: on synthetic
//! runs, under every combination of conditions on the host.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::shape::{CELL_OPTIONAL, Shape, keys};
use crate::weighed::weighed;
use serde_json::Value;
use tare_analysis::StoredTrial;
use tare_analysis::summary::summarise;
use tare_plan::trial::order;
use tare_plan::{CapacityOf, Figure, Plan, Prices};
use tare_records::layout;
use tare_records::load::TlsResult;
use tare_records::summary::{Cell, CellCapacity, CellChurn, CellOverload, Outcome, Ratio, Summary};
use tare_records::trial::{PlaneUse, TrialResult};
use tare_records::verdict::{Finding, Grade, Reason, Verdict};
use tare_records::worker::Plane;
use tare_stats::Histogram;

/// Whether a condition holds for a trial.
type Condition = fn(&TrialResult) -> bool;

/// Conditions on the host during a run.
#[derive(Clone, Copy)]
struct Conditions {
    /// Whether the distance between the cores was measured.
    core_distances: Condition,
    /// Whether kernel timestamps were requested.
    timestamps: Condition,
    /// Whether the kernel supports these timestamps.
    kernel_supports: bool,
    /// Whether the trial failed.
    failed: Condition,
    /// Whether failed trials start at all.
    starts: bool,
    /// Whether the other trials are suspect.
    suspect: bool,
}

const ALWAYS: Condition = |_| true;
const NEVER: Condition = |_| false;
const BARE: Condition = |r| r.trial.mesh.name == "bare";
const MESHED: Condition = |r| r.trial.mesh.name != "bare";

const QUIET: Conditions = Conditions {
    core_distances: ALWAYS,
    timestamps: ALWAYS,
    kernel_supports: true,
    failed: NEVER,
    starts: true,
    suspect: false,
};

const COMBINATIONS: usize = 4 * 4 * 6;

/// Every combination of core distances, timestamps and failed trials.
fn all_conditions() -> Vec<Conditions> {
    let core_distances: [Condition; 4] = [ALWAYS, NEVER, BARE, |r| r.trial.block == 1];
    let timestamps: [(Condition, bool); 4] = [
        (ALWAYS, true),
        (ALWAYS, false),
        (NEVER, true),
        (MESHED, true),
    ];
    let failed: [Condition; 6] = [
        NEVER,
        |r| r.trial.block == 0,
        BARE,
        MESHED,
        // No block has a usable trial of both.
        |r| (r.trial.mesh.name == "bare") == (r.trial.block % 2 == 0),
        ALWAYS,
    ];
    let mut all = Vec::new();
    for core_distances in core_distances {
        for (timestamps, kernel_supports) in timestamps {
            for failed in failed {
                all.push(Conditions {
                    core_distances,
                    timestamps,
                    kernel_supports,
                    failed,
                    starts: all.len() < COMBINATIONS / 2,
                    suspect: all.len().is_multiple_of(4),
                });
            }
        }
    }
    assert_eq!(all.len(), COMBINATIONS);
    all
}

impl Conditions {
    /// Applies the conditions to an undisturbed trial.
    fn apply(&self, result: &mut TrialResult) {
        let (core_distances, timestamps) =
            ((self.core_distances)(result), (self.timestamps)(result));
        let load = result.load.as_mut().unwrap();
        load.generator.core_to_core_ns = core_distances
            .then_some([40.0, 190.0])
            .into_iter()
            .collect();
        match &mut load.instrument_error {
            Some(error) if timestamps && !self.kernel_supports => {
                error.absent = Some("the kernel refuses SO_TIMESTAMPING: EPERM".to_owned());
                (error.sampled, error.missed) = (0, 0);
                let nothing = Histogram::new();
                (error.send, error.service_time) = (nothing.to_wire(), nothing.to_wire());
                (error.send_ns, error.service_time_ns) = (nothing.summary(), nothing.summary());
            }
            Some(_) if timestamps => {}
            error => *error = None,
        }
        let mut found = Vec::new();
        if self.suspect {
            found.push((Grade::Suspect, Reason::NoisyNeighbour));
        }
        if (self.failed)(result) {
            let reason = match self.starts {
                true => Reason::NotMeshed,
                false => Reason::NotStarted,
            };
            found.push((Grade::Invalid, reason));
            if !self.starts {
                (result.load, result.resources) = (None, None);
            }
        }
        let found = found
            .into_iter()
            .map(|(grade, reason)| Finding::new(grade, reason, "synthetic"));
        result.verdict = Verdict::from_findings(found.collect());
    }
}

fn plan() -> Plan {
    let meshes = [("bare", ""), ("envoy/mtls", ""), ("envoy", "")];
    support::plan(&meshes, &[20.0], 2)
}

/// Undisturbed trials of a cluster, which has control planes, or of one machine, on which tare
/// also runs.
fn undisturbed(cluster: bool) -> Vec<TrialResult> {
    let one = PlaneUse {
        processes: 1,
        cpu_cores: 0.01,
        ..PlaneUse::default()
    };
    let trial = |spec| {
        let mut result = support::trial(spec).1;
        let planes = &mut result.resources.as_mut().unwrap().planes;
        match (cluster, spec.mesh.name == "bare") {
            (true, true) => {}
            (true, false) => drop(planes.insert(Plane::ControlPlane, one.clone())),
            (false, _) => drop(planes.insert(Plane::Tare, one.clone())),
        }
        result
    };
    order(&plan()).iter().map(trial).collect()
}

/// The arguments of [`Shape::of`].
type Run = (Value, Vec<(TrialResult, Vec<String>)>);

fn run(plan: &Plan, results: Vec<TrialResult>) -> Run {
    let stored = |result: &TrialResult| StoredTrial {
        dir: result.trial.dir_name(),
        result: result.clone(),
        seconds: Vec::new(),
        failed_since_s: None,
        calls: None,
    };
    let stored: Vec<StoredTrial> = results.iter().map(stored).collect();
    let summary = summarise(&support::manifest(plan), &stored, Vec::new());
    let named = |result: TrialResult| {
        let always = [layout::RESULT, layout::LOAD, layout::AGENT, layout::EVENTS];
        let hlog = result.load.as_ref().map(|_| layout::HLOG);
        let files = always.into_iter().chain(hlog).map(str::to_owned);
        let files = files.collect();
        (result, files)
    };
    let trials = results.into_iter().map(named);
    (serde_json::to_value(summary).unwrap(), trials.collect())
}

fn run_under(conditions: &Conditions, trials: &[TrialResult]) -> Run {
    let mut trials = trials.to_vec();
    trials.iter_mut().for_each(|t| conditions.apply(t));
    run(&plan(), trials)
}

fn shape((summary, trials): &Run) -> Shape {
    Shape::of(summary, trials)
}

const ONLY_LOCAL: [&str; 2] = ["bare plane tare", "meshed plane tare"];
const ONLY_CLUSTER: [&str; 1] = ["meshed plane control_plane"];

#[test]
fn two_runs_of_a_plan_have_the_same_shape_under_all_conditions() {
    let [local, cluster] = [false, true].map(|cluster| {
        let trials = undisturbed(cluster);
        let all = all_conditions();
        let shapes = all
            .iter()
            .map(|conditions| shape(&run_under(conditions, &trials)));
        shapes.collect::<Vec<_>>()
    });
    let mut seen = BTreeSet::new();
    for local in &local {
        for cluster in &cluster {
            let expected = local.caused_in_both(cluster, &ONLY_LOCAL);
            assert_eq!(local.beyond(cluster), expected);
            seen.insert(expected);
            let expected = cluster.caused_in_both(local, &ONLY_CLUSTER);
            assert_eq!(cluster.beyond(local), expected);
            seen.insert(expected);
        }
    }
    // The conditions cover every case: both kinds, one of them, and neither.
    let [bare, meshed] = ONLY_LOCAL;
    let all: [&[&str]; 5] = [&[], &[bare], &[meshed], &[bare, meshed], &ONLY_CLUSTER];
    assert_eq!(seen, all.map(<[_]>::to_vec).into());
    assert_eq!(local[0].beyond(&cluster[0]), ONLY_LOCAL);
    assert_eq!(cluster[0].beyond(&local[0]), ONLY_CLUSTER);
}

/// A kind, and how to remove it from a run.
type Lack = (&'static str, fn(&mut Run));

#[test]
fn a_missing_kind_is_found_if_a_trial_records_its_cause() {
    let trials = undisturbed(true);
    let lacking: [Lack; 6] = [
        ("stopping", |(summary, _)| remove(summary, "stopping")),
        ("meshed cell achieved_rps", |(summary, _)| {
            cells(summary, "envoy").for_each(|c| remove(c, "achieved_rps"));
        }),
        ("bare latency p99", |(summary, _)| {
            cells(summary, "bare").for_each(|c| {
                let all = c["latency"].as_array_mut().unwrap();
                all.retain(|q| q["name"] != "p99");
            });
        }),
        ("meshed ratio cpu", |(summary, _)| {
            comparisons(summary).for_each(|c| {
                let all = c["ratios"].as_array_mut().unwrap();
                all.retain(|r| r["what"] != "cpu");
            });
        }),
        ("bare trial events.ndjson", |(_, trials)| {
            let bare = trials.iter_mut().filter(|(r, _)| BARE(r));
            bare.for_each(|(_, files)| files.retain(|f| f != layout::EVENTS));
        }),
        ("meshed trial latency.hlog", |(_, trials)| {
            trials
                .iter_mut()
                .for_each(|(_, files)| files.retain(|f| f != layout::HLOG));
        }),
    ];
    let mut found = BTreeSet::new();
    for conditions in all_conditions() {
        let whole = run_under(&conditions, &trials);
        let expected = shape(&whole);
        for (kind, remove) in lacking {
            let mut run = whole.clone();
            remove(&mut run);
            let beyond = expected.beyond(&shape(&run)).contains(&kind);
            let caused = !expected.caused_in_both(&expected, &[kind]).is_empty();
            assert_eq!(beyond, caused, "{kind}");
            found.extend(beyond.then_some(kind));
        }
    }
    assert_eq!(found.len(), lacking.len(), "{found:?}");
}

#[test]
fn the_costs_follow_from_the_usable_trials_under_all_conditions() {
    let meshes = ["bare", "envoy/mtls", "envoy"];
    let trials = undisturbed(true);
    let refused = |summary: &Summary| {
        let check = AssertUnwindSafe(|| weighed(summary, &meshes));
        catch_unwind(check).is_err()
    };
    let spoil: [fn(&mut Ratio); 4] = [
        |cpu| cpu.blocks[0] *= 1.1,
        |cpu| cpu.low = cpu.low.map_or(Some(1.0), |low| Some(low * 0.9)),
        |cpu| cpu.value *= 1.01,
        |cpu| cpu.outcome = Outcome::Same,
    ];
    let mut spoilt = 0;
    for conditions in all_conditions() {
        let (summary, _) = run_under(&conditions, &trials);
        let summary: Summary = serde_json::from_value(summary).unwrap();
        weighed(&summary, &meshes);
        for spoil in spoil {
            let mut summary = summary.clone();
            let Some(comparison) = summary.comparisons.first_mut() else {
                continue;
            };
            let cpu = comparison.ratios.iter_mut().find(|r| r.what == Figure::Cpu);
            spoil(cpu.unwrap());
            assert!(refused(&summary));
            spoilt += 1;
        }
    }
    // In four of the six ways to fail, two meshes have a block in common.
    assert_eq!(spoilt, COMBINATIONS / 6 * 4 * spoil.len());
}

fn comparisons(summary: &mut Value) -> impl Iterator<Item = &mut Value> {
    summary["comparisons"].as_array_mut().unwrap().iter_mut()
}

fn remove(of: &mut Value, key: &str) {
    of.as_object_mut().unwrap().remove(key).unwrap();
}

/// The cells of the meshes whose names begin with `mesh`.
fn cells<'a>(summary: &'a mut Value, mesh: &'a str) -> impl Iterator<Item = &'a mut Value> {
    let all = summary["cells"].as_array_mut().unwrap().iter_mut();
    all.filter(move |c| c["mesh"].as_str().unwrap().starts_with(mesh))
}

#[test]
fn a_figure_without_its_cause_and_a_cause_without_its_figure_are_refused() {
    let trials = undisturbed(false);
    let refused = |run: &Run| catch_unwind(AssertUnwindSafe(|| shape(run))).is_err();
    let good = run_under(&QUIET, &trials);
    assert!(!refused(&good));
    for key in ["core_to_core", "instrument"] {
        let mut run = good.clone();
        cells(&mut run.0, "bare").for_each(|c| remove(c, key));
        assert!(
            refused(&run),
            "{key} is absent although its cause is recorded"
        );
    }
    let figures: [fn(&mut Value); 3] = [
        |c| c["latency"] = Value::Array(Vec::new()),
        |c| remove(&mut c["planes"], "application"),
        |c| c["trials_used"] = Value::Array(Vec::new()),
    ];
    for spoil in figures {
        let mut run = good.clone();
        cells(&mut run.0, "envoy").for_each(spoil);
        assert!(refused(&run));
    }
    for (key, change) in [
        (
            "core_to_core",
            Conditions {
                core_distances: NEVER,
                ..QUIET
            },
        ),
        (
            "instrument",
            Conditions {
                timestamps: NEVER,
                ..QUIET
            },
        ),
    ] {
        let mut run = run_under(&change, &trials);
        let mut from = good.clone();
        let figure = cells(&mut from.0, "bare").next().unwrap()[key].clone();
        cells(&mut run.0, "bare").for_each(|c| c[key] = figure.clone());
        assert!(refused(&run), "{key} is present without its cause");
    }
    let mut run = good.clone();
    comparisons(&mut run.0).for_each(|c| c["blocks"] = Value::Array(Vec::new()));
    assert!(refused(&run), "no blocks in common");
    let mut run = good.clone();
    run.0["trials"][0]["status"] = "failed".into();
    assert!(refused(&run), "a valid trial is not used");
}

/// A new key that may be absent must be listed, with its cause, in `support/shape.rs`.
#[test]
fn the_keys_of_a_cell_that_may_be_absent_are_listed() {
    let mut plan = plan();
    plan.prices = Some(Prices {
        core_hour: 0.04,
        gib_hour: 0.005,
        currency: "EUR".to_owned(),
        rps: None,
        proxies: None,
    });
    let mut trials = undisturbed(true);
    for trial in &mut trials {
        QUIET.apply(trial);
        let load = trial.load.as_mut().unwrap();
        load.tls = Some(tls());
        load.counts.planned += 1;
        load.counts.error += 1;
        let limit = Finding::new(Grade::Invalid, Reason::Throttled, "synthetic");
        trial.verdict = Verdict::from_findings(vec![limit]);
    }
    let run = run(&plan, trials);
    shape(&run);
    let summary: Summary = serde_json::from_value(run.0).unwrap();
    let mut cell = summary.cells.last().unwrap().clone();
    // Under loads without a rate, which have no latencies or costs.
    cell.throughput_rps.clone_from(&cell.machine_busy_cores);
    cell.capacity = Some(CellCapacity {
        objectives: Vec::new(),
        rate_rps: None,
        not_found: 0,
        limits: Vec::new(),
        unseen_share: None,
        cpu_cores: None,
        memory_bytes: None,
    });
    cell.overload = Some(CellOverload {
        percent: 120,
        of: CapacityOf::Own,
        rate_rps: 1.0,
        goodput_rps: None,
        failed_share: None,
        p50_ns: None,
        p99_ns: None,
        recovery_s: None,
        not_recovered: 0,
        watched_s: 5,
    });
    cell.churn = Some(CellChurn {
        services: 1,
        endpoints: 1,
        changes: 1,
        convergence_ns: None,
        convergence_max_ns: None,
        arrived: 0,
        unseen: 0,
        watchers: 0,
        requests: 0,
        failed: 0,
        clock_uncertainty_ns: None,
        written_share: None,
        pod_ready_ns: None,
        pod_ready_added_ns: None,
        mesh_ready_ns: None,
        metrics: Vec::new(),
    });
    let full = serde_json::to_value(&cell).unwrap();
    let schema = serde_json::to_value(schemars::schema_for!(Cell)).unwrap();
    assert_eq!(
        keys(&full),
        keys(&schema["properties"]),
        "a cell with everything"
    );
    let may_be_absent = |key: &String| {
        let mut without = full.clone();
        remove(&mut without, key);
        let read = serde_json::from_value::<Cell>(without);
        read.is_ok_and(|cell| !keys(&serde_json::to_value(cell).unwrap()).contains(key))
    };
    let found: Vec<String> = keys(&full).into_iter().filter(may_be_absent).collect();
    assert_eq!(found, CELL_OPTIONAL);
}

fn tls() -> TlsResult {
    let nothing = Histogram::new();
    TlsResult {
        handshakes_full: 1,
        handshakes_resumed: 0,
        protocols: [("TLSv1_3".to_owned(), 1)].into(),
        failures: [].into(),
        insecure: false,
        handshake_ns: nothing.summary(),
        handshake: nothing.to_wire(),
    }
}
