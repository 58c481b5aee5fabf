//! The control plane under loads with churn.

use tare_plan::Figure;
use tare_records::summary::{Cell as MeshCell, CellChurn, Summary};
use tare_records::worker::Plane;

use crate::churn_words;
use crate::table::{Cell, Column, Scale, Table};

/// The figures of each mesh under each load with churn.
pub(crate) fn churn(summary: &Summary) -> Table {
    let seconds = |label| Column::number(label, Scale::Seconds).optional();
    let columns = [
        Column::text("mesh"),
        Column::text("load"),
        seconds("arrival"),
        seconds("slowest arrival"),
        Column::number("not arrived", Scale::Count).optional(),
        Column::number("failed requests", Scale::Count).optional(),
        Column::number("changes stored", Scale::Percent).optional(),
        Column::figure(Figure::PodReady).optional(),
        seconds("pod later by"),
        seconds("mesh ready"),
        Column::number("CPU", Scale::Cores).optional(),
        Column::number("memory", Scale::Mib).optional(),
        Column::notes("counted by the control plane"),
    ];
    let cells = churn_words::cells(summary).into_iter();
    let rows = cells.map(|(cell, churn)| row(summary, cell, churn));
    Table::new("", columns, rows)
}

fn row(summary: &Summary, cell: &MeshCell, churn: &CellChurn) -> Vec<Cell> {
    let control = cell.planes.get(&Plane::ControlPlane);
    let part = |part: u64, of: u64| match of {
        0 => Cell::Absent(""),
        _ => Cell::text(format!("{part} of {of}")),
    };
    let switches = u64::from(churn.arrived + churn.unseen);
    vec![
        Cell::mesh(summary, &cell.mesh),
        Cell::text(churn_words::heading(churn)),
        Cell::estimate(&churn.convergence_ns),
        Cell::number(churn.convergence_max_ns.map(|ns| ns as f64)),
        part(u64::from(churn.unseen), switches),
        part(churn.failed, churn.requests),
        Cell::number(churn.written_share),
        Cell::estimate(&churn.pod_ready_ns),
        Cell::estimate(&churn.pod_ready_added_ns),
        Cell::estimate(&churn.mesh_ready_ns),
        Cell::estimate(control.map(|p| &p.cpu_cores)),
        Cell::estimate(control.map(|p| &p.memory_bytes)),
        Cell::words(churn_words::metrics(churn)),
    ]
}
