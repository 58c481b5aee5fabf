//! Every trial with its verdict and its figures.

use tare_plan::Figure;
use tare_records::summary::{Summary, TrialRow};
use tare_stats::order::samples_needed;
use tare_stats::wire::LatencySummary;

use crate::table::{Cell, Column, Columns, Scale, TOO_FEW, Table};

/// A row for each trial; its number is a link to its chart.
pub(crate) fn trials(summary: &Summary) -> Table {
    let count = |label| Column::number(label, Scale::Count);
    let link = |t: &TrialRow| (format!("#trial-{}", t.index), t.index.to_string());
    let grade = |t: &TrialRow| Cell::Verdict(t.verdict.grade, t.verdict.grade.word());
    let cores = |t: &TrialRow| Cell::number(t.data_plane_cores.filter(|c| *c > 0.0));
    let waited = Column::number("waited for a core per request", Scale::Micros);
    let max = |t: &TrialRow| Cell::number(t.latency_ns.map(|l| l.max as f64));
    let lateness = Column::number("lateness p99", Scale::Micros);
    Columns::of(&summary.trials)
        .with(count("trial"), |t| Cell::Links(vec![link(t)]))
        .with(count("block"), |t| Cell::count(u64::from(t.block) + 1))
        .mesh("mesh", summary, |t| &t.mesh)
        .with(Column::text("load"), |t| Cell::text(&t.load))
        .with(Column::text("verdict"), |t| grade(t))
        .with(Column::text("figures"), |t| Cell::text(t.status.words()))
        .with(Column::number("achieved", Scale::Rps), |t| {
            Cell::number(t.achieved_rps)
        })
        .with(Column::figure(Figure::P50), |t| {
            quantile(t.latency_ns, 0.5, |l| l.p50)
        })
        .with(Column::figure(Figure::P99), |t| {
            quantile(t.latency_ns, 0.99, |l| l.p99)
        })
        .with(Column::figure(Figure::Max), |t| max(t))
        .with(lateness, |t| quantile(t.lateness_ns, 0.99, |l| l.p99))
        .with(Column::number("data plane", Scale::Cores), |t| cores(t))
        .with(waited, |t| Cell::number(t.run_queue_delay_per_request_ns))
        .table("")
}

/// A quantile in nanoseconds, or a dash without enough responses for `q`.
fn quantile(latency: Option<LatencySummary>, q: f64, of: fn(&LatencySummary) -> u64) -> Cell {
    let found = latency.filter(|l| l.count >= samples_needed(q));
    found.map_or(Cell::Absent(TOO_FEW), |l| Cell::count(of(&l)))
}
