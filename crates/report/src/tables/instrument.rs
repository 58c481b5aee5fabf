//! The instrument's own error, the time from core to core and the generators' TLS.

use std::collections::BTreeMap;

use tare_plan::Figure;
use tare_records::summary::Summary;

use super::{of_load, percentile};
use crate::table::{Cell, Column, Columns, Scale, Table};
use crate::words;

/// What the generators add to latencies, by the kernel's timestamps.
pub(crate) fn instrument(summary: &Summary, load: &str) -> Table {
    let count = |label| Column::number(label, Scale::Count);
    let time = |label: String| Column::number(label, Scale::Micros);
    let rows = of_load(summary, load).filter_map(|cell| Some((cell, cell.instrument.as_ref()?)));
    Columns::of(rows)
        .mesh("mesh", summary, |(cell, _)| &cell.mesh)
        .count(count("requests compared"), |(_, found)| found.sampled)
        .count(count("not recorded"), |(_, found)| found.missed)
        .each(
            [Figure::P50, Figure::P99, Figure::Max],
            |figure| time(format!("added {}", figure.label())),
            |(_, found), figure| percentile(&found.service_time, figure),
        )
        .each(
            [Figure::P50, Figure::P99],
            |figure| time(format!("sent late {}", figure.label())),
            |(_, found), figure| percentile(&found.send, figure),
        )
        .count(count("below zero"), |(_, found)| found.below_zero)
        .table(words::load_of(summary, load))
}

/// The time of a cache line between the cores of the generators.
pub(crate) fn core_to_core(summary: &Summary, load: &str) -> Table {
    let time = |label| Column::number(label, Scale::Ns);
    Columns::of(of_load(summary, load).filter_map(|cell| Some((cell, cell.core_to_core?))))
        .mesh("mesh", summary, |(cell, _)| &cell.mesh)
        .with(time("minimum"), |(_, found)| Cell::Number(found.least_ns))
        .with(time("median"), |(_, found)| Cell::Number(found.median_ns))
        .with(time("maximum"), |(_, found)| Cell::Number(found.most_ns))
        .table(words::load_of(summary, load))
}

/// The TLS connections of the generators.
pub(crate) fn tls(summary: &Summary, load: &str) -> Table {
    let count = |label| Column::number(label, Scale::Count);
    let protocols = Column::text("connections by version and cipher");
    let certificates = |insecure| match insecure {
        true => "not verified",
        false => "verified",
    };
    Columns::of(of_load(summary, load).filter_map(|cell| Some((cell, cell.tls.as_ref()?))))
        .mesh("mesh", summary, |(cell, _)| &cell.mesh)
        .count(count("handshakes"), |(_, tls)| tls.handshakes_full)
        .count(count("resumed"), |(_, tls)| tls.handshakes_resumed)
        .each(
            [Figure::P50, Figure::P99],
            Column::figure,
            |(_, tls), figure| percentile(&tls.handshake, figure),
        )
        .with(protocols, |(_, tls)| counts(&tls.protocols))
        .with(Column::text("failures"), |(_, tls)| counts(&tls.failures))
        .with(Column::text("certificates"), |(_, tls)| {
            Cell::text(certificates(tls.insecure))
        })
        .table(words::load_of(summary, load))
}

fn counts(counts: &BTreeMap<String, u64>) -> Cell {
    let each = counts.iter().map(|(name, n)| format!("{name}: {n}"));
    Cell::words(each.collect::<Vec<_>>().join(", "))
}
