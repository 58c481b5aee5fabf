//! Where in the path of a request a mesh costs time, if the plan has proxies on one side only.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::Summary;
use tare_records::summary::path::{PathEdge, PathPart};

use super::output::{DIM, Output, PLAIN};
use crate::words;

/// Writes the parts of each mesh, and its calls.
pub(super) fn rows(out: &mut Output, summary: &Summary) {
    let Some(costs) = &summary.path else { return };
    for d in &costs.decompositions {
        out.wrapped(PLAIN, &words::decomposition(summary, d), "", "  ");
        out.line("");
        let heading = format!("added at {}, ms", words::load_of(summary, &d.load));
        out.painted(
            DIM,
            &format!(
                "{heading:<30}{:>28}{:>11}{:>11}",
                Figure::Mean.label(),
                Figure::P50.label(),
                Figure::P99.label()
            ),
        );
        for part in &d.parts {
            out.line(&row(part));
        }
        out.line("");
        let heading = format!("calls with {}, added", d.mesh);
        out.painted(
            DIM,
            &format!(
                "{heading:<30}{:>28}{:>11}{:>13}",
                "mean, ms",
                Figure::P50.label(),
                "per request"
            ),
        );
        let own = |e: &&PathEdge| e.mesh == d.mesh && e.load == d.load;
        for edge in costs.edges.iter().filter(own) {
            let Some((mean, p50)) = edge.added_ns.as_ref().zip(edge.added_p50_ns.as_ref()) else {
                continue;
            };
            out.line(&format!(
                "{:<30}{:>28}{:>11}{:>13}",
                format!("{} to {}", edge.from, edge.to),
                figures::ms_interval(mean),
                figures::ms(p50.value),
                figures::significant(edge.calls_per_request)
            ));
        }
        out.line("");
    }
}

fn row(part: &PathPart) -> String {
    let percentile = |name: Figure| {
        let found = part.percentiles.iter().find(|p| p.name == name);
        found.map_or("-".to_owned(), |p| figures::ms(p.ns.value))
    };
    format!(
        "{:<30}{:>28}{:>11}{:>11}",
        part.part.words(),
        figures::ms_interval(&part.mean_ns),
        percentile(Figure::P50),
        percentile(Figure::P99)
    )
}
