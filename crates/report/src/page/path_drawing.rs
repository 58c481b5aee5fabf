//! The drawings of the section on the path, as SVG.

use std::collections::BTreeSet;

use tare_analysis::figures;
use tare_records::summary::path::{PathEdge, ServiceCosts};
use tare_records::summary::{Estimate, Summary};

use super::html::{Html, escape};
use crate::text::fit;
use crate::words::colour_of;

/// Sizes in units of the view box, which are about pixels on a phone.
const INDENT: usize = 26;
const BOX_WIDTH: usize = 104;
const BOX_HEIGHT: usize = 28;
const ROW: usize = 50;
/// Width of the text beside a box.
const LABEL: usize = 150;
/// Thickest and thinnest line of an edge.
const THICK: f64 = 8.0;
const THIN: f64 = 1.5;

/// Longest name that fits into a box.
const NAME_MAX: usize = 13;

/// What an edge adds to a request, in nanoseconds; 0 if it adds nothing.
pub(super) fn per_request(edge: &PathEdge) -> f64 {
    let added = edge.added_ns.as_ref().map_or(0.0, |e| e.value);
    (added * edge.calls_per_request).max(0.0)
}

/// A service in the drawing.
struct Node<'a> {
    name: &'a str,
    depth: usize,
    /// Row of the caller, and the edge from it; none for the first caller.
    from: Option<(usize, &'a PathEdge)>,
}

/// The nodes from top to bottom: each call below its caller. A service with several callers appears below
/// each of them, but its own calls only once.
fn rows<'a>(edges: &[&'a PathEdge]) -> Vec<Node<'a>> {
    let called = |name: &str| edges.iter().any(|e| e.to == name);
    let mut rows = Vec::new();
    let mut seen = BTreeSet::new();
    for first in edges.iter().filter(|e| !called(&e.from)) {
        if seen.insert(first.from.as_str()) {
            rows.push(Node {
                name: &first.from,
                depth: 0,
                from: None,
            });
            below(edges, rows.len() - 1, &mut rows, &mut seen);
        }
    }
    rows
}

fn below<'a>(
    edges: &[&'a PathEdge],
    caller: usize,
    rows: &mut Vec<Node<'a>>,
    seen: &mut BTreeSet<&'a str>,
) {
    let (name, depth) = (rows[caller].name, rows[caller].depth + 1);
    for edge in edges.iter().filter(|e| e.from == name) {
        rows.push(Node {
            name: &edge.to,
            depth,
            from: Some((caller, edge)),
        });
        if seen.insert(&edge.to) {
            below(edges, rows.len() - 1, rows, seen);
        }
    }
}

/// Appends the graph of a mesh. `widest` is the largest [`per_request`] of all graphs beside it.
pub(super) fn graph(page: &mut Html, mesh: &str, edges: &[&PathEdge], widest: f64) {
    let rows = rows(edges);
    let deepest = rows.iter().map(|n| n.depth).max().unwrap_or(0);
    let (width, height) = (deepest * INDENT + BOX_WIDTH + LABEL, rows.len() * ROW);
    let label = format!("Calls of a request with {mesh}, with the time that each adds");
    open(page, width, height, &label);
    for (row, node) in rows.iter().enumerate() {
        let Some((caller, edge)) = node.from else {
            continue;
        };
        let x = rows[caller].depth * INDENT + INDENT / 2;
        let from = caller * ROW + BOX_HEIGHT;
        let (to_x, to_y) = (node.depth * INDENT, row * ROW + BOX_HEIGHT / 2);
        let share = if widest > 0.0 {
            per_request(edge) / widest
        } else {
            0.0
        };
        let thick = THIN + (THICK - THIN) * share;
        page.raw(&format!(
            "<path d=\"M{x} {from}V{to_y}H{to_x}\" fill=\"none\" stroke-width=\"{thick:.1}\" \
             style=\"stroke:var(--c)\"/>"
        ));
    }
    for (row, node) in rows.iter().enumerate() {
        let (x, y) = (node.depth * INDENT, row * ROW);
        page.raw(&format!(
            "<rect x=\"{x}\" y=\"{y}.5\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"5\" \
             style=\"fill:var(--raised);stroke:var(--edge)\"/>"
        ));
        text(
            page,
            (x + 8, y + 19),
            13,
            "fill:var(--ink)",
            &fit(node.name, NAME_MAX),
        );
        let Some((_, edge)) = node.from else { continue };
        let Some(added) = &edge.added_ns else {
            continue;
        };
        let beside = x + BOX_WIDTH + 8;
        let calls = figures::significant(edge.calls_per_request);
        let words = format!("{} x {calls}", figures::signed_duration(added.value));
        text(
            page,
            (beside, y + 13),
            13,
            "fill:var(--ink);font-weight:600",
            &words,
        );
        let ends = interval(added);
        text(page, (beside, y + 28), 11, "fill:var(--quiet)", &ends);
    }
    page.raw("</svg>");
}

fn interval(e: &Estimate) -> String {
    let ends = e.low.zip(e.high);
    ends.map_or(String::new(), |(low, high)| {
        format!("{} to {}", figures::duration(low), figures::duration(high))
    })
}

/// Appends bars of CPU, a row for each mesh: the application, then its sidecar.
pub(super) fn cores(page: &mut Html, summary: &Summary, service: &str, rows: &[&ServiceCosts]) {
    let bars: Vec<Bar<'_>> = rows
        .iter()
        .map(|s| {
            let sidecar = s.sidecar_cores.as_ref().map(|e| e.value);
            let application = s.application_cores.value;
            let words = figures::cores(application);
            Bar {
                mesh: &s.mesh,
                pale: application,
                solid: sidecar.unwrap_or(0.0),
                words: match sidecar {
                    Some(sidecar) => format!("{words} + {}", figures::cores(sidecar)),
                    None => words,
                },
            }
        })
        .collect();
    let label = format!("CPU of {service} in cores: application and sidecar");
    chart(page, summary, &label, &bars);
}

/// Appends bars of the requests that a core serves in a day, a row for each mesh.
pub(super) fn per_day(page: &mut Html, summary: &Summary, rows: &[&ServiceCosts]) {
    let bars: Vec<Bar<'_>> = rows
        .iter()
        .filter_map(|s| {
            let value = s.calls_per_day_and_core.as_ref()?.value;
            Some(Bar {
                mesh: &s.mesh,
                pale: 0.0,
                solid: value,
                words: millions(value),
            })
        })
        .collect();
    chart(page, summary, "Requests per day and vCPU", &bars);
}

/// A large number in millions.
pub(super) fn millions(value: f64) -> String {
    format!("{} million", figures::significant(value / 1e6))
}

struct Bar<'a> {
    mesh: &'a str,
    pale: f64,
    solid: f64,
    words: String,
}

fn chart(page: &mut Html, summary: &Summary, label: &str, bars: &[Bar<'_>]) {
    const STEP: usize = 24;
    const LEFT: usize = 116;
    const LONGEST: f64 = 150.0;
    const WIDTH: usize = 370;
    let most = bars.iter().map(|b| b.pale + b.solid).fold(0.0, f64::max);
    let scale = if most > 0.0 { LONGEST / most } else { 0.0 };
    open(page, WIDTH, bars.len() * STEP, label);
    for (row, bar) in bars.iter().enumerate() {
        let y = row * STEP;
        let colour = colour_of(summary, bar.mesh);
        text(
            page,
            (0, y + 16),
            12,
            "fill:var(--ink)",
            &short_mesh(bar.mesh),
        );
        let (pale, solid) = (bar.pale * scale, bar.solid * scale);
        let left = LEFT as f64;
        for (x, width, opacity) in [(left, pale, 0.4), (left + pale, solid, 1.0)] {
            page.raw(&format!(
                "<rect x=\"{x:.1}\" y=\"{}\" width=\"{width:.1}\" height=\"15\" \
                 style=\"fill:var(--mesh-{colour});fill-opacity:{opacity}\"/>",
                y + 4
            ));
        }
        let end = (left + pale + solid + 6.0) as usize;
        text(page, (end, y + 16), 11, "fill:var(--quiet)", &bar.words);
    }
    page.raw("</svg>");
}

fn short_mesh(name: &str) -> String {
    const MESH_MAX: usize = 17;
    match name.char_indices().nth(MESH_MAX) {
        Some((cut, _)) => format!("{}…", &name[..cut]),
        None => name.to_owned(),
    }
}

fn open(page: &mut Html, width: usize, height: usize, label: &str) {
    let label = escape(label);
    page.raw(&format!(
        "<svg role=\"img\" aria-label=\"{label}\" viewBox=\"0 0 {width} {}\" width=\"{width}\" \
         xmlns=\"http://www.w3.org/2000/svg\">",
        height + 4
    ));
}

fn text(page: &mut Html, (x, y): (usize, usize), size: usize, style: &str, words: &str) {
    page.raw(&format!(
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" style=\"{style}\">"
    ));
    page.text(words).raw("</text>");
}
