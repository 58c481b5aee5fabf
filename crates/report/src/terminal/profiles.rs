//! Profiles: CPU time per request by group of code, and the files.

use tare_plan::Load;
use tare_records::summary::{MeshProfile, Summary};
use tare_records::worker::Plane;

use super::output::{BOLD, DIM, Output};
use crate::profiles::{LIMITS, Row};
use crate::table::text;
use crate::tables;
use crate::text::printable;

/// Meshes beside each other: more are on the page.
const MESHES_MAX: usize = 3;
/// Loads whose tables are shown: more are on the page.
const LOADS_MAX: usize = 2;
/// Differences whose graphs are listed.
const DIFFERENCES_MAX: usize = 6;

/// Writes the profiles of a run that has some.
pub(super) fn write(out: &mut Output, summary: &Summary) {
    let Some(profiles) = &summary.profiles else {
        return;
    };
    let profiled = |load: &&Load| profiles.meshes.iter().any(|m| m.load == load.name);
    for load in summary.setup.loads.iter().filter(profiled).take(LOADS_MAX) {
        let all = profiles.meshes.iter().filter(|m| m.load == load.name);
        let meshes: Vec<&MeshProfile> = all.take(MESHES_MAX).collect();
        // The groups of other planes are on the page.
        let shown = |row: &Row| row.total || row.plane == Plane::DataPlane.words();
        let table = tables::code_groups(&load.name, &meshes, shown);
        out.painted(BOLD, &printable(&format!("Profiles: {}", table.heading)));
        text::write(out, &table);
        out.line("");
    }
    for difference in profiles.differences.iter().take(DIFFERENCES_MAX) {
        out.line(&printable(&format!(
            "what {} adds to {}: {}",
            difference.mesh, difference.reference, difference.graph
        )));
    }
    out.line("all flame graphs and pprof files: profiles/; report: section Profiles");
    for words in LIMITS {
        out.wrapped(DIM, words, "", "");
    }
    for limit in &profiles.limits {
        out.wrapped(DIM, &format!("Note: {limit}."), "", "");
    }
    out.line("");
}
