//! What loads with churn show: rows for tables, and sentences.

use tare_analysis::figures;
use tare_model::summary::{Cell, CellChurn, Estimate, Summary};

/// How to read the table.
pub(crate) const CHURN: &str = "Arrival: from the request that changes an endpoint until the last of the watchers, one \
     on each node, has its first answer from the new endpoint after which none comes from the old one; the median of \
     a trial. It is at most 50 ms and one request too long. Pod ready: from the request that creates a pod of one \
     container until it is ready. Mesh ready: from nothing to a ready control plane. All of them are means over the \
     blocks, with intervals. CPU and memory are those of the control plane.";

/// The headings of the columns after those of mesh and load.
pub(crate) const COLUMNS: [&str; 8] = [
    "arrival, s",
    "not arrived",
    "failed",
    "pod ready, s",
    "over no mesh, s",
    "mesh ready, s",
    "CPU, cores",
    "memory, MiB",
];

/// The cells of loads with churn, in the order of the summary.
pub(crate) fn cells(summary: &Summary) -> Vec<(&Cell, &CellChurn)> {
    let cells = summary.cells.iter();
    cells.filter_map(|c| Some((c, c.churn.as_ref()?))).collect()
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
pub(crate) fn row(cell: &Cell, churn: &CellChurn) -> [Words; 8] {
    let control = cell.planes.get(&tare_model::worker::Plane::ControlPlane);
    let share = |part: u64, of: u64| match of {
        0 => ("-".to_owned(), None),
        _ => (format!("{part} of {of}"), None),
    };
    let switches = u64::from(churn.arrived + churn.unseen);
    [
        of(churn.convergence_ns.as_ref(), seconds),
        share(u64::from(churn.unseen), switches),
        share(churn.failed, churn.requests),
        of(churn.pod_ready_ns.as_ref(), seconds),
        of(churn.pod_ready_added_ns.as_ref(), seconds),
        of(churn.mesh_ready_ns.as_ref(), seconds),
        of(control.map(|p| &p.cpu_cores), figures::cores),
        of(control.map(|p| &p.memory_bytes), figures::mib),
    ]
}

/// `pushes 412 (400 to 424); queue time 0.00120 s (0.00110 to 0.00130)`; empty if the control plane states nothing.
pub(crate) fn metrics(churn: &CellChurn) -> String {
    let metric = |m: &tare_model::summary::CellMetric| {
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
        let ends = ends.map_or_else(String::new, |ends| format!(" ({ends})"));
        format!("{value} s{ends}")
    };
    let is_baseline = cell.mesh == summary.baseline;
    let arrival = match &churn.convergence_ns {
        Some(e) => format!(
            "a changed endpoint has arrived everywhere after {}",
            amount(e)
        ),
        None if churn.unseen > 0 => {
            "half of the changed endpoints or more have not arrived everywhere after 3 s".to_owned()
        }
        None => return None,
    };
    let pod = match (&churn.pod_ready_added_ns, is_baseline) {
        (Some(e), false) if e.low.is_some_and(|low| low > 0.0) => {
            format!("; a pod is ready {} later", amount(e))
        }
        (Some(e), false) => format!(
            "; whether pods are ready later is not resolved: {}",
            amount(e)
        ),
        _ => String::new(),
    };
    Some(format!(
        "{}, {} services without pods: {arrival}{pod}.",
        cell.mesh, churn.services
    ))
}
