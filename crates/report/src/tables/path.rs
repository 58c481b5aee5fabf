//! Where in the path of a request a mesh costs time, CPU and memory.

use tare_plan::Figure;
use tare_records::summary::Summary;
use tare_records::summary::path::{CallTimes, Decomposition, PathEdge, PathPart};

use crate::table::{Cell, Column, Scale, Table};
use crate::words;

/// The percentiles of a part.
const PERCENTILES: [Figure; 3] = [Figure::P50, Figure::P90, Figure::P99];

/// What the sides of a call add to the latency of a request.
pub(crate) fn parts(summary: &Summary, d: &Decomposition) -> Table {
    let added = |figure: Figure| Column::number(figure.label(), Scale::AddedMs).without_unit();
    let mut columns = vec![
        Column::text("added, ms"),
        Column::text("mesh").wide(),
        added(Figure::Mean),
    ];
    columns.extend(PERCENTILES.map(|figure| match figure {
        Figure::P90 => added(figure).wide(),
        _ => added(figure).brief(),
    }));
    let row = |part: &PathPart| {
        let mesh = part.mesh.as_ref();
        let mut row = vec![
            Cell::name(part.part.words()),
            mesh.map_or(Cell::Absent(""), |mesh| Cell::mesh(summary, mesh)),
            Cell::estimate(&part.mean_ns),
        ];
        row.extend(PERCENTILES.map(|name| {
            let found = part.percentiles.iter().find(|p| p.name == name);
            Cell::estimate(found.map(|p| &p.ns))
        }));
        row
    };
    let load = words::load_of(summary, &d.load);
    let heading = format!("Added to the latency of a request, {load}");
    Table::new(heading, columns, d.parts.iter().map(row))
}

/// Calls between services.
pub(crate) fn edges<'a>(
    summary: &Summary,
    heading: String,
    edges: impl IntoIterator<Item = &'a PathEdge>,
) -> Table {
    let time = |label| Column::number(label, Scale::Micros).wide();
    let columns = [
        Column::text("mesh").wide(),
        Column::text("caller to callee"),
        Column::number("calls per request", Scale::Number),
        time("caller p50"),
        time("caller p99"),
        time("callee p50"),
        time("callee p99"),
        time("between, mean"),
        Column::number("added, mean", Scale::AddedMs),
        Column::number("added, p50", Scale::AddedMs).brief(),
    ];
    let rows = edges.into_iter().map(|edge| {
        let of = |side: CallTimes| [side.p50, side.p99].map(Cell::number);
        let [caller_p50, caller_p99] = of(edge.caller);
        let [callee_p50, callee_p99] = of(edge.callee);
        vec![
            Cell::mesh(summary, &edge.mesh),
            Cell::text(format!("{} to {}", edge.from, edge.to)),
            Cell::Number(edge.calls_per_request),
            caller_p50,
            caller_p99,
            callee_p50,
            callee_p99,
            Cell::estimate(&edge.between_ns),
            Cell::estimate(&edge.added_ns),
            Cell::estimate(&edge.added_p50_ns),
        ]
    });
    Table::new(heading, columns, rows)
}

/// CPU and memory of each service.
pub(crate) fn services(summary: &Summary, load: &str) -> Table {
    let columns = [
        Column::text("mesh"),
        Column::text("service"),
        Column::number("application", Scale::Cores),
        Column::number("sidecar", Scale::Cores),
        Column::number("application", Scale::Mib),
        Column::number("sidecar", Scale::Mib),
        Column::number("calls per day and vCPU", Scale::Amount),
    ];
    let services = summary.path.iter().flat_map(|p| &p.services);
    let rows = services.filter(|s| s.load == load).map(|s| {
        vec![
            Cell::mesh(summary, &s.mesh),
            Cell::text(s.service.as_deref().unwrap_or("all services")),
            Cell::estimate(&s.application_cores),
            Cell::estimate(&s.sidecar_cores),
            Cell::estimate(&s.application_bytes),
            Cell::estimate(&s.sidecar_bytes),
            Cell::estimate(&s.calls_per_day_and_core),
        ]
    });
    Table::new(words::load_of(summary, load), columns, rows)
}
