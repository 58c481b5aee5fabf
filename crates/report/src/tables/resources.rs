//! CPU, memory and cost.

use tare_plan::Figure;
use tare_records::summary::{Cell as MeshCell, Estimate, PlaneEstimate, ProxyCpu, Summary};
use tare_records::trial::MemoryKind;
use tare_records::worker::Plane;

use super::of_load;
use crate::table::{Cell, Column, Columns, Mark, Scale, Table};
use crate::words;

/// What each plane of each mesh used; of all planes, or of one.
pub(crate) fn resources(summary: &Summary, load: &str, only: Option<Plane>) -> Table {
    let rows = of_load(summary, load).flat_map(|cell| {
        let planes = cell.planes.iter();
        let shown = |plane: Plane| only.map_or(plane != Plane::Tare, |only| plane == only);
        let planes = planes.filter(move |(plane, _)| shown(**plane));
        planes.map(move |(plane, used)| (cell, *plane, used))
    });
    let cores = |label| Column::number(label, Scale::Cores);
    let memory = |label| Column::number(label, Scale::Mib);
    let counted_column = |figure| Column::figure(figure).optional().wide();
    let kind = |p: &PlaneEstimate| p.memory_kind.map_or("mixed", MemoryKind::words);
    let processes = Column::number("processes", Scale::Count).wide();
    let per_krps = cores("cores per 1,000 rps").without_unit();
    Columns::of(rows)
        .mesh(only.map_or("mesh", Plane::words), summary, |(cell, ..)| {
            &cell.mesh
        })
        .with(Column::text("plane").wide(), |(_, plane, _)| {
            Cell::text(plane.words())
        })
        .count(processes, |(.., p)| p.processes.into())
        .estimate(cores("CPU"), |(.., p)| Some(&p.cpu_cores))
        .with(cores("busiest second").wide(), |(.., p)| {
            Cell::Number(p.cpu_cores_max)
        })
        .estimate(per_krps, |(.., p)| p.cpu_cores_per_krps.as_ref())
        .estimate(memory("memory"), |(.., p)| Some(&p.memory_bytes))
        .count(memory("largest").wide(), |(.., p)| p.memory_max_bytes)
        .with(Column::text("kind of memory").wide(), |(.., p)| {
            Cell::text(kind(p))
        })
        .with(counted_column(Figure::Instructions), |(cell, _, p)| {
            counted(cell, p.instructions_per_request.as_ref())
        })
        .with(counted_column(Figure::Cycles), |(cell, _, p)| {
            counted(cell, p.cycles_per_request.as_ref())
        })
        .table(words::load_of(summary, load))
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
    let cores = |label| Column::number(label, Scale::Cores);
    let micros = |label| Column::number(label, Scale::Micros);
    let hops = Column::number("hops per request", Scale::Number).wide();
    let each = |cpu: &ProxyCpu| Cell::share(&cpu.idle_cores, f64::from(cpu.proxies.max(1)));
    Columns::of(&summary.proxy_cpu)
        .mesh("CPU of proxies", summary, |cpu| &cpu.mesh)
        .count(Column::number("proxies", Scale::Count).wide(), |cpu| {
            cpu.proxies.into()
        })
        .estimate(cores("idle").wide(), |cpu| Some(&cpu.idle_cores))
        .with(cores("idle, cores each").without_unit(), |cpu| each(cpu))
        .estimate(micros("per request"), |cpu| Some(&cpu.request_ns))
        .with(hops, |cpu| Cell::number(cpu.hops_per_request))
        .estimate(micros("per hop"), |cpu| cpu.hop_ns.as_ref())
        .table("")
}

/// The cost of each mesh in a month, if the plan has prices.
pub(crate) fn cost(summary: &Summary, load: &str) -> Option<Table> {
    let prices = summary.setup.prices.as_ref()?;
    let money = format!("{} per month", prices.currency);
    let proxies = Column::number("proxies", Scale::Count);
    let cores = Column::number("cores", Scale::Cores).without_unit();
    let memory = Column::number("memory, GiB", Scale::Number);
    Columns::of(of_load(summary, load).filter_map(|cell| Some((cell, cell.cost.as_ref()?))))
        .mesh("cost", summary, |(cell, _)| &cell.mesh)
        .with(Column::number("rate", Scale::Rps), |(_, cost)| {
            Cell::Number(cost.rps)
        })
        .with(proxies, |(_, cost)| Cell::Number(cost.proxies))
        .estimate(cores.brief(), |(_, cost)| Some(&cost.cores))
        .estimate(memory.brief(), |(_, cost)| Some(&cost.memory_gib))
        .estimate(Column::number(money.trim(), Scale::Number), |(_, cost)| {
            Some(&cost.per_month)
        })
        .table(words::load_of(summary, load))
        .if_any()
}
