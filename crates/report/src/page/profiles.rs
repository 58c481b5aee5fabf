//! Profiles: CPU time per request by group of code, links to flame graphs, and differences.

use tare_records::summary::{MeshProfile, ProfileDifference, Summary};

use super::html::Html;
use super::parts::{caption, open_section, table};
use super::stack::{self, Bar, Stack};
use crate::profiles::{LIMITS, rows};
use crate::table::Scale;
use crate::table::html::link;
use crate::tables;

/// Appends the section of a run with profile trials.
pub(super) fn section(page: &mut Html, summary: &Summary) {
    let Some(profiles) = &summary.profiles else {
        return;
    };
    open_section(page, "profiles", "Profiles");
    caption(
        page,
        "CPU time per request of the load, in microseconds, by the code that ran: samples of the profile \
         trials, which ran after the measured trials and are in no other figure.",
    );
    for load in &summary.setup.loads {
        let meshes: Vec<&MeshProfile> = profiles
            .meshes
            .iter()
            .filter(|m| m.load == load.name)
            .collect();
        if !meshes.is_empty() {
            page.tag("h3", &format!("CPU time per request at {}", load.name))
                .raw("\n");
            stack::write(page, &picture(&meshes));
            page.raw("<details class=\"figures\"><summary>Figures</summary>\n");
            table(page, &tables::code_groups(&load.name, &meshes, |_| true));
            page.raw("</details>\n");
            table(page, &tables::profile_files(&load.name, &meshes));
        }
    }
    for difference in &profiles.differences {
        changes(page, difference);
    }
    for words in LIMITS {
        caption(page, words);
    }
    for limit in &profiles.limits {
        caption(page, &format!("Note: {limit}."));
    }
    page.raw("</section>\n");
}

/// CPU time of each mesh by group of code, the planes together.
fn picture(meshes: &[&MeshProfile]) -> Stack {
    let rows = rows(meshes);
    let mut parts: Vec<String> = Vec::new();
    let mut sizes = vec![Vec::new(); meshes.len()];
    for row in rows.iter().filter(|row| !row.total) {
        let known = parts.iter().position(|part| *part == row.code);
        let at = known.unwrap_or_else(|| {
            parts.push(row.code.clone());
            sizes.iter_mut().for_each(|of_mesh| of_mesh.push(0.0));
            parts.len() - 1
        });
        for (of_mesh, ns) in sizes.iter_mut().zip(&row.ns) {
            of_mesh[at] += ns;
        }
    }
    let bars = meshes.iter().zip(sizes).map(|(mesh, sizes)| Bar {
        name: mesh.mesh.clone(),
        sizes,
    });
    Stack {
        bars: bars.collect(),
        parts,
        scale: Scale::TenthMicros,
    }
}

fn changes(page: &mut Html, difference: &ProfileDifference) {
    let ProfileDifference {
        load,
        mesh,
        reference,
        graph,
        folded,
        ..
    } = difference;
    let heading = format!("What {mesh} adds to {reference} at {load}");
    page.raw("<h3>").text(&heading).raw("</h3>\n<p>");
    link(page, graph, "Difference flame graph");
    page.raw(" of all planes (");
    link(page, folded, "as text");
    page.raw(")</p>\n<details class=\"figures\"><summary>Largest changes by function</summary>\n");
    table(page, &tables::changed_functions(difference));
    page.raw("</details>\n");
}
