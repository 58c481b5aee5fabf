//! Where in the path of a request the meshes cost time, CPU and memory. The drawings are written here, so
//! that they need no script; their colours follow the page's.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::path::{Decomposition, PathCosts, PathEdge, PathPart, ServiceCosts};
use tare_records::summary::{Estimate, Summary};

use super::html::Html;
use super::parts::{
    caption, close_table, colour_of, estimate, figure, mesh_label, open_row, open_section,
    open_table, plain,
};
use super::path_drawing;
use crate::words;

/// Largest number of edges of a drawing; the table has all.
const EDGES_MAX: usize = 24;

/// Appends the section, if the summary has such costs.
pub(super) fn section(page: &mut Html, summary: &Summary) {
    let Some(costs) = &summary.path else { return };
    open_section(page, "path", "Where in the path");
    for decomposition in &costs.decompositions {
        decomposed(page, summary, decomposition);
    }
    for load in &summary.setup.loads {
        let heading = words::load_heading(&load.name, load);
        graphs(page, summary, costs, &load.name, &heading);
        cpu(page, summary, costs, &load.name, &heading);
    }
    page.raw("<details class=\"figures\"><summary>Figures</summary>\n");
    edges_table(page, summary, costs);
    services_table(page, summary, costs);
    page.raw("</details>\n</section>\n");
}

/// What the sides of a call add: a sentence and the table.
fn decomposed(page: &mut Html, summary: &Summary, d: &Decomposition) {
    page.tag("p", &words::decomposition(summary, d)).raw("\n");
    caption(
        page,
        "Added latency over no proxy, by block, with intervals. The means of the callers' proxies, the called \
         services' proxies and the interaction add up to both sides together. Percentiles do not add up, so \
         the interaction has none. Mutual TLS needs a proxy at both ends: it is on top of both.",
    );
    let load = words::load_of(summary, &d.load);
    let heading = format!("Added to the latency of a request, {load}");
    let [p50, p90, p99] = PERCENTILES.map(Figure::label);
    let columns = ["part", "mean", p50, p90, p99];
    open_table(page, &heading, Some(&heading), &columns);
    for part in &d.parts {
        part_row(page, summary, part);
    }
    close_table(page);
}

/// The percentiles of a part.
const PERCENTILES: [Figure; 3] = [Figure::P50, Figure::P90, Figure::P99];

fn part_row(page: &mut Html, summary: &Summary, part: &PathPart) {
    page.raw("<tr><th scope=\"row\">").text(part.part.words());
    if let Some(mesh) = &part.mesh {
        page.raw("<br>");
        mesh_label(page, summary, mesh);
    }
    page.raw("</th>");
    estimate(page, &part.mean_ns, figures::signed_duration);
    for name in PERCENTILES {
        match part.percentiles.iter().find(|p| p.name == name) {
            Some(p) => estimate(page, &p.ns, figures::signed_duration),
            None => figure(page, "-", None),
        }
    }
    page.raw("</tr>\n");
}

/// The workload's graph of each mesh with proxies, with the added time on its edges.
fn graphs(page: &mut Html, summary: &Summary, costs: &PathCosts, load: &str, heading: &str) {
    let meshes = summary.setup.meshes.iter().map(|m| m.name.as_str());
    let drawn: Vec<(&str, Vec<&PathEdge>)> = meshes
        .map(|mesh| {
            let own = |e: &&PathEdge| e.load == load && e.mesh == mesh && e.added_ns.is_some();
            (mesh, costs.edges.iter().filter(own).collect())
        })
        .filter(|(_, edges): &(_, Vec<_>)| !edges.is_empty() && edges.len() <= EDGES_MAX)
        .collect();
    if drawn.is_empty() {
        return;
    }
    page.tag("h3", &format!("Added to each call, {heading}"))
        .raw("\n");
    caption(
        page,
        "The path of a request from caller to called service. On each edge: what the mesh adds to the mean of a call \
         in the network and the proxies, by the clocks of both applications, and the number of calls for each \
         request. The thicker the line, the more it \
         adds to a request.",
    );
    let widest = drawn
        .iter()
        .flat_map(|(_, edges)| edges)
        .map(|e| path_drawing::per_request(e));
    let widest = widest.fold(0.0, f64::max);
    page.raw("<div class=\"grid\">\n");
    for (mesh, edges) in drawn {
        let colour = colour_of(summary, mesh);
        page.raw(&format!("<figure class=\"mesh-{colour}\"><figcaption><h3>"));
        mesh_label(page, summary, mesh);
        page.raw("</h3></figcaption><div class=\"drawing\">");
        path_drawing::graph(page, mesh, &edges, widest);
        page.raw("</div></figure>\n");
    }
    page.raw("</div>\n");
}

/// CPU of each service, and the calls that a core serves in a day.
fn cpu(page: &mut Html, summary: &Summary, costs: &PathCosts, load: &str, heading: &str) {
    let own: Vec<&ServiceCosts> = costs.services.iter().filter(|s| s.load == load).collect();
    if own.is_empty() {
        return;
    }
    page.tag("h3", &format!("CPU of each service, {heading}"))
        .raw("\n");
    caption(
        page,
        "Cores, mean over the measured window, all instances together: the application (pale) beside its sidecar \
         (solid).",
    );
    page.raw("<div class=\"grid\">\n");
    for service in &summary.setup.services {
        let of_service = |s: &&&ServiceCosts| s.service.as_ref() == Some(service);
        let rows: Vec<&ServiceCosts> = own.iter().filter(of_service).copied().collect();
        page.raw("<figure><figcaption>").tag("h3", service);
        page.raw("</figcaption><div class=\"drawing\">");
        path_drawing::cores(page, summary, service, &rows);
        page.raw("</div></figure>\n");
    }
    let all: Vec<&ServiceCosts> = own.into_iter().filter(|s| s.service.is_none()).collect();
    page.raw("<figure><figcaption><h3>Requests per day and vCPU, whole workload</h3></figcaption>");
    page.raw("<div class=\"drawing\">");
    path_drawing::per_day(page, summary, &all);
    page.raw("</div></figure>\n</div>\n");
}

fn edges_table(page: &mut Html, summary: &Summary, costs: &PathCosts) {
    caption(
        page,
        "Calls between services. Caller: from before the request is written to the complete response. Callee: from \
         the head of the request until the response is taken for writing. Between: mean of the caller's view \
         minus that of the callee's view. Added: over the mesh without proxies, by block.",
    );
    let columns = [
        "mesh",
        "caller to callee",
        "calls per request",
        "caller p50",
        "caller p99",
        "callee p50",
        "callee p99",
        "between, mean",
        "added, mean",
        "added, p50",
    ];
    for load in &summary.setup.loads {
        let heading = words::load_heading(&load.name, load);
        open_table(page, &heading, Some(&heading), &columns);
        for edge in costs.edges.iter().filter(|e| e.load == load.name) {
            open_row(page, summary, &edge.mesh);
            page.tag("td class=\"l\"", &format!("{} to {}", edge.from, edge.to));
            plain(page, &figures::significant(edge.calls_per_request));
            for side in [edge.caller, edge.callee] {
                for percentile in [side.p50, side.p99] {
                    plain(page, &percentile.map_or("-".to_owned(), figures::duration));
                }
            }
            estimate(page, &edge.between_ns, figures::duration);
            optional(page, edge.added_ns.as_ref(), figures::signed_duration);
            optional(page, edge.added_p50_ns.as_ref(), figures::signed_duration);
            page.raw("</tr>\n");
        }
        close_table(page);
    }
}

fn services_table(page: &mut Html, summary: &Summary, costs: &PathCosts) {
    caption(
        page,
        "CPU in cores and memory of each service, all instances together. Calls per day and vCPU: calls received \
         divided by the CPU time of application and sidecar, for 86,400 s.",
    );
    let columns = [
        "mesh",
        "service",
        "application, cores",
        "sidecar, cores",
        "application, memory",
        "sidecar, memory",
        "calls per day and vCPU",
    ];
    for load in &summary.setup.loads {
        let heading = words::load_heading(&load.name, load);
        open_table(page, &heading, Some(&heading), &columns);
        for s in costs.services.iter().filter(|s| s.load == load.name) {
            open_row(page, summary, &s.mesh);
            page.tag(
                "td class=\"l\"",
                s.service.as_deref().unwrap_or("all services"),
            );
            estimate(page, &s.application_cores, figures::cores);
            optional(page, s.sidecar_cores.as_ref(), figures::cores);
            estimate(page, &s.application_bytes, figures::bytes);
            optional(page, s.sidecar_bytes.as_ref(), figures::bytes);
            optional(
                page,
                s.calls_per_day_and_core.as_ref(),
                path_drawing::millions,
            );
            page.raw("</tr>\n");
        }
        close_table(page);
    }
}

fn optional(page: &mut Html, found: Option<&Estimate>, words: impl Fn(f64) -> String) {
    match found {
        Some(e) => estimate(page, e, words),
        None => figure(page, "-", None),
    }
}
