//! The price list of features: one feature a line, its intervals below.

use tare_analysis::figures;
use tare_model::summary::{FeaturePrice, Outcome, Summary};

use super::output::{BOLD, DIM, Output, PLAIN, WIDTH};
use crate::prices;
use crate::text::fit;

/// Width of the names.
const NAME: usize = 17;
/// Widths of the columns: latency at the median and at p99, CPU, memory.
const COLUMNS: [usize; 4] = [13, 13, 18, 19];

/// Writes the price list, if the run has features.
pub(super) fn write(out: &mut Output, summary: &Summary) {
    let Some(list) = &summary.price_list else {
        return;
    };
    let rate = summary.setup.loads.iter().find(|l| l.name == list.load);
    let rate = rate.map_or(0.0, |l| l.rate_rps);
    let title = format!(
        "What each feature adds to {} at {}",
        list.reference,
        figures::rate(rate)
    );
    out.painted(BOLD, &fit(&title, WIDTH));
    out.line("");
    line(
        out,
        DIM,
        "",
        ["p50", "p99", "CPU", "memory"].map(str::to_owned),
    );
    let units = ["ratio", "ratio", "per hop", "per proxy"];
    line(out, DIM, "feature", units.map(str::to_owned));
    for feature in &list.features {
        row(out, feature);
    }
    out.line("");
    out.wrapped(DIM, &prices::legend(summary, list), "", "");
    let signs =
        "= the same within the margin; ? not resolved; no sign: different from the reference.";
    out.wrapped(DIM, signs, "", "");
    out.line("");
}

fn line(out: &mut Output, code: &str, name: &str, columns: [String; 4]) {
    let columns: String = COLUMNS
        .iter()
        .zip(columns)
        .map(|(width, text)| format!("{text:>width$}"))
        .collect();
    out.painted(code, &format!("{:<NAME$}{columns}", fit(name, NAME - 1)));
}

fn row(out: &mut Output, feature: &FeaturePrice) {
    let prices = prices::of(feature);
    let texts = prices.each_ref().map(|(price, shown)| match price {
        None => ("-".to_owned(), String::new()),
        Some(price) => {
            let (text, interval) = prices::text(price, *shown);
            (format!("{}{text}", mark(price.outcome)), interval)
        }
    });
    line(
        out,
        PLAIN,
        prices::name(&feature.mesh),
        texts.each_ref().map(|t| t.0.clone()),
    );
    let intervals = texts.map(|t| t.1);
    if intervals.iter().any(|i| !i.is_empty()) {
        line(out, DIM, "", intervals);
    }
}

fn mark(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Different => "",
        Outcome::Same => "= ",
        Outcome::NotResolved => "? ",
    }
}
