//! Profiles: CPU time per request by group of code, links to flame graphs, and differences.

use tare_records::summary::{MeshProfile, ProfileDifference, Summary};

use super::html::Html;
use super::parts::{caption, open_section, table};
use crate::profiles::LIMITS;
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
            table(page, &tables::code_groups(&load.name, &meshes, |_| true));
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
