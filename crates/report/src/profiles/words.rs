//! Rows and sentences of profiles, the same in page and terminal.

use std::collections::BTreeMap;

use tare_records::summary::{CodeGroup, MeshProfile};
use tare_records::worker::Plane;

/// What every reader of a profile must know.
pub(crate) const LIMITS: [&str; 3] = [
    "Each mesh has one profile trial: a small difference can be chance, as can one on a disturbed machine.",
    "Stacks of programs follow frame pointers. A program that was compiled without them has shallow stacks, \
     and one without symbols shows only its file name. Stacks of the kernel are always complete.",
    "A clock event takes the samples. In a virtual machine it does not see code that runs with interrupts \
     off: that time appears where interrupts are switched on again.",
];

/// A row of the table of groups.
pub(crate) struct Row {
    pub(crate) plane: &'static str,
    /// The group; of the first row of a plane, `all`.
    pub(crate) code: String,
    /// Whether it is the sum of the plane.
    pub(crate) total: bool,
    /// Nanoseconds per request with each mesh.
    pub(crate) ns: Vec<f64>,
}

/// Nanoseconds per request of each group with each mesh.
type Groups<'a> = BTreeMap<&'a CodeGroup, Vec<f64>>;

/// The rows of these meshes: each plane with its groups.
pub(crate) fn rows(meshes: &[&MeshProfile]) -> Vec<Row> {
    let mut planes: BTreeMap<Plane, (Vec<f64>, Groups<'_>)> = BTreeMap::new();
    let none = || vec![0.0; meshes.len()];
    for (column, mesh) in meshes.iter().enumerate() {
        for plane in &mesh.planes {
            let entry = planes.entry(plane.plane);
            let (total, groups) = entry.or_insert_with(|| (none(), BTreeMap::new()));
            total[column] = plane.ns_per_request;
            for group in &plane.groups {
                groups.entry(&group.group).or_insert_with(none)[column] = group.ns_per_request;
            }
        }
    }
    let mut rows = Vec::new();
    for (plane, (ns, groups)) in planes {
        let plane = plane.words();
        let code = "all".to_owned();
        let total = true;
        rows.push(Row {
            plane,
            code,
            total,
            ns,
        });
        rows.extend(groups.into_iter().map(|(group, ns)| Row {
            plane,
            code: group.words(),
            total: false,
            ns,
        }));
    }
    rows
}
