//! What loads with churn show, in words.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::{Cell, CellChurn, Estimate, Outcome, Summary};

/// How to read the table.
pub(crate) const CHURN: &str = "Arrival: from the request that changes an endpoint until the last of the watchers has \
     its first answer from the new endpoint after which none comes from the old one; in each trial, half of the changes \
     arrived within this time. It can be too long by 50 ms and the duration of a request. Pod ready: from the request \
     that creates a pod with one container until it is ready. Mesh ready: from nothing to a ready control plane. These \
     are means over the blocks, with intervals from two blocks on. CPU and memory are sums over the control plane. What \
     it counts itself grew by this much during the changes.";

/// The cells of loads with churn, in the order of the summary.
pub(crate) fn cells(summary: &Summary) -> Vec<(&Cell, &CellChurn)> {
    let cells = summary.cells.iter();
    cells.filter_map(|c| Some((c, c.churn.as_ref()?))).collect()
}

/// What a load with churn has, such as `200 services x 10 endpoints, 5 changes/s, 2 watchers`.
pub(crate) fn heading(churn: &CellChurn) -> String {
    format!(
        "{} services x {} endpoints, {} changes/s, {} watchers",
        churn.services, churn.endpoints, churn.changes, churn.watchers
    )
}

/// The ends of an interval in words.
fn ends(e: &Estimate, words: impl Fn(f64) -> String) -> Option<String> {
    let ends = e.low.zip(e.high);
    ends.map(|(low, high)| format!("{} to {}", words(low), words(high)))
}

/// `pushes 412 (400 to 424); queue time 0.00120 s (0.00110 to 0.00130)`; empty if the control plane states nothing.
pub(crate) fn metrics(churn: &CellChurn) -> String {
    let metric = |m: &tare_records::summary::CellMetric| {
        let unit = match m.unit.as_str() {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        let words = figures::significant;
        let ends = ends(&m.estimate, words).map_or_else(String::new, |ends| format!(" ({ends})"));
        format!("{} {}{unit}{ends}", m.name, words(m.estimate.value))
    };
    let all: Vec<String> = churn.metrics.iter().map(metric).collect();
    all.join("; ")
}

/// A sentence about each mesh under the first load with churn.
pub(crate) fn answers(summary: &Summary) -> Vec<String> {
    let all = cells(summary);
    let Some((first, _)) = all.first() else {
        return Vec::new();
    };
    let load = first.load.clone();
    let of_load = all.iter().filter(|(cell, _)| cell.load == load);
    of_load
        .filter_map(|(cell, churn)| answer(summary, cell, churn))
        .collect()
}

fn answer(summary: &Summary, cell: &Cell, churn: &CellChurn) -> Option<String> {
    let amount = |e: &Estimate| {
        let seconds = |ns: f64| figures::significant(ns / 1e9);
        let ends = ends(e, seconds).unwrap_or_else(|| "a single block".to_owned());
        format!("{} s ({ends})", seconds(e.value))
    };
    let of_pair = |c: &&tare_records::summary::MeshComparison| {
        c.mesh == cell.mesh && c.reference == summary.baseline && c.load == cell.load
    };
    let comparison = summary.comparisons.iter().find(of_pair);
    let ratio = comparison.and_then(|c| c.ratio(Figure::Convergence));
    let arrival = match &churn.convergence_ns {
        Some(e) => format!(
            "half of the changed endpoints have arrived at all {} watchers after {}",
            churn.watchers,
            amount(e)
        ),
        None if churn.unseen > 0 => format!(
            "half of the changed endpoints or more have not arrived at all {} watchers after 3 s",
            churn.watchers
        ),
        None => return None,
    };
    let compared = ratio.map_or_else(String::new, |r| match r.outcome {
        Outcome::NotResolved => format!(", not resolved against {}", summary.baseline),
        _ => {
            let interval = figures::ratio_interval(r.value, r.low, r.high);
            format!(", {interval} of {}", summary.baseline)
        }
    });
    let pod = match &churn.pod_ready_added_ns {
        Some(e) if e.low.is_some_and(|low| low > 0.0) => {
            format!("; a pod is ready {} later", amount(e))
        }
        Some(e) => format!(
            "; whether pods are ready later is not resolved: by {}",
            amount(e)
        ),
        None => String::new(),
    };
    Some(format!(
        "{}, {} services without pods, {} changes per second: {arrival}{compared}{pod}.",
        cell.mesh, churn.services, churn.changes
    ))
}
