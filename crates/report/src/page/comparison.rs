//! The page of a comparison of two runs: what changed, a picture of it, and the table. It needs no script.

use tare_records::summary::comparison::{Change, ComparedCell, Comparison, ThresholdResult};

use super::document;
use super::html::Html;
use super::lanes::{self, Lane, Lanes};
use super::parts::caption;
use crate::comparison_words::{changed, judgement, legend, not_compared, run_words};
use crate::table::{Mark, Scale, Value, html};
use crate::tables;

/// Returns the page of a comparison of two runs.
#[must_use]
pub fn render_comparison_page(comparison: &Comparison) -> String {
    let mut page = Html::default();
    document::head(&mut page, "Two runs compared", "script-src 'none'", "");
    page.raw("<body>\n<header>\n")
        .tag("h1", "Two runs compared")
        .raw("\n");
    for (side, run) in [("Before", &comparison.before), ("After", &comparison.after)] {
        page.tag("p", &format!("{side}: {}", run_words(run)))
            .raw("\n");
    }
    page.raw("</header>\n<main>\n");
    page.tag("p class=\"answer\"", &changed(comparison))
        .raw("\n");
    for judged in &comparison.thresholds {
        let open = match judged.result {
            ThresholdResult::NotExceeded => "p",
            ThresholdResult::Exceeded | ThresholdResult::NotChecked => "p class=\"note\"",
        };
        page.tag(open, &judgement(judged, &comparison.cells))
            .raw("\n");
    }
    for warning in &comparison.warnings {
        page.tag(
            "p class=\"note\"",
            &format!("Another difference: {warning}."),
        )
        .raw("\n");
    }
    for cell in &comparison.cells {
        page.tag("h2", &format!("{} at {}", cell.mesh, cell.load))
            .raw("\n");
        match not_compared(cell) {
            Some(words) => page.tag("p class=\"note\"", &words).raw("\n"),
            None => compared(&mut page, cell),
        };
    }
    caption(&mut page, PICTURE);
    caption(&mut page, &legend(comparison));
    page.raw("</main>\n</body>\n</html>\n");
    page.0
}

/// How to read the pictures.
const PICTURE: &str = "Dots are what the later run has, divided by what the earlier one had, with 95 % intervals. Filled: different. \
    Hollow: the same within the margin, or not resolved.";

/// The changes of one mesh under one load.
fn compared<'p>(page: &'p mut Html, cell: &ComparedCell) -> &'p mut Html {
    let trials = format!("{} and {} blocks.", cell.trials_before, cell.trials_after);
    page.tag("p", &trials).raw("\n");
    lanes::write(
        page,
        &Lanes {
            lanes: cell.changes.iter().map(lane).collect(),
            origin: 1.0,
            scale: Scale::Ratio,
        },
    );
    page.raw("<details class=\"figures\"><summary>The figures of both runs</summary>\n");
    html::write(page, &tables::changes(std::slice::from_ref(cell)));
    page.raw("</details>\n")
}

fn lane(change: &Change) -> Lane {
    let ratio = &change.ratio;
    let value = Value {
        value: ratio.value,
        low: ratio.low,
        high: ratio.high,
        ..Value::default()
    };
    Lane::new(ratio.what.label(), value, Mark::Outcome(ratio.outcome))
}
