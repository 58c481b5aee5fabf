//! What a plan can find, from the scatter of a run that was made before.

use std::fmt::Write as _;

use tare_analysis::figures;
use tare_model::summary::{Cell, Difference, Summary};
use tare_stats::power;

use crate::text::{fit, wrap};

/// Widest line, in characters.
const WIDTH: usize = 80;

/// For each mesh, load and figure the smallest difference from the baseline that so many
/// `blocks` would find, if they scattered like those of the run; 80 columns wide for up
/// to 4 numbers of blocks. `None` where no comparison of the run has two blocks.
#[must_use]
pub fn render_detectable(summary: &Summary, blocks: &[u32]) -> Option<String> {
    let mut rows = String::new();
    for cell in &summary.cells {
        let Some(overhead) = &cell.overhead else {
            continue;
        };
        let latency = overhead.latency.iter().filter(|d| d.supported);
        let latency = latency.filter(|d| ["p50", "p99"].contains(&d.what.as_str()));
        let cpu = overhead.resources.iter().filter(|d| d.what == "cpu");
        for difference in latency.chain(cpu) {
            row(&mut rows, summary, cell, difference, blocks);
        }
    }
    if rows.is_empty() {
        return None;
    }
    let mut out = String::new();
    let intro = format!(
        "The smallest difference from {} that plans of so many blocks find in {:.0} % of \
         repetitions, if blocks scatter as in this run; share of the baseline's figure:",
        summary.baseline,
        power::POWER * 100.0
    );
    for line in wrap(&intro, WIDTH, "", "") {
        let _ = writeln!(out, "{line}");
    }
    let heads: String = blocks
        .iter()
        .map(|n| format!("{:>13}", format!("{n} blocks")))
        .collect();
    let _ = write!(out, "\n{:<28}{heads}\n{rows}", "");
    Some(out)
}

fn row(out: &mut String, summary: &Summary, cell: &Cell, difference: &Difference, blocks: &[u32]) {
    let Some(inference) = &difference.inference else {
        return;
    };
    let confidence = summary
        .stopping
        .as_ref()
        .map_or(summary.confidence, |s| s.nominal_confidence);
    let made = difference.pairs.len() as u32;
    let Some(scatter) = power::scatter(inference.detectable, made, confidence) else {
        return;
    };
    let reference = difference.ratio.map(|ratio| difference.value / ratio);
    let cell_of = |n: &u32| {
        let found = power::detectable(scatter, *n, confidence).unwrap_or(f64::INFINITY);
        let text = if difference.what == "cpu" {
            figures::cores(found)
        } else {
            figures::duration(found)
        };
        let share = reference
            .filter(|r| *r > 0.0)
            .map_or(String::new(), |r| format!(" {:.0}%", found / r * 100.0));
        format!("{:>13}", format!("{text}{share}"))
    };
    let cells: String = blocks.iter().map(cell_of).collect();
    let place = format!("{} {}", cell.mesh, cell.load);
    let _ = writeln!(out, "{:<23}{:<5}{cells}", fit(&place, 22), difference.what);
}
