//! Which differences a plan can detect, estimated from the variation between blocks of an
//! earlier run.

use tare_analysis::figures;
use tare_model::summary::{Cell, Difference, Summary};
use tare_stats::power;

use super::output::{Output, PLAIN};
use crate::text::fit;

/// Returns, for each mesh, load and figure, the smallest difference from the baseline that a plan
/// with each of these numbers of `blocks` detects, if its blocks vary like those of the run. 80
/// columns wide for up to 4 numbers. `None` if no comparison of the run has two blocks.
#[must_use]
pub fn render_detectable(summary: &Summary, blocks: &[u32]) -> Option<String> {
    let mut rows = Output::default();
    for cell in &summary.cells {
        let Some(overhead) = &cell.overhead else {
            continue;
        };
        let latency = overhead.latency.iter().filter(|d| d.supported);
        let latency = latency.filter(|d| ["p50", "p99"].contains(&d.what.as_str()));
        let cpu = overhead.resources.iter().filter(|d| d.what == "cpu");
        for difference in latency.chain(cpu) {
            if let Some(row) = row(summary, cell, difference, blocks) {
                rows.line(&row);
            }
        }
    }
    if rows.text.is_empty() {
        return None;
    }
    let mut out = Output::default();
    let intro = format!(
        "The smallest difference from {} that a plan with this number of blocks detects in {:.0} % of \
         repetitions, if blocks vary as in this run, and its share of the baseline's figure:",
        summary.baseline,
        power::POWER * 100.0
    );
    out.wrapped(PLAIN, &intro, "", "");
    let heads: String = blocks
        .iter()
        .map(|n| format!("{:>13}", format!("{n} blocks")))
        .collect();
    out.line("");
    out.line(&format!("{:<28}{heads}", ""));
    Some(out.text + &rows.text)
}

fn row(summary: &Summary, cell: &Cell, difference: &Difference, blocks: &[u32]) -> Option<String> {
    let inference = difference.inference.as_ref()?;
    let confidence = summary
        .stopping
        .as_ref()
        .map_or(summary.confidence, |s| s.nominal_confidence);
    let measured = difference.pairs.len() as u32;
    let scatter = power::scatter(inference.detectable, measured, confidence)?;
    let reference = difference.ratio.map(|ratio| difference.value / ratio);
    let column = |n: &u32| {
        let detectable = power::detectable(scatter, *n, confidence).unwrap_or(f64::INFINITY);
        let text = if difference.what == "cpu" {
            figures::cores(detectable)
        } else {
            figures::duration(detectable)
        };
        let share = reference.filter(|r| *r > 0.0).map_or(String::new(), |r| {
            format!(" {:.0}%", detectable / r * 100.0)
        });
        format!("{:>13}", format!("{text}{share}"))
    };
    let columns: String = blocks.iter().map(column).collect();
    let place = format!("{} {}", cell.mesh, cell.load);
    Some(format!(
        "{:<23}{:<5}{columns}",
        fit(&place, 22),
        difference.what
    ))
}
