//! The capacity of each mesh, the throughput of closed loops, and the answers about them.

use std::collections::BTreeMap;

use tare_plan::{Figure, Load, LoadKind};
use tare_records::capacity::{Capacity, CapacityLimit};
use tare_records::summary::{
    Cell, CellCapacity, Estimate, LimitCount, MeshComparison, Outcome, Ratio,
};
use tare_records::trial::{ProcessUse, Resources};
use tare_records::worker::Plane;

use super::cell::estimate;
use super::overload;
use crate::figures;
use crate::trials::Trial;

/// The capacity of a cell; `None` under a load that does not search for it.
pub(super) fn of(load: &Load, used: &[&Trial<'_>], confidence: f64) -> Option<CellCapacity> {
    let search = load.capacity()?;
    let all: Vec<&Capacity> = used
        .iter()
        .filter_map(|t| t.result.capacity.as_ref())
        .collect();
    let rates: Vec<f64> = all.iter().filter_map(|c| Some(c.found?.rate_rps)).collect();
    let mut limits: BTreeMap<CapacityLimit, LimitCount> = BTreeMap::new();
    for capacity in &all {
        let count = limits.entry(capacity.limit).or_insert_with(|| LimitCount {
            limit: capacity.limit,
            trials: 0,
            evidence: capacity.evidence.clone(),
        });
        count.trials += 1;
    }
    let mut limits: Vec<LimitCount> = limits.into_values().collect();
    limits.sort_by_key(|l| std::cmp::Reverse(l.trials));
    let sum = |r: &Resources, of: fn(&ProcessUse) -> f64, generator: bool| -> f64 {
        let counts = |p: &&ProcessUse| match p.plane {
            Plane::Tare => false,
            Plane::Generator | Plane::GeneratorProxy => generator,
            _ => true,
        };
        r.processes.iter().filter(counts).map(of).sum()
    };
    let sampled: Vec<&Resources> = used.iter().filter_map(|t| t.resources()).collect();
    let each = |of: fn(&ProcessUse) -> f64, generator| -> Vec<f64> {
        sampled.iter().map(|r| sum(r, of, generator)).collect()
    };
    Some(CellCapacity {
        objectives: search.objectives.clone(),
        rate_rps: estimate(&rates, confidence),
        not_found: (all.len() - rates.len()) as u32,
        limits,
        unseen_share: all
            .iter()
            .filter_map(|c| c.unseen_share)
            .max_by(f64::total_cmp),
        cpu_cores: estimate(&each(|p| p.cpu_cores, true), confidence),
        memory_bytes: estimate(&each(|p| p.memory_mean_bytes, false), confidence),
    })
}

/// Responses per second of a trial of a closed loop; `None` of other trials.
pub(crate) fn throughput_rps(trial: &Trial<'_>) -> Option<f64> {
    let load = trial.load.as_ref()?.result;
    let seconds = load.window_ns as f64 / 1e9;
    let rps = load.counts.ok as f64 / seconds;
    (trial.result.trial.load.is_closed() && rps > 0.0).then_some(rps)
}

/// The throughput of a cell; `None` outside closed loops.
pub(super) fn throughput(used: &[&Trial<'_>], confidence: f64) -> Option<Estimate> {
    let rates: Vec<f64> = used.iter().filter_map(|t| throughput_rps(t)).collect();
    estimate(&rates, confidence)
}

/// The load under which a pair of meshes is compared, as words for the heading.
pub(super) fn under(load: &Load) -> String {
    match &load.kind {
        LoadKind::Open { rate_rps } => format!("at {}", figures::rate(*rate_rps)),
        LoadKind::Closed { .. } => format!("in a closed loop of {}", load.users()),
        LoadKind::Capacity(search) => format!("with {}", list(&search.objectives)),
        LoadKind::Overload(overload) => format!("at {}", overload.words()),
    }
}

fn list(objectives: &[String]) -> String {
    match objectives.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => objectives.concat(),
    }
}

/// The ratio that answers the question of a load without a rate.
pub(super) fn ratio(comparison: &MeshComparison) -> Option<&Ratio> {
    comparison.ratios.iter().find(|r| r.what.is_rate())
}

/// The sentence about a pair of meshes under a load without a rate.
pub(super) fn sentence(comparison: &MeshComparison, own: &Cell, other: &Cell) -> String {
    let name = match (&own.capacity, &own.overload) {
        (Some(_), _) => Figure::Capacity,
        (None, Some(_)) => Figure::Goodput,
        (None, None) => Figure::Throughput,
    };
    let Some(ratio) = ratio(comparison) else {
        return format!(
            "no ratio of the {name}, because no block has a {name} of both: {}",
            rates(own, other)
        );
    };
    let interval = figures::ratio_interval(ratio.value, ratio.low, ratio.high);
    let said = match ratio.outcome {
        Outcome::Different => format!("its {name} is {interval}"),
        Outcome::Same => {
            let margin = figures::percent(ratio.margin);
            let margin = margin.trim_start_matches('+');
            format!("its {name} is the same within {margin}: {interval}")
        }
        Outcome::NotResolved => {
            format!("its {name} is not resolved: {}", figures::unresolved(ratio))
        }
    };
    let limit = own.capacity.as_ref().and_then(|c| c.limits.first());
    let limit = limit.map_or_else(String::new, |l| format!("; limit: {}", limit_words(l, own)));
    let recovery = overload::recovery(own, other);
    format!("{said}; {}{limit}{recovery}", rates(own, other))
}

fn limit_words(limit: &LimitCount, cell: &Cell) -> String {
    let all = cell.trials_used.len();
    let evidence = match limit.evidence.as_str() {
        "" => String::new(),
        text => format!(" ({text})"),
    };
    let trials = match limit.trials as usize == all {
        true => String::new(),
        false => format!(" in {} of {all} trials", limit.trials),
    };
    format!("{}{trials}{evidence}", limit.limit.words())
}

/// `2,340 rps against 4,500 rps`.
fn rates(own: &Cell, other: &Cell) -> String {
    let of = |cell: &Cell| {
        let rate = match &cell.capacity {
            Some(capacity) => capacity.rate_rps.as_ref(),
            None => match &cell.overload {
                Some(overload) => overload.goodput_rps.as_ref(),
                None => cell.throughput_rps.as_ref(),
            },
        };
        rate.map_or("unknown".to_owned(), |e| figures::rate(e.value))
    };
    format!("{} against {}", of(own), of(other))
}

/// What qualifies the sentence: searches without a result, and limits that are not those of the mesh or its workload, so that the
/// capacity may be higher; `None` if there are none.
pub(super) fn caution(own: &Cell, other: &Cell) -> Option<String> {
    let mut sentences = Vec::new();
    for cell in [own, other] {
        if let Some(capacity) = cell.capacity.as_ref().filter(|c| c.not_found > 0) {
            sentences.push(format!(
                "{} of {} searches found no rate for {}: allow more time (`budget`), or looser objectives.",
                capacity.not_found,
                cell.trials_used.len(),
                cell.mesh
            ));
        }
        for limit in cell.capacity.iter().flat_map(|c| &c.limits) {
            let is_bound = [CapacityLimit::Generator, CapacityLimit::MaxRate];
            if is_bound.contains(&limit.limit) {
                sentences.push(format!(
                    "The limit of {} was the {} in {} of {} trials: its own capacity may be higher.",
                    cell.mesh,
                    limit.limit.words(),
                    limit.trials,
                    cell.trials_used.len()
                ));
            }
        }
    }
    (!sentences.is_empty()).then(|| sentences.join(" "))
}
