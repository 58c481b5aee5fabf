//! On which terms the proxies of each mesh worked.

use std::collections::BTreeSet;

use tare_plan::mesh::{Mesh, Mtls};
use tare_records::summary::{MeshTrials, Summary};

use crate::table::{Cell, Column, Columns, Table};

/// Begins the names of counts, which differ in any case.
const COUNTS: &str = "open ";

/// The terms of each mesh whose proxies were looked at. Empty if none were.
pub(crate) fn terms(summary: &Summary) -> Table {
    let meshes = || with_terms(summary);
    let names: BTreeSet<&String> = meshes().flat_map(|m| m.terms.keys()).collect();
    // Those that are counted come last.
    let (counts, others): (Vec<&String>, Vec<&String>) =
        names.into_iter().partition(|n| n.starts_with(COUNTS));
    let mut columns = Columns::of(meshes()).mesh("mesh", summary, |m| &m.mesh);
    for name in others.into_iter().chain(counts) {
        columns = columns.with(Column::notes(name), |m| match m.terms.get(name) {
            Some(value) => Cell::words(value),
            None => Cell::Absent(""),
        });
    }
    columns.table("")
}

/// A sentence about the terms that differ between meshes of different proxies with the same setting of TLS; `None` if there are
/// none.
pub(crate) fn differing(summary: &Summary) -> Option<String> {
    let mut found = BTreeSet::new();
    for mode in [Mtls::Off, Mtls::Strict] {
        let meshes = summary.setup.meshes.iter();
        let meshes: Vec<&Mesh> = meshes.filter(|m| m.settings.mtls == mode).collect();
        let of = |mesh: &Mesh| with_terms(summary).find(|m| m.mesh == mesh.name);
        let compared = meshes
            .iter()
            .filter_map(|mesh| Some((program(mesh), of(mesh)?)));
        let compared: Vec<(&str, &MeshTrials)> = compared.collect();
        let programs: BTreeSet<&str> = compared.iter().map(|(program, _)| *program).collect();
        if programs.len() < 2 {
            continue;
        }
        let names = compared.iter().flat_map(|(_, m)| m.terms.keys());
        found.extend(names.filter(|name| {
            let values = compared.iter().map(|(_, m)| m.terms.get(*name));
            values.collect::<BTreeSet<_>>().len() > 1 && !name.starts_with(COUNTS)
        }));
    }
    let listed: Vec<&str> = found.into_iter().map(String::as_str).collect();
    (!listed.is_empty()).then(|| {
        let listed = listed.join(", ");
        format!("The proxies do not work on equal terms. These differ: {listed}. The setup in the report lists them.")
    })
}

fn program(mesh: &Mesh) -> &str {
    mesh.proxy.as_ref().map_or("envoy", |p| p.program())
}

fn with_terms(summary: &Summary) -> impl Iterator<Item = &MeshTrials> {
    let meshes = summary.mesh_trials.iter();
    meshes.filter(|m| !m.terms.is_empty())
}
