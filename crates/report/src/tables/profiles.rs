//! Profiles: CPU time by code, files and differences.

use tare_records::summary::{MeshProfile, ProfileDifference};

use crate::profiles::{Row, rows};
use crate::table::{Cell, Column, Columns, Scale, Table};

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
    // The plane heads its groups.
    let plane = |row: &Row| Cell::name(if row.total { row.plane } else { "" });
    let of_mesh = |i: usize| column(&meshes[i].mesh);
    Columns::of(rows(meshes).into_iter().filter(shown))
        .with(Column::text("plane"), plane)
        .with(Column::text("code"), |row| Cell::text(&row.code))
        .each(0..meshes.len(), of_mesh, |row, i| {
            time(row.ns[i], row.total)
        })
        .table(format!("CPU time per request at {load}, µs"))
}

/// The files of each profile.
pub(crate) fn profile_files(load: &str, meshes: &[&MeshProfile]) -> Table {
    let rows = meshes.iter().flat_map(|mesh| {
        let planes = mesh.planes.iter().map(move |plane| {
            let samples = plane.ns_per_request * mesh.requests as f64 / mesh.period_ns as f64;
            let files = [(&plane.graph, "flame graph"), (&plane.pprof, "pprof")];
            let files = files.map(|(path, name)| (path.clone(), name.to_owned()));
            (mesh, plane.plane.words(), Some(samples), files.to_vec())
        });
        let file = |path: &String| {
            let name = path.rsplit('/').next().unwrap_or(path);
            (path.clone(), name.to_owned())
        };
        let served = (!mesh.served.is_empty()).then(|| {
            let files = mesh.served.iter().map(file).collect();
            (mesh, "control plane, as it serves itself", None, files)
        });
        planes.chain(served)
    });
    Columns::of(rows)
        .with(Column::text("mesh"), |(mesh, ..)| Cell::name(&mesh.mesh))
        .with(Column::text("plane"), |(_, plane, ..)| Cell::text(*plane))
        .with(
            Column::number("samples", Scale::Count),
            |(.., samples, _)| Cell::number(*samples),
        )
        .with(Column::text("files"), |(.., files)| {
            Cell::Links(files.clone())
        })
        .table(format!("Flame graphs and pprof files at {load}"))
}

/// The functions whose CPU time differs most between two meshes.
pub(crate) fn changed_functions(difference: &ProfileDifference) -> Table {
    let change = |ns: f64| Cell::text(format!("{:+.1}", ns / 1e3));
    Columns::of(&difference.functions)
        .with(Column::text("plane"), |f| Cell::name(f.plane.words()))
        .with(Column::text("function"), |f| Cell::text(&f.function))
        .with(column(&difference.reference), |f| {
            time(f.reference_ns, false)
        })
        .with(column(&difference.mesh), |f| time(f.mesh_ns, false))
        .with(Column::number("change", Scale::Number), |f| {
            change(f.mesh_ns - f.reference_ns)
        })
        .table("Own CPU time of functions per request, µs")
}
