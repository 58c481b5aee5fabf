//! The price list of features.

use tare_records::summary::{Outcome, PriceList, Summary};
use tare_records::verdict::Grade;

use super::output::{BOLD, DIM, Output, PLAIN, WIDTH};
use crate::table::{Mark, text};
use crate::text::fit;
use crate::{prices, tables, words};

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
    match prices::no_answer(list) {
        Some(words) => out.wrapped(BOLD, &words, "", ""),
        None => out.wrapped(PLAIN, &prices::answer(summary, list), "", ""),
    };
    out.line("");
    text::write(out, &tables::features(summary, list));
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
                .map(|outcome| format!("{}{}", Mark::Outcome(outcome).sign(), outcome.words()));
            format!("{same}; {open}; x or no sign: different from the reference.")
        }
    }
}
