//! The tables of all outputs: a function for each question.

mod capacity;
mod churn;
mod comparison;
mod instrument;
mod latency;
mod path;
mod prices;
mod profiles;
mod published;
mod ratios;
mod resources;
mod sweep;
mod terms;
mod trials;

pub(crate) use capacity::{overloads, without_rate};
pub(crate) use churn::churn;
pub(crate) use comparison::{changes, gate};
pub(crate) use instrument::{core_to_core, instrument, tls};
pub(crate) use latency::{endpoints, latency, pooled};
pub(crate) use path::{edges, parts, services};
pub(crate) use prices::{features, proofs};
pub(crate) use profiles::{changed_functions, code_groups, profile_files};
pub(crate) use published::{by_method, of_method, publication};
pub(crate) use ratios::{ratios, statistics};
pub(crate) use resources::{cost, proxy_cpu, resources};
pub(crate) use sweep::{fits, points};
pub(crate) use terms::{differing, terms};
pub(crate) use trials::trials;

use tare_plan::Figure;
use tare_records::summary::{Cell as MeshCell, Percentile, Summary};

use crate::table::{Cell, TOO_FEW};

/// The meshes under a load.
fn of_load<'a>(summary: &'a Summary, load: &'a str) -> impl Iterator<Item = &'a MeshCell> {
    summary.cells.iter().filter(move |c| c.load == load)
}

/// The percentile of the typical run with its ends, or a dash without enough responses.
fn typical(cell: &MeshCell, name: Figure) -> Cell {
    let found = cell.supported(name);
    Cell::nanoseconds(found.map(|q| (q.value_ns, q.low_ns, q.high_ns)))
}

/// A percentile, or a dash without enough responses.
fn percentile(percentiles: &[Percentile], name: Figure) -> Cell {
    let found = percentiles.iter().find(|p| p.name == name && p.supported);
    found.map_or(Cell::Absent(TOO_FEW), |p| match p.value_ns {
        Some(ns) => Cell::count(ns),
        None => Cell::text("timeout"),
    })
}
