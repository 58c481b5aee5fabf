//! The figures beyond the capacity.

use tare_plan::{CapacityOf, Load, Plan};
use tare_records::overload::{OverloadResult, PhaseResult};
use tare_records::summary::{Cell, CellOverload};

use super::cell::estimate;
use crate::figures;
use crate::trials::Trial;

/// The figures of a cell; `None` under other loads, and without a used trial.
pub(super) fn of(load: &Load, used: &[&Trial<'_>], confidence: f64) -> Option<CellOverload> {
    let overload = load.overload()?;
    let all: Vec<&OverloadResult> = used
        .iter()
        .filter_map(|t| t.result.overload.as_ref())
        .collect();
    let first = all.first()?;
    let each = |of: fn(&PhaseResult) -> f64| {
        let values: Vec<f64> = all.iter().map(|r| of(&r.overload)).collect();
        estimate(&values, confidence)
    };
    let latency = |of: fn(&PhaseResult) -> u64| {
        let with = all.iter().filter(|r| r.overload.latency_ns.count > 0);
        let values: Vec<f64> = with.map(|r| of(&r.overload) as f64).collect();
        estimate(&values, confidence)
    };
    let recovered = all.iter().filter_map(|r| r.recovered_after_s);
    let recovered: Vec<f64> = recovered.map(f64::from).collect();
    Some(CellOverload {
        percent: overload.percent,
        of: overload.of,
        rate_rps: first.rate_rps,
        goodput_rps: each(PhaseResult::goodput_rps),
        failed_share: each(PhaseResult::failed_share),
        p50_ns: latency(|p| p.latency_ns.p50),
        p99_ns: latency(|p| p.latency_ns.p99),
        not_recovered: (all.len() - recovered.len()) as u32,
        recovery_s: estimate(&recovered, confidence),
        watched_s: first.after.seconds,
    })
}

/// Goodput of a trial at a share of the baseline's capacity, which all meshes have in common; `None` of
/// other trials.
pub(crate) fn goodput_rps(trial: &Trial<'_>) -> Option<f64> {
    let of = trial.result.trial.load.overload()?.of;
    let found = trial.result.overload.as_ref()?;
    let rps = found.overload.goodput_rps();
    (of == CapacityOf::Baseline && rps > 0.0).then_some(rps)
}

/// The overload that the meshes are compared under: that with the highest share of the baseline's capacity.
pub(super) fn compared(plan: &Plan) -> Option<&Load> {
    let of_baseline = |l: &&Load| l.overload().is_some_and(|o| o.of == CapacityOf::Baseline);
    let loads = plan.loads.iter().filter(of_baseline);
    loads.max_by_key(|l| l.overload().map(|o| o.percent))
}

/// `; recovered after 2.3 s, the other after 0 s`, as the end of a sentence about two meshes.
pub(super) fn recovery(own: &Cell, other: &Cell) -> String {
    let of = |cell: &Cell| {
        let overload = cell.overload.as_ref()?;
        Some(recovery_words(overload))
    };
    match (of(own), of(other)) {
        (Some(a), Some(b)) => format!("; recovery: {a} against {b}"),
        _ => String::new(),
    }
}

/// `2.3 s`, or `more than 5 s in 1 of 3 trials`.
pub fn recovery_words(overload: &CellOverload) -> String {
    let recovered = overload.recovery_s.as_ref();
    let trials = overload.not_recovered + recovered.map_or(0, |e| e.runs.len() as u32);
    let seconds = recovered.map(|e| format!("{} s", figures::significant(e.value)));
    let beyond = match overload.not_recovered {
        0 => None,
        n if n == trials => Some(format!("more than {} s", overload.watched_s)),
        n => Some(format!(
            "more than {} s in {n} of {trials}",
            overload.watched_s
        )),
    };
    let parts: Vec<String> = seconds.into_iter().chain(beyond).collect();
    parts.join(", ")
}
