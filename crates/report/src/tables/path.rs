//! Where in the path of a request a mesh costs time, CPU and memory.

use tare_plan::Figure;
use tare_records::summary::Summary;
use tare_records::summary::path::{Decomposition, PathEdge, PathPart};

use crate::table::{Cell, Column, Columns, Scale, Table};
use crate::words;

/// The percentiles of a part.
const PERCENTILES: [Figure; 3] = [Figure::P50, Figure::P90, Figure::P99];

/// What the sides of a call add to the latency of a request.
pub(crate) fn parts(summary: &Summary, d: &Decomposition) -> Table {
    let added = |figure: Figure| Column::number(figure.label(), Scale::AddedMs).without_unit();
    let percentile_column = |figure| match figure {
        Figure::P90 => added(figure).wide(),
        _ => added(figure).brief(),
    };
    let percentile = |part: &PathPart, name| {
        let found = part.percentiles.iter().find(|p| p.name == name);
        Cell::estimate(found.map(|p| &p.ns))
    };
    let mesh = |part: &PathPart| {
        let mesh = part.mesh.as_ref();
        mesh.map_or(Cell::Absent(""), |mesh| Cell::mesh(summary, mesh))
    };
    let load = words::load_of(summary, &d.load);
    Columns::of(&d.parts)
        .with(Column::text("added, ms"), |p| Cell::name(p.part.words()))
        .with(Column::text("mesh").wide(), |p| mesh(p))
        .estimate(added(Figure::Mean), |p| Some(&p.mean_ns))
        .each(PERCENTILES, percentile_column, |p, name| {
            percentile(p, name)
        })
        .table(format!("Added to the latency of a request, {load}"))
}

/// Calls between services.
pub(crate) fn edges<'a>(
    summary: &Summary,
    heading: String,
    edges: impl IntoIterator<Item = &'a PathEdge>,
) -> Table {
    let time = |label| Column::number(label, Scale::Micros).wide();
    let added = |label| Column::number(label, Scale::AddedMs);
    let calls = Column::number("calls per request", Scale::Number);
    let ends = |edge: &PathEdge| Cell::text(format!("{} to {}", edge.from, edge.to));
    Columns::of(edges)
        .with(Column::text("mesh").wide(), |e| {
            Cell::mesh(summary, &e.mesh)
        })
        .with(Column::text("caller to callee"), |e| ends(e))
        .with(calls, |e| Cell::Number(e.calls_per_request))
        .with(time("caller p50"), |e| Cell::number(e.caller.p50))
        .with(time("caller p99"), |e| Cell::number(e.caller.p99))
        .with(time("callee p50"), |e| Cell::number(e.callee.p50))
        .with(time("callee p99"), |e| Cell::number(e.callee.p99))
        .estimate(time("between, mean"), |e| Some(&e.between_ns))
        .estimate(added("added, mean"), |e| e.added_ns.as_ref())
        .estimate(added("added, p50").brief(), |e| e.added_p50_ns.as_ref())
        .table(heading)
}

/// CPU and memory of each service.
pub(crate) fn services(summary: &Summary, load: &str) -> Table {
    let services = summary.path.iter().flat_map(|p| &p.services);
    let cores = |label| Column::number(label, Scale::Cores);
    let memory = |label| Column::number(label, Scale::Mib);
    let calls = Column::number("calls per day and vCPU", Scale::Amount);
    let name = |service: Option<&str>| Cell::text(service.unwrap_or("all services"));
    Columns::of(services.filter(|s| s.load == load))
        .mesh("mesh", summary, |s| &s.mesh)
        .with(Column::text("service"), |s| name(s.service.as_deref()))
        .estimate(cores("application"), |s| Some(&s.application_cores))
        .estimate(cores("sidecar"), |s| s.sidecar_cores.as_ref())
        .estimate(memory("application"), |s| Some(&s.application_bytes))
        .estimate(memory("sidecar"), |s| s.sidecar_bytes.as_ref())
        .estimate(calls, |s| s.calls_per_day_and_core.as_ref())
        .table(words::load_of(summary, load))
}
