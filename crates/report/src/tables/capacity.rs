//! The capacity of each mesh, the throughput of closed loops, and what is left of it in an overload.

use tare_analysis::summary::recovery_words;
use tare_plan::{Figure, Load};
use tare_records::summary::{Cell as MeshCell, Estimate, Summary};

use super::of_load;
use crate::table::{Bar, Cell, Column, Scale, Table};
use crate::words;

/// The rates of a load without a rate of its own.
pub(crate) fn without_rate(summary: &Summary, load: &Load) -> Table {
    match load.is_closed() {
        true => closed_loop(summary, load),
        false => capacity(summary, load),
    }
}

fn capacity(summary: &Summary, load: &Load) -> Table {
    let columns = [
        Column::text("open loop"),
        Column::figure(Figure::Capacity),
        over(summary),
        Column::notes("limit"),
        Column::number("CPU", Scale::Cores).brief(),
        Column::number("memory", Scale::Mib).brief(),
    ];
    let rate = |cell: &MeshCell| cell.capacity.as_ref()?.rate_rps.clone();
    let rows = of_load(summary, &load.name).map(|cell| {
        let capacity = cell.capacity.as_ref();
        let limits = capacity.iter().flat_map(|c| &c.limits);
        let limits = limits.map(|limit| words::limit(limit, cell.trials_used.len()));
        vec![
            Cell::mesh(summary, &cell.mesh),
            bar(summary, cell, rate),
            ratio(summary, cell, Figure::Capacity),
            Cell::words(limits.collect::<Vec<_>>().join("; ")),
            Cell::estimate(capacity.and_then(|c| c.cpu_cores.as_ref())),
            Cell::estimate(capacity.and_then(|c| c.memory_bytes.as_ref())),
        ]
    });
    Table::new("Capacity", columns, rows)
}

fn closed_loop(summary: &Summary, load: &Load) -> Table {
    let columns = [
        Column::text("closed loop"),
        Column::figure(Figure::Throughput),
        over(summary),
        Column::figure(Figure::P50).brief(),
        Column::figure(Figure::P99).brief(),
        Column::number("failed", Scale::Count).wide(),
    ];
    let rows = of_load(summary, &load.name).map(|cell| {
        let quantile = |name| {
            let found = cell.supported(name);
            Cell::nanoseconds(found.map(|q| (q.value_ns, q.low_ns, q.high_ns)))
        };
        vec![
            Cell::mesh(summary, &cell.mesh),
            bar(summary, cell, |cell| cell.throughput_rps.clone()),
            ratio(summary, cell, Figure::Throughput),
            quantile(Figure::P50),
            quantile(Figure::P99),
            Cell::count(cell.counts.planned - cell.counts.ok),
        ]
    });
    let heading = format!("Closed loop of {}", load.users());
    Table::new(heading, columns, rows)
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
    let columns = [
        Column::text("mesh"),
        Column::number("load, %", Scale::Count),
        Column::number("offered", Scale::Rps),
        Column::figure(Figure::Goodput),
        Column::number("failed", Scale::Percent).brief(),
        Column::figure(Figure::P50).wide(),
        Column::figure(Figure::P99).brief(),
        Column::text("recovery"),
    ];
    let tables = words::overloads(summary).into_iter();
    let table = |(heading, overloads): (&str, Vec<words::MeshOverload<'_>>)| {
        let rates = overloads.iter().map(|(_, o)| o.rate_rps);
        let most = rates.fold(0.0, f64::max);
        let row = |(mesh, overload): &words::MeshOverload<'_>| {
            let goodput = overload.goodput_rps.as_ref();
            let bar = Bar {
                colour: words::colour_of(summary, mesh),
                length: goodput.map_or(0.0, |e| e.value / most),
                of: Some(overload.rate_rps / most),
            };
            vec![
                Cell::mesh(summary, mesh),
                Cell::count(overload.percent.into()),
                Cell::Number(overload.rate_rps),
                Cell::estimate(goodput).with_bar(bar),
                Cell::estimate(&overload.failed_share),
                Cell::estimate(&overload.p50_ns),
                Cell::estimate(&overload.p99_ns),
                Cell::text(recovery_words(overload)),
            ]
        };
        let rows: Vec<Vec<Cell>> = overloads.iter().map(row).collect();
        Table::new(heading, columns.clone(), rows)
    };
    tables.map(table).collect()
}
