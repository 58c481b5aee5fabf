//! The capacity of each mesh, or the throughput of closed loops, in place of latencies at a rate.

use tare_analysis::figures;
use tare_plan::{Figure, Load};
use tare_records::summary::{Cell, CellCapacity, Estimate, Summary};

use super::output::{DIM, NAME, Output, PLAIN, estimate};
use super::table::ratio;
use crate::text::fit;
use crate::words;

/// Appends the rows of a load without a rate.
pub(super) fn rows(out: &mut Output, summary: &Summary, load: &Load, cells: &[&Cell]) {
    let closed = load.is_closed();
    let (what, rest) = match closed {
        true => ("throughput, rps", "p50, p99, ms"),
        false => ("capacity, rps", "cores, memory"),
    };
    let head = format!(
        "{:<NAME$}{what:>25}{:>22}  {rest}",
        if closed { "closed loop" } else { "open loop" },
        "ratio to the base",
    );
    out.painted(DIM, &head);
    for cell in cells {
        let rate = match &cell.capacity {
            Some(capacity) => capacity.rate_rps.as_ref(),
            None => cell.throughput_rps.as_ref(),
        };
        let rate = rate.map_or("-".to_owned(), |e| estimate(e, rps));
        let of_pair = summary.comparisons.iter().find(|c| {
            c.load == load.name && c.mesh == cell.mesh && c.reference == summary.baseline
        });
        let found = of_pair.and_then(|c| {
            c.ratio(Figure::Capacity)
                .or_else(|| c.ratio(Figure::Throughput))
        });
        let rest = match &cell.capacity {
            Some(capacity) => format!("{}, {}", cores(capacity), memory(capacity)),
            None => format!("{}, {}", ms(cell, Figure::P50), ms(cell, Figure::P99)),
        };
        out.line(&format!(
            "{:<NAME$}{rate:>25}{}  {rest}",
            fit(&words::mesh_with_base(summary, &cell.mesh), NAME - 1),
            ratio(out, found),
        ));
    }
    for cell in cells {
        for limit in cell.capacity.iter().flat_map(|c| &c.limits) {
            let line = words::limit(limit, cell.trials_used.len());
            out.wrapped(DIM, &format!("limit of {}: {line}", cell.mesh), "", "  ");
        }
    }
    out.wrapped(PLAIN, &words::without_rate(load, cells), "", "");
}

fn rps(rate: f64) -> String {
    figures::rate(rate).trim_end_matches(" rps").to_owned()
}

fn cores(capacity: &CellCapacity) -> String {
    let cores = capacity.cpu_cores.as_ref();
    cores.map_or("-".to_owned(), |e: &Estimate| figures::cores(e.value))
}

fn memory(capacity: &CellCapacity) -> String {
    let memory = capacity.memory_bytes.as_ref();
    memory.map_or("-".to_owned(), |e| figures::bytes(e.value))
}

fn ms(cell: &Cell, name: Figure) -> String {
    let quantile = cell.supported(name);
    quantile.map_or("-".to_owned(), |q| figures::ms(q.value_ns as f64))
}
