//! One mesh under one load, with its used trials pooled.

use std::collections::{BTreeMap, BTreeSet};

use tare_plan::{Figure, Load, Plan};
use tare_records::load::Counts;
use tare_records::record::HardwareCounts;
use tare_records::summary::{
    Cell, EndpointRow, Estimate, PlaneEstimate, Saturation, SpectrumPoint, TrialStatus,
};
use tare_records::trial::{MemoryKind, PlaneUse};
use tare_records::verdict::{AFTER_FAILURES, Finding, Grade, Reason, Verdict};
use tare_records::worker::Plane;

use super::{instrument, named};
use crate::compare::percentiles::{percentiles, percentiles_of_all, pooled, typical};
use crate::compare::stopping;
use crate::figures;
use crate::trials::{self, Decoded, Trial};
use tare_stats::effect::mean_interval;
use tare_stats::hist::Histogram;
use tare_stats::order::samples_needed;

/// Points of a spectrum per factor of ten in `1 - q`.
const POINTS_PER_NINE: f64 = 25.0;

/// Percentiles without which a cell is suspect.
const REQUIRED: [(Figure, f64); 2] = [(Figure::P50, 0.5), (Figure::P99, 0.99)];

/// The cell. `changed`: whether the machine changed its state during the run.
pub(super) fn of(
    plan: &Plan,
    trials: &[Trial<'_>],
    mesh: &str,
    load: &Load,
    changed: bool,
) -> Cell {
    let here: Vec<&Trial<'_>> = trials::of_cell(trials, mesh, &load.name).collect();
    let used = trials::used(trials, mesh, &load.name);
    let loads: Vec<&Decoded<'_>> = used.iter().filter_map(|t| t.load.as_ref()).collect();
    let measured: Vec<&Histogram> = loads.iter().map(|l| &l.latency).collect();
    // The trials of a search for the capacity and those of an overload are at several rates. Their latencies
    // are left out.
    let loads_alike: &[&Decoded<'_>] = match load.is_open() || load.is_closed() {
        true => &loads,
        false => &[],
    };
    let latencies: Vec<&Histogram> = loads_alike.iter().map(|l| &l.latency).collect();
    let confidence = stopping::level(plan).different;
    let mut counts = Counts::default();
    loads.iter().for_each(|l| counts.add(&l.result.counts));
    let loaded = used.iter().filter(|t| t.load.is_some());
    let rates: Vec<f64> = loaded.filter_map(|t| t.result.achieved_rps()).collect();
    let index = |t: &&Trial<'_>| t.result.trial.index;
    let with = |status| -> Vec<u32> {
        here.iter()
            .filter(|t| t.status == status)
            .map(index)
            .collect()
    };
    Cell {
        mesh: mesh.to_owned(),
        load: load.name.clone(),
        rate_rps: load.rate_rps().unwrap_or(0.0),
        achieved_rps: (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64),
        trials_used: used.iter().map(index).collect(),
        trials_failed: with(TrialStatus::Failed),
        trials_disturbed: [TrialStatus::RunAgain, TrialStatus::LeftOut]
            .map(with)
            .concat(),
        saturation: saturation(&used),
        latency_of_all: percentiles_of_all(&latencies, &counts),
        counts,
        capacity: super::capacity::of(load, &used, confidence),
        throughput_rps: super::capacity::throughput(&used, confidence),
        overload: super::overload::of(load, &used, confidence),
        churn: super::churn::of(plan, trials, (load, &used), confidence),
        verdict: verdict(&here, &used, &measured),
        latency: typical(&latencies, confidence, changed),
        spectrum: spectrum(&latencies),
        service_time: percentiles(loads_alike.iter().map(|l| &l.service_time)),
        lateness: percentiles(loads.iter().map(|l| &l.lateness)),
        planes: planes(&used, confidence),
        machine_busy_cores: estimate(
            &used
                .iter()
                .filter_map(|t| t.resources())
                .map(|r| r.machine.busy_cores)
                .collect::<Vec<_>>(),
            confidence,
        ),
        endpoints: endpoints(loads_alike),
        cost: super::cost::of(
            plan.prices.as_ref(),
            &used,
            &super::proxy_cpu::lines(plan, trials, mesh),
            load,
            confidence,
        ),
        named: match load.is_open() {
            true => named::of(&used),
            false => Vec::new(),
        },
        instrument: instrument::instrument(&loads),
        core_to_core: instrument::core_to_core(&loads),
        tls: instrument::tls(&loads),
    }
}

/// The limits that used trials reached: findings of saturation beyond the threshold for invalid trials.
fn saturation(used: &[&Trial<'_>]) -> Option<Saturation> {
    let limits = |t: &Trial<'_>| -> Vec<String> {
        let reasons = t.verdict.reasons.iter();
        let limit = |f: &&Finding| f.grade == Grade::Invalid && f.reason.is_saturation();
        reasons.filter(limit).map(|f| f.found.clone()).collect()
    };
    let each: Vec<Vec<String>> = used
        .iter()
        .map(|t| limits(t))
        .filter(|l| !l.is_empty())
        .collect();
    let trials = each.len() as u32;
    let mut found: Vec<String> = Vec::new();
    for limit in each.into_iter().flatten() {
        if !found.contains(&limit) {
            found.push(limit);
        }
    }
    (trials > 0).then_some(Saturation { trials, found })
}

/// The verdict on a cell: the reasons of its used trials (of all trials if none is used), and
/// findings about their number and size.
fn verdict(here: &[&Trial<'_>], used: &[&Trial<'_>], latencies: &[&Histogram]) -> Verdict {
    let judged = if used.is_empty() { here } else { used };
    let mut findings = reasons(judged);
    // A limit that a trial reached is a result. It does not make the cell invalid.
    for finding in findings.iter_mut().filter(|_| !used.is_empty()) {
        finding.grade = finding.grade.min(Grade::Suspect);
    }
    match used.len() {
        0 => findings.push(Finding::new(
            Grade::Invalid,
            Reason::Incomplete,
            match here.len() {
                0 => "no trial yet".to_owned(),
                n => format!("0 of {n} trials are usable"),
            },
        )),
        1 => findings.push(Finding::new(
            Grade::Suspect,
            Reason::TooFewBlocks,
            "an interval needs at least 2 trials, found 1",
        )),
        _ => {}
    }
    let samples = latencies.iter().map(|h| h.len()).min().unwrap_or(0);
    let short: Vec<String> = REQUIRED
        .iter()
        .filter(|(_, q)| !used.is_empty() && samples < samples_needed(*q))
        .map(|(name, q)| format!("{name} needs {}", figures::count(samples_needed(*q))))
        .collect();
    if !short.is_empty() {
        let short = short.join(", ");
        let found = format!("a trial has {} responses: {short}", figures::count(samples));
        let mut finding = Finding::new(Grade::Suspect, Reason::TooFewSamples, found);
        // More requests that fail would not help.
        if findings.iter().any(|f| f.reason == Reason::Errors) {
            finding.remedy = AFTER_FAILURES.to_owned();
        }
        findings.push(finding);
    }
    Verdict::from_findings(findings)
}

/// The reasons of all trials, each reason once, prefixed with the trials that have it.
fn reasons(trials: &[&Trial<'_>]) -> Vec<Finding> {
    let mut found: Vec<(Finding, Vec<String>)> = Vec::new();
    for trial in trials {
        let index = trial.result.trial.index.to_string();
        let of_the_trial = |f: &&Finding| f.reason != Reason::TooFewSamples;
        for finding in trial.verdict.reasons.iter().filter(of_the_trial) {
            match found.iter_mut().find(|(f, _)| f == finding) {
                Some((_, indices)) => indices.push(index.clone()),
                None => found.push((finding.clone(), vec![index.clone()])),
            }
        }
    }
    let prefixed = |(mut finding, indices): (Finding, Vec<String>)| {
        let who = match indices.len() {
            n if n == trials.len() && n > 1 => "every trial".to_owned(),
            1 => format!("trial {}", indices[0]),
            _ => format!("trials {}", indices.join(", ")),
        };
        finding.found = format!("{who}: {}", finding.found);
        finding
    };
    found.into_iter().map(prefixed).collect()
}

/// The pooled distribution with the range of the runs, at quantiles that are evenly spaced on the
/// logarithmic axis of `1 - q`.
fn spectrum(runs: &[&Histogram]) -> Vec<SpectrumPoint> {
    let all = pooled(runs);
    if all.is_empty() {
        return Vec::new();
    }
    let last = (all.len() as f64).log10();
    let mut qs = Vec::new();
    let mut nines = 0.5_f64.recip().log10();
    while nines < last {
        qs.push(1.0 - 10f64.powf(-nines));
        nines += 1.0 / POINTS_PER_NINE;
    }
    let end = 1.0 - 0.5 / all.len() as f64;
    qs.push(end);
    let runs = runs.iter().filter(|h| !h.is_empty());
    let each: Vec<Vec<u64>> = runs.map(|h| h.quantiles(&qs)).collect();
    let pooled = all.quantiles(&qs);
    let point = |(i, q): (usize, &f64)| SpectrumPoint {
        q: *q,
        ns: pooled[i],
        min_ns: each.iter().map(|run| run[i]).min().unwrap_or(0),
        max_ns: each.iter().map(|run| run[i]).max().unwrap_or(0),
        supported: *q < end && all.len() >= samples_needed(*q),
    };
    qs.iter().enumerate().map(point).collect()
}

fn planes(used: &[&Trial<'_>], confidence: f64) -> BTreeMap<Plane, PlaneEstimate> {
    let sampled: Vec<_> = used
        .iter()
        .filter_map(|t| Some((*t, t.resources()?)))
        .collect();
    let names: BTreeSet<Plane> = sampled
        .iter()
        .flat_map(|(_, r)| {
            r.planes
                .iter()
                .filter(|(_, p)| p.processes > 0)
                .map(|(name, _)| *name)
        })
        .collect();
    let mut planes = BTreeMap::new();
    for plane in names {
        let uses: Vec<PlaneUse> = sampled
            .iter()
            .map(|(_, r)| r.planes.get(&plane).cloned().unwrap_or_default())
            .collect();
        let per_krps: Vec<f64> = sampled
            .iter()
            .zip(&uses)
            .filter_map(|((t, _), u)| {
                let rate = t.achieved_rps()?;
                Some(u.cpu_cores / rate * 1000.0)
            })
            .collect();
        let kinds: Vec<MemoryKind> = sampled
            .iter()
            .flat_map(|(_, r)| r.processes.iter().filter(|p| p.plane == plane))
            .map(|p| p.memory_kind)
            .collect();
        let of =
            |f: fn(&PlaneUse) -> f64| estimate(&uses.iter().map(f).collect::<Vec<_>>(), confidence);
        let (Some(cpu_cores), Some(memory_bytes)) =
            (of(|u| u.cpu_cores), of(|u| u.memory_mean_bytes))
        else {
            continue;
        };
        let counts = used
            .iter()
            .filter_map(|t| Some((*t, t.counters(&[plane])?)));
        let counts: Vec<_> = counts.collect();
        let scopes: BTreeSet<bool> = counts.iter().map(|(_, c)| c.user_only).collect();
        let counted = |of: fn(HardwareCounts) -> u64| {
            let each = counts.iter().filter_map(|(t, c)| t.per_request(of(*c)));
            let each: Vec<f64> = each.filter(|_| scopes.len() == 1).collect();
            estimate(&each, confidence)
        };
        let estimate = PlaneEstimate {
            processes: uses.iter().map(|u| u.processes).max().unwrap_or(0),
            cpu_cores,
            cpu_cores_max: uses.iter().map(|u| u.cpu_cores_max).fold(0.0, f64::max),
            memory_bytes,
            memory_max_bytes: uses.iter().map(|u| u.memory_max_bytes).max().unwrap_or(0),
            memory_kind: kinds
                .first()
                .copied()
                .filter(|k| kinds.iter().all(|o| o == k)),
            cpu_cores_per_krps: estimate(&per_krps, confidence),
            instructions_per_request: counted(|c| c.instructions),
            cycles_per_request: counted(|c| c.cycles),
        };
        planes.insert(plane, estimate);
    }
    planes
}

fn endpoints(loads: &[&Decoded<'_>]) -> Vec<EndpointRow> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in loads.iter().flat_map(|l| &l.endpoints) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names
        .into_iter()
        .map(|name| {
            let mut counts = Counts::default();
            loads
                .iter()
                .flat_map(|l| &l.result.endpoints)
                .filter(|e| e.name == name)
                .for_each(|e| counts.add(&e.counts));
            let latency = loads
                .iter()
                .flat_map(|l| &l.endpoints)
                .filter(|e| e.0 == name)
                .map(|e| &e.1);
            EndpointRow {
                name: name.to_owned(),
                counts,
                latency: percentiles(latency),
            }
        })
        .collect()
}

/// Mean of a quantity that cannot be negative, with its interval at `confidence`; `None`
/// without a run.
#[must_use]
pub(super) fn estimate(runs: &[f64], confidence: f64) -> Option<Estimate> {
    let mut estimate = signed_estimate(runs, confidence)?;
    estimate.low = estimate.low.map(|low| low.max(0.0));
    Some(estimate)
}

/// The same for a quantity that may be negative, such as a difference.
#[must_use]
pub(super) fn signed_estimate(runs: &[f64], confidence: f64) -> Option<Estimate> {
    let (value, half) = mean_interval(runs, confidence)?;
    Some(Estimate {
        value,
        low: half.map(|h| value - h),
        high: half.map(|h| value + h),
        runs: runs.to_vec(),
    })
}
