//! CPU, memory and cost.

use tare_plan::Figure;
use tare_records::summary::{Cell as MeshCell, Estimate, Summary};
use tare_records::trial::MemoryKind;
use tare_records::worker::Plane;

use super::of_load;
use crate::table::{Cell, Column, Mark, Scale, Table};
use crate::words;

/// What each plane of each mesh used; of all planes, or of one.
pub(crate) fn resources(summary: &Summary, load: &str, only: Option<Plane>) -> Table {
    let columns = [
        Column::text(only.map_or("mesh", Plane::words)),
        Column::text("plane").wide(),
        Column::number("processes", Scale::Count).wide(),
        Column::number("CPU", Scale::Cores),
        Column::number("busiest second", Scale::Cores).wide(),
        Column::number("cores per 1,000 rps", Scale::Cores).without_unit(),
        Column::number("memory", Scale::Mib),
        Column::number("largest", Scale::Mib).wide(),
        Column::text("kind of memory").wide(),
        Column::figure(Figure::Instructions).optional().wide(),
        Column::figure(Figure::Cycles).optional().wide(),
    ];
    let rows = of_load(summary, load).flat_map(|cell| {
        let planes = cell.planes.iter();
        let shown = |plane: Plane| only.map_or(plane != Plane::Tare, |only| plane == only);
        let planes = planes.filter(move |(plane, _)| shown(**plane));
        planes.map(|(plane, p)| {
            vec![
                Cell::mesh(summary, &cell.mesh),
                Cell::text(plane.words()),
                Cell::count(p.processes as u64),
                Cell::estimate(&p.cpu_cores),
                Cell::Number(p.cpu_cores_max),
                Cell::estimate(&p.cpu_cores_per_krps),
                Cell::estimate(&p.memory_bytes),
                Cell::count(p.memory_max_bytes),
                Cell::text(p.memory_kind.map_or("mixed", MemoryKind::words)),
                counted(cell, p.instructions_per_request.as_ref()),
                counted(cell, p.cycles_per_request.as_ref()),
            ]
        })
    });
    Table::new(words::load_of(summary, load), columns, rows)
}

/// A figure of the hardware counters, with the number of trials that have it if not all do.
fn counted(cell: &MeshCell, counts: Option<&Estimate>) -> Cell {
    match counts {
        Some(e) if e.runs.len() != cell.trials_used.len() => {
            let trials = format!("{} of {} trials", e.runs.len(), cell.trials_used.len());
            Cell::value(e.value, None, None).marked(Mark::Nothing, trials)
        }
        counts => Cell::estimate(counts),
    }
}

/// The fixed and the marginal CPU of the proxies; without rows if their idle use was not sampled.
pub(crate) fn proxy_cpu(summary: &Summary) -> Table {
    let columns = [
        Column::text("CPU of proxies"),
        Column::number("proxies", Scale::Count).wide(),
        Column::number("idle", Scale::Cores).wide(),
        Column::number("idle, cores each", Scale::Cores).without_unit(),
        Column::number("per request", Scale::Micros),
        Column::number("hops per request", Scale::Number).wide(),
        Column::number("per hop", Scale::Micros),
    ];
    let rows = summary.proxy_cpu.iter().map(|cpu| {
        vec![
            Cell::mesh(summary, &cpu.mesh),
            Cell::count(cpu.proxies.into()),
            Cell::estimate(&cpu.idle_cores),
            Cell::share(&cpu.idle_cores, f64::from(cpu.proxies.max(1))),
            Cell::estimate(&cpu.request_ns),
            Cell::number(cpu.hops_per_request),
            Cell::estimate(&cpu.hop_ns),
        ]
    });
    Table::new("", columns, rows)
}

/// The cost of each mesh in a month, if the plan has prices.
pub(crate) fn cost(summary: &Summary, load: &str) -> Option<Table> {
    let prices = summary.setup.prices.as_ref()?;
    let money = format!("{} per month", prices.currency);
    let columns = [
        Column::text("cost"),
        Column::number("rate", Scale::Rps),
        Column::number("proxies", Scale::Count),
        Column::number("cores", Scale::Cores).without_unit().brief(),
        Column::number("memory, GiB", Scale::Number).brief(),
        Column::number(money.trim(), Scale::Number),
    ];
    let rows = of_load(summary, load).filter_map(|cell| {
        let cost = cell.cost.as_ref()?;
        Some(vec![
            Cell::mesh(summary, &cell.mesh),
            Cell::Number(cost.rps),
            Cell::Number(cost.proxies),
            Cell::estimate(&cost.cores),
            Cell::estimate(&cost.memory_gib),
            Cell::estimate(&cost.per_month),
        ])
    });
    Table::new(words::load_of(summary, load), columns, rows).if_any()
}
