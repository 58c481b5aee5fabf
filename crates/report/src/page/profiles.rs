//! Profiles: CPU time per request by group of code, links to flame graphs, and differences.

use tare_records::summary::{MeshProfile, ProfileDifference, Summary};

use super::html::Html;
use super::parts::{caption, close_table, figure, open_section, open_table, plain};
use crate::profiles::{LIMITS, rows, us};

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
            groups(page, &load.name, &meshes);
            graphs(page, &load.name, &meshes);
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

fn columns<'a>(first: [&'a str; 2], meshes: &[&'a MeshProfile]) -> Vec<&'a str> {
    let names = meshes.iter().map(|m| m.mesh.as_str());
    first.into_iter().chain(names).collect()
}

fn groups(page: &mut Html, load: &str, meshes: &[&MeshProfile]) {
    let heading = format!("CPU time per request at {load}, µs");
    let columns = columns(["plane", "code"], meshes);
    open_table(page, &heading, Some(&heading), &columns);
    for row in rows(meshes) {
        // The plane heads its groups.
        let plane = if row.total { row.plane } else { "" };
        page.raw("<tr>").tag("th scope=\"row\"", plane);
        page.tag("td class=\"l\"", &row.code);
        for ns in &row.ns {
            match row.total {
                true => figure(page, &us(*ns), None),
                false => plain(page, &us(*ns)),
            }
        }
        page.raw("</tr>\n");
    }
    close_table(page);
}

fn graphs(page: &mut Html, load: &str, meshes: &[&MeshProfile]) {
    let heading = format!("Flame graphs and pprof files at {load}");
    open_table(
        page,
        &heading,
        Some(&heading),
        &["mesh", "plane", "samples", "files"],
    );
    for mesh in meshes {
        for plane in &mesh.planes {
            page.raw("<tr>").tag("th scope=\"row\"", &mesh.mesh);
            page.tag("td class=\"l\"", plane.plane.words());
            let samples = plane.ns_per_request * mesh.requests as f64 / mesh.period_ns as f64;
            plain(page, &format!("{samples:.0}"));
            page.raw("<td>");
            link(page, &plane.graph, "flame graph");
            page.raw(", ");
            link(page, &plane.pprof, "pprof");
            page.raw("</td></tr>\n");
        }
        if mesh.served.is_empty() {
            continue;
        }
        page.raw("<tr>").tag("th scope=\"row\"", &mesh.mesh);
        page.tag("td class=\"l\"", "control plane, as it serves itself");
        plain(page, "");
        page.raw("<td>");
        for (i, path) in mesh.served.iter().enumerate() {
            page.raw(if i > 0 { ", " } else { "" });
            link(page, path, path.rsplit('/').next().unwrap_or(path));
        }
        page.raw("</td></tr>\n");
    }
    close_table(page);
}

fn link(page: &mut Html, path: &str, words: &str) {
    page.raw("<a href=\"")
        .text(path)
        .raw("\">")
        .text(words)
        .raw("</a>");
}

fn changes(page: &mut Html, difference: &ProfileDifference) {
    let ProfileDifference {
        load,
        mesh,
        reference,
        graph,
        folded,
        functions,
    } = difference;
    let heading = format!("What {mesh} adds to {reference} at {load}");
    page.raw("<h3>").text(&heading).raw("</h3>\n<p>");
    link(page, graph, "Difference flame graph");
    page.raw(" of all planes (");
    link(page, folded, "as text");
    page.raw(")</p>\n<details class=\"figures\"><summary>Largest changes by function</summary>\n");
    let columns = ["plane", "function", reference, mesh, "change"];
    let label = "Own CPU time of functions per request, µs";
    open_table(page, label, Some(label), &columns);
    for f in functions {
        page.raw("<tr>").tag("td class=\"l\"", f.plane.words());
        page.tag("td class=\"l\"", &f.function);
        for ns in [f.reference_ns, f.mesh_ns] {
            plain(page, &us(ns));
        }
        plain(page, &format!("{:+.1}", (f.mesh_ns - f.reference_ns) / 1e3));
        page.raw("</tr>\n");
    }
    close_table(page);
    page.raw("</details>\n");
}
