//! The price list of features: one feature a line, its intervals below.

use tare_plan::Figure;
use tare_records::summary::{FeaturePrice, Outcome, PriceList, Summary};
use tare_records::verdict::Grade;

use super::output::{BOLD, DIM, Output, PLAIN, WIDTH};
use super::table::sign;
use crate::prices::{self, Shown};
use crate::text::fit;
use crate::words;

/// Width of the names.
const NAME: usize = 17;
/// Widths of the columns: latency at the median and at p99, CPU, memory.
const COLUMNS: [usize; 4] = [13, 13, 18, 19];

/// Writes the price list, if the run has features.
pub(super) fn write(out: &mut Output, summary: &Summary) {
    let Some(list) = &summary.price_list else {
        return;
    };
    let title = format!(
        "What each feature adds to {} at {}",
        list.reference,
        words::load_of(summary, &list.load)
    );
    out.painted(BOLD, &fit(&title, WIDTH));
    out.line("");
    if let Some(words) = prices::no_answer(list) {
        out.wrapped(BOLD, &words, "", "");
        out.line("");
    }
    line(
        out,
        DIM,
        "",
        [Figure::P50.label(), Figure::P99.label(), "CPU", "memory"].map(str::to_owned),
    );
    let units = ["ratio", "ratio", "per hop", "per proxy"];
    line(out, DIM, "feature", units.map(str::to_owned));
    for feature in &list.features {
        row(out, feature);
    }
    out.line("");
    out.wrapped(DIM, &prices::legend(summary, list), "", "");
    out.wrapped(DIM, &signs(list), "", "");
    out.line("");
    if summary.grade != Grade::Valid {
        let words = format!(
            "The run is {}: the reasons are below the tables.",
            summary.grade.word()
        );
        out.wrapped(PLAIN, &words, "", "  ");
    }
}

/// Explains the signs.
fn signs(list: &PriceList) -> String {
    match list.no_answer {
        Some(_) => "! no answer.".to_owned(),
        None => {
            let [same, open] = [Outcome::Same, Outcome::NotResolved]
                .map(|outcome| format!("{}{}", sign(outcome), outcome.words()));
            format!("{same}; {open}; x or no sign: different from the reference.")
        }
    }
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
            let mark = match (price.outcome, shown) {
                (None, _) => "! ",
                (Some(Outcome::Different), Shown::Cpu | Shown::Memory) => "",
                (Some(outcome), _) => sign(outcome),
            };
            (format!("{mark}{text}"), interval)
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
