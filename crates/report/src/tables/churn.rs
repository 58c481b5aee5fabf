//! The control plane under loads with churn.

use tare_plan::Figure;
use tare_records::summary::{Cell as MeshCell, CellChurn, PlaneEstimate, Summary};
use tare_records::worker::Plane;

use crate::churn_words;
use crate::table::{Cell, Column, Columns, Scale, Table};

/// The figures of each mesh under each load with churn.
pub(crate) fn churn(summary: &Summary) -> Table {
    let seconds = |label| Column::number(label, Scale::Seconds).optional();
    let count = |label| Column::number(label, Scale::Count).optional();
    let share = Column::number("changes stored", Scale::Percent).optional();
    let cpu = Column::number("CPU", Scale::Cores).optional();
    let memory = Column::number("memory", Scale::Mib).optional();
    let metrics = Column::notes("counted by the control plane");
    let longest = |churn: &CellChurn| churn.convergence_max_ns.map(|ns| ns as f64);
    Columns::of(churn_words::cells(summary))
        .mesh("mesh", summary, |(cell, _)| &cell.mesh)
        .with(Column::text("load"), |(_, c)| {
            Cell::text(churn_words::heading(c))
        })
        .estimate(seconds("arrival"), |(_, c)| c.convergence_ns.as_ref())
        .with(seconds("slowest arrival"), |(_, c)| {
            Cell::number(longest(c))
        })
        .with(count("not arrived"), |(_, c)| {
            part(c.unseen.into(), (c.arrived + c.unseen).into())
        })
        .with(count("failed requests"), |(_, c)| {
            part(c.failed, c.requests)
        })
        .with(share, |(_, c)| Cell::number(c.written_share))
        .estimate(Column::figure(Figure::PodReady).optional(), |(_, c)| {
            c.pod_ready_ns.as_ref()
        })
        .estimate(seconds("pod later by"), |(_, c)| {
            c.pod_ready_added_ns.as_ref()
        })
        .estimate(seconds("mesh ready"), |(_, c)| c.mesh_ready_ns.as_ref())
        .estimate(cpu, |(cell, _)| control(cell).map(|p| &p.cpu_cores))
        .estimate(memory, |(cell, _)| control(cell).map(|p| &p.memory_bytes))
        .with(metrics, |(_, c)| Cell::words(churn_words::metrics(c)))
        .table("")
}

fn control(cell: &MeshCell) -> Option<&PlaneEstimate> {
    cell.planes.get(&Plane::ControlPlane)
}

/// A part of a number, or a dash if that is 0.
fn part(part: u64, of: u64) -> Cell {
    match of {
        0 => Cell::Absent(""),
        _ => Cell::text(format!("{part} of {of}")),
    }
}
