//! Where in the path of a request the meshes cost time, CPU and memory. The drawings are written here, so
//! that they need no script; their colours follow the page's.

use tare_plan::Unit;
use tare_records::summary::path::{Decomposition, Part, PathCosts, PathEdge, ServiceCosts};
use tare_records::summary::{Outcome, Summary};

use super::html::Html;
use super::lanes::{self, Lane, Lanes};
use super::parts::{caption, mesh_label, open_section, per_load, table};
use super::path_drawing;
use crate::table::{Mark, Scale};
use crate::words::colour_of;
use crate::{tables, words};

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
    figures(page, summary);
    page.raw("</details>\n</section>\n");
}

/// What the sides of a call add: a sentence and the table.
fn decomposed(page: &mut Html, summary: &Summary, d: &Decomposition) {
    page.tag("p class=\"answer\"", &words::decomposition(summary, d))
        .raw("\n");
    lanes::write(page, &waterfall(d));
    caption(
        page,
        "Added latency over no proxy, by block, with intervals. The means of the callers' proxies, the called \
         services' proxies and the interaction add up to both sides together. Percentiles do not add up, so \
         the interaction has none. Mutual TLS needs a proxy at both ends: it is on top of both.",
    );
    table(page, &tables::parts(summary, d));
}

/// Each part on top of those before it: from no proxy to the whole path, and mutual TLS on top of that.
fn waterfall(d: &Decomposition) -> Lanes {
    let of = |wanted: Part| d.parts.iter().find(|p| p.part == wanted);
    let end = |wanted: Part| of(wanted).map_or(0.0, |p| p.mean_ns.value);
    let both = end(Part::Client) + end(Part::Server);
    let parts = [
        (Part::Client, 0.0),
        (Part::Server, end(Part::Client)),
        (Part::Interaction, both),
        (Part::Whole, 0.0),
        (Part::MutualTls, end(Part::Whole)),
    ];
    let lane = |(part, from): (Part, f64)| {
        let e = &of(part)?.mean_ns;
        let is_sure = e
            .low
            .zip(e.high)
            .is_some_and(|(low, high)| low > 0.0 || high < 0.0);
        let outcome = match is_sure {
            true => Outcome::Different,
            false => Outcome::NotResolved,
        };
        Some(Lane::new(part.words(), e, Mark::Outcome(outcome)).bar_from(from))
    };
    Lanes {
        lanes: parts.into_iter().filter_map(lane).collect(),
        origin: 0.0,
        scale: Scale::Added(Unit::Ns),
    }
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

fn figures(page: &mut Html, summary: &Summary) {
    caption(
        page,
        "Calls between services. Caller: from before the request is written to the complete response. Callee: from \
         the head of the request until the response is taken for writing. Between: mean of the caller's view \
         minus that of the callee's view. Added: over the mesh without proxies, by block.",
    );
    per_load(page, summary, |summary, load| {
        let edges = summary.path.iter().flat_map(|p| &p.edges);
        let heading = words::load_of(summary, load);
        tables::edges(summary, heading, edges.filter(|e| e.load == load))
    });
    caption(
        page,
        "CPU in cores and memory of each service, all instances together. Calls per day and vCPU: calls received \
         divided by the CPU time of application and sidecar, for 86,400 s.",
    );
    per_load(page, summary, tables::services);
}
