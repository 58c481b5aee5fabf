//! Profiles: CPU time by code, files and differences.

use tare_records::summary::{MeshProfile, ProfileDifference};

use crate::profiles::{Row, rows};
use crate::table::{Cell, Column, Scale, Table};

/// CPU time of a plane or a group of code.
fn time(ns: f64, total: bool) -> Cell {
    match ns {
        0.0 => Cell::Absent(""),
        ns if total => Cell::value(ns, None, None),
        ns => Cell::Number(ns),
    }
}

fn column(mesh: &str) -> Column {
    Column::number(mesh, Scale::TenthMicros).without_unit()
}

/// CPU time per request by code, a column for each mesh, of the rows that are `shown`.
pub(crate) fn code_groups(load: &str, meshes: &[&MeshProfile], shown: fn(&Row) -> bool) -> Table {
    let mut columns = vec![Column::text("plane"), Column::text("code")];
    columns.extend(meshes.iter().map(|m| column(&m.mesh)));
    let rows = rows(meshes).into_iter().filter(shown).map(|row| {
        // The plane heads its groups.
        let plane = if row.total { row.plane } else { "" };
        let mut cells = vec![Cell::name(plane), Cell::text(row.code)];
        cells.extend(row.ns.into_iter().map(|ns| time(ns, row.total)));
        cells
    });
    let heading = format!("CPU time per request at {load}, µs");
    Table::new(heading, columns, rows)
}

/// The files of each profile.
pub(crate) fn profile_files(load: &str, meshes: &[&MeshProfile]) -> Table {
    let columns = [
        Column::text("mesh"),
        Column::text("plane"),
        Column::number("samples", Scale::Count),
        Column::text("files"),
    ];
    let rows = meshes.iter().flat_map(|mesh| {
        let planes = mesh.planes.iter().map(|plane| {
            let samples = plane.ns_per_request * mesh.requests as f64 / mesh.period_ns as f64;
            let files = [(&plane.graph, "flame graph"), (&plane.pprof, "pprof")];
            let files = files.map(|(path, name)| (path.clone(), name.to_owned()));
            vec![
                Cell::name(&mesh.mesh),
                Cell::text(plane.plane.words()),
                Cell::Number(samples),
                Cell::Links(files.into()),
            ]
        });
        let file = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or(path);
            (path.clone(), name.to_owned())
        };
        let served = (!mesh.served.is_empty()).then(|| {
            vec![
                Cell::name(&mesh.mesh),
                Cell::text("control plane, as it serves itself"),
                Cell::Absent(""),
                Cell::Links(mesh.served.iter().map(file).collect()),
            ]
        });
        planes.chain(served)
    });
    let heading = format!("Flame graphs and pprof files at {load}");
    Table::new(heading, columns, rows)
}

/// The functions whose CPU time differs most between two meshes.
pub(crate) fn changed_functions(difference: &ProfileDifference) -> Table {
    let columns = [
        Column::text("plane"),
        Column::text("function"),
        column(&difference.reference),
        column(&difference.mesh),
        Column::number("change", Scale::Number),
    ];
    let rows = difference.functions.iter().map(|f| {
        vec![
            Cell::name(f.plane.words()),
            Cell::text(&f.function),
            time(f.reference_ns, false),
            time(f.mesh_ns, false),
            Cell::text(format!("{:+.1}", (f.mesh_ns - f.reference_ns) / 1e3)),
        ]
    });
    Table::new("Own CPU time of functions per request, µs", columns, rows)
}
