//! The instrument's own error, the time from core to core and the generators' TLS.

use std::collections::BTreeMap;

use tare_plan::Figure;
use tare_records::summary::Summary;

use super::{of_load, percentile};
use crate::table::{Cell, Column, Scale, Table};
use crate::words;

/// What the generators add to latencies, by the kernel's timestamps.
pub(crate) fn instrument(summary: &Summary, load: &str) -> Table {
    let time = |label| Column::number(label, Scale::Micros);
    let columns = [
        Column::text("mesh"),
        Column::number("requests compared", Scale::Count),
        Column::number("not recorded", Scale::Count),
        time("added p50"),
        time("added p99"),
        time("added max"),
        time("sent late p50"),
        time("sent late p99"),
        Column::number("below zero", Scale::Count),
    ];
    let rows = of_load(summary, load).filter_map(|cell| {
        let found = cell.instrument.as_ref()?;
        Some(vec![
            Cell::mesh(summary, &cell.mesh),
            Cell::count(found.sampled),
            Cell::count(found.missed),
            percentile(&found.service_time, Figure::P50),
            percentile(&found.service_time, Figure::P99),
            percentile(&found.service_time, Figure::Max),
            percentile(&found.send, Figure::P50),
            percentile(&found.send, Figure::P99),
            Cell::count(found.below_zero),
        ])
    });
    Table::new(words::load_of(summary, load), columns, rows)
}

/// The time of a cache line between the cores of the generators.
pub(crate) fn core_to_core(summary: &Summary, load: &str) -> Table {
    let time = |label| Column::number(label, Scale::Ns);
    let columns = [
        Column::text("mesh"),
        time("minimum"),
        time("median"),
        time("maximum"),
    ];
    let rows = of_load(summary, load).filter_map(|cell| {
        let found = cell.core_to_core?;
        let times = [found.least_ns, found.median_ns, found.most_ns].map(Cell::Number);
        let mesh = Cell::mesh(summary, &cell.mesh);
        Some([mesh].into_iter().chain(times).collect())
    });
    Table::new(words::load_of(summary, load), columns, rows)
}

/// The TLS connections of the generators.
pub(crate) fn tls(summary: &Summary, load: &str) -> Table {
    let columns = [
        Column::text("mesh"),
        Column::number("handshakes", Scale::Count),
        Column::number("resumed", Scale::Count),
        Column::figure(Figure::P50),
        Column::figure(Figure::P99),
        Column::text("connections by version and cipher"),
        Column::text("failures"),
        Column::text("certificates"),
    ];
    let rows = of_load(summary, load).filter_map(|cell| {
        let found = cell.tls.as_ref()?;
        let certificates = match found.insecure {
            true => "not verified",
            false => "verified",
        };
        Some(vec![
            Cell::mesh(summary, &cell.mesh),
            Cell::count(found.handshakes_full),
            Cell::count(found.handshakes_resumed),
            percentile(&found.handshake, Figure::P50),
            percentile(&found.handshake, Figure::P99),
            counts(&found.protocols),
            counts(&found.failures),
            Cell::text(certificates),
        ])
    });
    Table::new(words::load_of(summary, load), columns, rows)
}

fn counts(counts: &BTreeMap<String, u64>) -> Cell {
    let each = counts.iter().map(|(name, n)| format!("{name}: {n}"));
    Cell::words(each.collect::<Vec<_>>().join(", "))
}
