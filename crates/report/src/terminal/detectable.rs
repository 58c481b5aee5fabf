//! Which ratios a plan can detect, estimated from the variation between blocks of an earlier run.

use tare_plan::Figure;
use tare_records::summary::{MeshComparison, Ratio, Summary};
use tare_stats::effect::Effect;
use tare_stats::power;

use super::output::{Output, PLAIN};
use crate::text::fit;

/// Returns, for each mesh, load and figure, the smallest ratio to the baseline that a plan with each
/// of these numbers of `blocks` detects, if its blocks vary like those of the run: a range, because
/// a few blocks leave their own variation uncertain. 80 columns wide for up to 4 numbers. `None` if
/// no comparison of the run has two blocks.
#[must_use]
pub fn render_detectable(summary: &Summary, blocks: &[u32]) -> Option<String> {
    let mut rows = Output::default();
    for comparison in summary
        .comparisons
        .iter()
        .filter(|c| c.reference == summary.baseline)
    {
        for what in [Figure::P50, Figure::P99, Figure::Cpu] {
            let ratio = comparison.ratio(what);
            if let Some(row) = ratio.and_then(|r| row(summary, comparison, r, blocks)) {
                rows.line(&row);
            }
        }
    }
    if rows.text.is_empty() {
        return None;
    }
    let mut out = Output::default();
    let intro = format!(
        "By how much a figure must differ from that of {} so that a plan with this number of blocks \
         detects it in {:.0} % of repetitions, if blocks vary as in this run (the range comes from \
         its {} blocks):",
        summary.baseline,
        power::POWER * 100.0,
        summary.setup.repeats
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

fn row(
    summary: &Summary,
    comparison: &MeshComparison,
    ratio: &Ratio,
    blocks: &[u32],
) -> Option<String> {
    let confidence = summary
        .stopping
        .as_ref()
        .map_or(summary.confidence, |s| s.nominal_confidence);
    let logs: Vec<f64> = ratio.blocks.iter().map(|x| x.ln()).collect();
    let (deviation, freedom) = Effect::paired(&logs, 0.0)?.deviation();
    let (least, most) = power::deviation_range(deviation, freedom);
    let column = |n: &u32| {
        let share = |deviation| {
            let found = power::detectable(deviation, *n, confidence);
            found.map_or(f64::INFINITY, f64::exp_m1) * 100.0
        };
        format!("{:>13}", between(share(least), share(most)))
    };
    let columns: String = blocks.iter().map(column).collect();
    let place = format!("{} {}", comparison.mesh, comparison.load);
    Some(format!("{:<23}{:<5}{columns}", fit(&place, 22), ratio.what))
}

/// Two shares in percent: `12 to 40 %`. Above ten times, the number does not matter.
fn between(least: f64, most: f64) -> String {
    let words = |x: f64| match x {
        x if x >= 1_000.0 => "1,000".to_owned(),
        x if x >= 9.5 => format!("{x:.0}"),
        x => format!("{x:.1}"),
    };
    match (least >= 1_000.0, most >= 1_000.0) {
        (true, _) => "> 1,000 %".to_owned(),
        (false, true) => format!("{} to >1,000 %", words(least)),
        (false, false) => format!("{} to {} %", words(least), words(most)),
    }
}
