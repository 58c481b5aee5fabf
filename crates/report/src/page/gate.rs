//! The result of a gate, at the top of the page.

use tare_analysis::gate::name;
use tare_records::summary::{GateQuestion, GateResult, Outcome, Summary};

use super::html::Html;
use super::lanes::{self, Lane, Lanes};
use super::parts::caption;
use crate::table::{Mark, Scale, Value, html};
use crate::{gate_words, tables};

/// Appends the result; nothing for a run without a gate.
pub(super) fn first_screen(page: &mut Html, summary: &Summary) {
    let Some(gate) = &summary.gate else {
        return;
    };
    page.raw("<p class=\"lead\">")
        .tag("b", &gate_words::outcome(gate))
        .raw("</p>\n");
    let picture = picture(gate);
    if !picture.lanes.is_empty() {
        page.raw("<h3>Candidate over reference</h3>\n");
        lanes::write(page, &picture);
        caption(page, PICTURE);
    }
    html::write(page, &tables::gate(gate));
    caption(page, &gate_words::reading(gate));
}

/// How to read the picture.
const PICTURE: &str = "Dots with 95 % intervals. The grey band is the margin of the figure: a candidate within it passes, \
    and one whose interval is above it has regressed. Hollow: the reference over itself, which is the noise.";

/// Each figure on its margin, and below it the reference over itself.
fn picture(gate: &GateResult) -> Lanes {
    let lanes = gate.questions.iter().flat_map(|q| {
        let band = Some((1.0 / (1.0 + q.margin), 1.0 + q.margin));
        let lane = |name: &str, (value, low, high): (Option<f64>, _, _), mark| {
            let value = Value {
                value: value?,
                low,
                high,
                ..Value::default()
            };
            Some(Lane::new(name, value, mark).on_band(band))
        };
        let candidate = lane(
            name(q.what),
            (q.ratio, q.low, q.high),
            Mark::Outcome(outcome(q)),
        );
        let itself = (q.itself, q.itself_low, q.itself_high);
        [candidate, lane("reference again", itself, Mark::Nothing)]
    });
    Lanes {
        lanes: lanes.flatten().collect(),
        origin: 1.0,
        scale: Scale::Ratio,
    }
}

fn outcome(question: &GateQuestion) -> Outcome {
    let most = 1.0 + question.margin;
    match question.low.zip(question.high) {
        Some((low, _)) if low > most => Outcome::Different,
        _ if question.improved => Outcome::Different,
        Some((_, high)) if high <= most => Outcome::Same,
        _ => Outcome::NotResolved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_different_beyond_its_margin_and_the_same_within_it() {
        let of = |low: f64, high: f64, improved| {
            outcome(&GateQuestion {
                what: tare_plan::Figure::P50,
                margin: 0.05,
                ratio: Some(f64::midpoint(low, high)),
                low: Some(low),
                high: Some(high),
                itself: None,
                itself_low: None,
                itself_high: None,
                improved,
                blocks_to_pass: None,
            })
        };
        assert_eq!(of(1.06, 1.2, false), Outcome::Different);
        assert_eq!(of(0.8, 0.9, true), Outcome::Different);
        assert_eq!(of(0.97, 1.04, false), Outcome::Same);
        assert_eq!(of(0.97, 1.08, false), Outcome::NotResolved);
    }
}
