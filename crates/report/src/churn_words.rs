//! What loads with churn show: rows for tables, and sentences.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::{Cell, CellChurn, Estimate, Outcome, Summary};

use crate::words;

/// How to read the table.
pub(crate) const CHURN: &str = "Arrival: from the request that changes an endpoint until the last of the watchers has \
     its first answer from the new endpoint after which none comes from the old one; in each trial, half of the changes \
     arrived within this time. It can be too long by 50 ms and the duration of a request. Pod ready: from the request \
     that creates a pod with one container until it is ready. Mesh ready: from nothing to a ready control plane. These \
     are means over the blocks, with intervals from two blocks on. CPU and memory are sums over the control plane. What \
     it counts itself grew by this much during the changes.";

/// The headings of the figures of a row.
pub(crate) const COLUMNS: [&str; 10] = [
    "arrival, s",
    "slowest arrival, s",
    "not arrived",
    "failed requests",
    "changes stored",
    "pod ready, s",
    "pod later by, s",
    "mesh ready, s",
    "CPU, cores",
    "memory, MiB",
];

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

/// A value with the ends of its interval, both in words; a dash without one.
pub(crate) type Words = (String, Option<String>);

fn of(e: Option<&Estimate>, words: impl Fn(f64) -> String) -> Words {
    let Some(e) = e else {
        return ("-".to_owned(), None);
    };
    let ends = e.low.zip(e.high);
    let ends = ends.map(|(low, high)| format!("{} to {}", words(low), words(high)));
    (words(e.value), ends)
}

/// Nanoseconds in seconds.
pub(crate) fn seconds(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", figures::significant((ns / 1e9).abs()))
}

/// The values of a row, in the order of [`COLUMNS`].
pub(crate) fn row(cell: &Cell, churn: &CellChurn) -> [Words; 10] {
    let control = cell.planes.get(&tare_records::worker::Plane::ControlPlane);
    let share = |part: u64, of: u64| match of {
        0 => ("-".to_owned(), None),
        _ => (format!("{part} of {of}"), None),
    };
    let switches = u64::from(churn.arrived + churn.unseen);
    [
        of(churn.convergence_ns.as_ref(), seconds),
        (
            churn
                .convergence_max_ns
                .map_or("-".to_owned(), |ns| seconds(ns as f64)),
            None,
        ),
        share(u64::from(churn.unseen), switches),
        share(churn.failed, churn.requests),
        (
            churn.written_share.map_or("-".to_owned(), words::share),
            None,
        ),
        of(churn.pod_ready_ns.as_ref(), seconds),
        of(churn.pod_ready_added_ns.as_ref(), seconds),
        of(churn.mesh_ready_ns.as_ref(), seconds),
        of(control.map(|p| &p.cpu_cores), figures::cores),
        of(control.map(|p| &p.memory_bytes), figures::mib),
    ]
}

/// `pushes 412 (400 to 424); queue time 0.00120 s (0.00110 to 0.00130)`; empty if the control plane states nothing.
pub(crate) fn metrics(churn: &CellChurn) -> String {
    let metric = |m: &tare_records::summary::CellMetric| {
        let unit = match m.unit.as_str() {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        let (value, ends) = of(Some(&m.estimate), figures::significant);
        let ends = ends.map_or_else(String::new, |ends| format!(" ({ends})"));
        format!("{} {value}{unit}{ends}", m.name)
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
        let (value, ends) = of(Some(e), seconds);
        let ends = ends.unwrap_or_else(|| "a single block".to_owned());
        format!("{value} s ({ends})")
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
