//! The capacity of each mesh, the throughput of closed loops, and what is left of it in an overload.

use tare_analysis::summary::recovery_words;
use tare_plan::{Figure, Load};
use tare_records::summary::{Cell as MeshCell, CellCapacity, CellOverload, Estimate, Summary};

use super::{of_load, typical};
use crate::table::{Bar, Cell, Column, Columns, Scale, Table};
use crate::words;

/// The rates of a load without a rate of its own.
pub(crate) fn without_rate(summary: &Summary, load: &Load) -> Table {
    match load.is_closed() {
        true => closed_loop(summary, load),
        false => capacity(summary, load),
    }
}

fn capacity(summary: &Summary, load: &Load) -> Table {
    let rate = |cell: &MeshCell| cell.capacity.as_ref()?.rate_rps.clone();
    let limits = |cell: &MeshCell, capacity: Option<&CellCapacity>| {
        let limits = capacity.iter().flat_map(|c| &c.limits);
        let limits = limits.map(|limit| words::limit(limit, cell.trials_used.len()));
        Cell::words(limits.collect::<Vec<_>>().join("; "))
    };
    let cores = Column::number("CPU", Scale::Cores).brief();
    let memory = Column::number("memory", Scale::Mib).brief();
    Columns::of(of_load(summary, &load.name).map(|cell| (cell, cell.capacity.as_ref())))
        .mesh("open loop", summary, |(c, _)| &c.mesh)
        .with(Column::figure(Figure::Capacity), |(c, _)| {
            bar(summary, c, rate)
        })
        .with(over(summary), |(c, _)| ratio(summary, c, Figure::Capacity))
        .with(Column::notes("limit"), |(c, found)| limits(c, *found))
        .estimate(cores, |(_, found)| found.and_then(|c| c.cpu_cores.as_ref()))
        .estimate(memory, |(_, found)| {
            found.and_then(|c| c.memory_bytes.as_ref())
        })
        .table("Capacity")
}

fn closed_loop(summary: &Summary, load: &Load) -> Table {
    let rate = |cell: &MeshCell| cell.throughput_rps.clone();
    let percentile = |figure| Column::figure(figure).brief();
    let failed = Column::number("failed", Scale::Count).wide();
    Columns::of(of_load(summary, &load.name))
        .mesh("closed loop", summary, |c| &c.mesh)
        .with(Column::figure(Figure::Throughput), |c| {
            bar(summary, c, rate)
        })
        .with(over(summary), |c| ratio(summary, c, Figure::Throughput))
        .each([Figure::P50, Figure::P99], percentile, |c, figure| {
            typical(c, figure)
        })
        .count(failed, |c| c.counts.planned - c.counts.ok)
        .table(format!("Closed loop of {}", load.users()))
}

fn over(summary: &Summary) -> Column {
    Column::number(format!("over {}", summary.baseline), Scale::Ratio)
}

/// The ratio of a rate to that of the baseline.
fn ratio(summary: &Summary, cell: &MeshCell, what: Figure) -> Cell {
    let mut pairs = summary.comparisons.iter();
    let pair = pairs
        .find(|c| c.load == cell.load && c.mesh == cell.mesh && c.reference == summary.baseline);
    Cell::ratio(pair.and_then(|c| c.ratio(what)), |r| {
        r.outcome.words().to_owned()
    })
}

/// A rate beside those of the other meshes.
fn bar(summary: &Summary, cell: &MeshCell, rate: impl Fn(&MeshCell) -> Option<Estimate>) -> Cell {
    let values = of_load(summary, &cell.load).filter_map(&rate);
    let most = values.map(|e| e.value).fold(0.0, f64::max);
    let found = rate(cell);
    let bar = Bar {
        colour: words::colour_of(summary, &cell.mesh),
        length: found.as_ref().map_or(0.0, |e| e.value / most),
        of: None,
    };
    Cell::estimate(found.as_ref()).with_bar(bar)
}

/// The meshes beyond the capacity: a table for each capacity that the rates are a share of.
pub(crate) fn overloads(summary: &Summary) -> Vec<Table> {
    let tables = words::overloads(summary).into_iter();
    let table = |(heading, overloads): (&str, Vec<words::MeshOverload<'_>>)| {
        overload(summary, heading, &overloads)
    };
    tables.map(table).collect()
}

fn overload(summary: &Summary, heading: &str, overloads: &[words::MeshOverload<'_>]) -> Table {
    let rates = overloads.iter().map(|(_, o)| o.rate_rps);
    let most = rates.fold(0.0, f64::max);
    let goodput = |mesh: &str, overload: &CellOverload| {
        let goodput = overload.goodput_rps.as_ref();
        Cell::estimate(goodput).with_bar(Bar {
            colour: words::colour_of(summary, mesh),
            length: goodput.map_or(0.0, |e| e.value / most),
            of: Some(overload.rate_rps / most),
        })
    };
    let failed = Column::number("failed", Scale::Percent).brief();
    Columns::of(overloads)
        .mesh("mesh", summary, |(mesh, _)| mesh)
        .count(Column::number("load, %", Scale::Count), |(_, o)| {
            o.percent.into()
        })
        .with(Column::number("offered", Scale::Rps), |(_, o)| {
            Cell::Number(o.rate_rps)
        })
        .with(Column::figure(Figure::Goodput), |(mesh, o)| {
            goodput(mesh, o)
        })
        .estimate(failed, |(_, o)| o.failed_share.as_ref())
        .estimate(Column::figure(Figure::P50).wide(), |(_, o)| {
            o.p50_ns.as_ref()
        })
        .estimate(Column::figure(Figure::P99).brief(), |(_, o)| {
            o.p99_ns.as_ref()
        })
        .with(Column::text("recovery"), |(_, o)| {
            Cell::text(recovery_words(o))
        })
        .table(heading)
}
