//! The stacks of two meshes side by side, per request of the load.

use std::collections::BTreeMap;

use tare_records::summary::FunctionChange;
use tare_records::worker::Plane;

use super::fold::{Folded, label};

/// Number of functions that are listed.
const FUNCTIONS_MAX: usize = 12;

/// The stacks of a reference and a mesh, all planes together.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The plane and the labels of the frames, from the outermost function inwards, with the CPU time per
    /// request of the load in nanoseconds: with the reference, and with the mesh.
    pub stacks: BTreeMap<(Plane, Vec<String>), [f64; 2]>,
}

impl Difference {
    pub(super) fn new<'a>(
        reference: impl Iterator<Item = (Plane, &'a Folded)>,
        mesh: impl Iterator<Item = (Plane, &'a Folded)>,
    ) -> Self {
        let mut stacks: BTreeMap<(Plane, Vec<String>), [f64; 2]> = BTreeMap::new();
        let both = reference.map(|p| (0, p)).chain(mesh.map(|p| (1, p)));
        for (side, (plane, folded)) in both {
            for (stack, samples) in &folded.stacks {
                let labels = stack.iter().map(label).collect();
                let times = stacks.entry((plane, labels)).or_default();
                times[side] += *samples as f64 * folded.weight_ns;
            }
        }
        Self { stacks }
    }

    /// The functions whose own time changed most.
    pub(super) fn functions(&self) -> Vec<FunctionChange> {
        let mut own: BTreeMap<(Plane, &str), [f64; 2]> = BTreeMap::new();
        for ((plane, stack), times) in &self.stacks {
            if let Some(innermost) = stack.last() {
                let sums = own.entry((*plane, innermost)).or_default();
                sums[0] += times[0];
                sums[1] += times[1];
            }
        }
        let mut functions: Vec<FunctionChange> = own
            .into_iter()
            .map(
                |((plane, function), [reference_ns, mesh_ns])| FunctionChange {
                    plane,
                    function: function.to_owned(),
                    reference_ns,
                    mesh_ns,
                },
            )
            .collect();
        let change = |f: &FunctionChange| (f.mesh_ns - f.reference_ns).abs();
        functions.sort_by(|a, b| change(b).total_cmp(&change(a)));
        functions.truncate(FUNCTIONS_MAX);
        functions
    }
}
