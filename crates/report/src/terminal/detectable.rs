//! Which ratios a plan can detect, estimated from the variation between blocks of an earlier run.

use tare_plan::Figure;
use tare_records::summary::{MeshComparison, Ratio, Summary};
use tare_stats::effect::Effect;
use tare_stats::power;

use super::output::{Output, PLAIN};
use crate::table::{Cell, Column, Columns, Scale, text};

/// Returns, for each mesh, load and figure, the smallest ratio to the baseline that a plan with each
/// of these numbers of `blocks` detects, if its blocks vary like those of the run: a range, because
/// a few blocks leave their own variation uncertain. 80 columns wide for up to 4 numbers. `None` if
/// no comparison of the run has two blocks.
#[must_use]
pub fn render_detectable(summary: &Summary, blocks: &[u32]) -> Option<String> {
    let over_baseline = |c: &&MeshComparison| c.reference == summary.baseline;
    let comparisons = summary.comparisons.iter().filter(over_baseline);
    let rows = comparisons.flat_map(|c| {
        let ratios = [Figure::P50, Figure::P99, Figure::Cpu].into_iter();
        let ratios = ratios.filter_map(|what| c.ratio(what));
        ratios.filter_map(move |r| Some((c, r, deviations(r)?)))
    });
    let confidence = summary.stopping.as_ref();
    let confidence = confidence.map_or(summary.confidence, |s| s.nominal_confidence);
    let detectable = |n, deviations: &(f64, f64)| {
        let share = |deviation| {
            let found = power::detectable(deviation, n, confidence);
            found.map_or(f64::INFINITY, f64::exp_m1) * 100.0
        };
        Cell::text(between(share(deviations.0), share(deviations.1)))
    };
    let number = |n| Column::number(format!("{n} blocks"), Scale::Number);
    let table = Columns::of(rows)
        .mesh("mesh", summary, |(c, ..)| &c.mesh)
        .with(Column::text("load"), |(c, ..)| Cell::text(&c.load))
        .with(Column::text("figure"), |(_, r, _)| Cell::text(r.what.id()))
        .each(blocks.iter().copied(), number, |(.., d), n| {
            detectable(n, d)
        })
        .table("")
        .if_any()?;
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
    out.line("");
    text::write(&mut out, &table);
    Some(out.text)
}

/// The smallest and the largest standard deviation of the logarithms that the blocks of a ratio leave open.
fn deviations(ratio: &Ratio) -> Option<(f64, f64)> {
    let logs: Vec<f64> = ratio.blocks.iter().map(|x| x.ln()).collect();
    let (deviation, freedom) = Effect::paired(&logs, 0.0)?.deviation();
    Some(power::deviation_range(deviation, freedom))
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
