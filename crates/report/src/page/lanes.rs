//! A picture of estimates: a row for each, with its interval on a common axis. It needs no script, and fills the width of
//! the page.

use super::axis::Axis;
use super::html::Html;
use crate::table::{Mark, Scale, Value};

/// Height of a row, in pixels.
pub(super) const HEIGHT: u32 = 22;

/// One row.
pub(super) struct Lane {
    name: String,
    /// Where its bar begins; `None` for a dot.
    from: Option<f64>,
    /// Values that count as no difference, drawn as a grey band behind the row.
    band: Option<(f64, f64)>,
    value: Value,
}

impl Lane {
    /// A row with a dot.
    pub(super) fn new(name: &str, value: impl Into<Value>, mark: Mark) -> Self {
        Self {
            name: name.to_owned(),
            from: None,
            band: None,
            value: Value {
                mark,
                ..value.into()
            },
        }
    }

    /// With a bar that begins there, in place of the dot.
    pub(super) fn bar_from(mut self, from: f64) -> Self {
        self.from = Some(from);
        self
    }

    /// With the values that count as no difference.
    pub(super) fn on_band(mut self, band: Option<(f64, f64)>) -> Self {
        self.band = band;
        self
    }

    /// From its bar's beginning, if it has one.
    fn at(&self, value: f64) -> f64 {
        self.from.unwrap_or(0.0) + value
    }

    fn ends(&self) -> Option<(f64, f64)> {
        let ends = self.value.low.zip(self.value.high);
        ends.map(|(low, high)| (self.at(low), self.at(high)))
    }
}

/// Rows on a common axis.
pub(super) struct Lanes {
    pub(super) lanes: Vec<Lane>,
    /// Where nothing is different: 0 of differences, 1 of ratios.
    pub(super) origin: f64,
    pub(super) scale: Scale,
}

/// Shows the origin, all estimates, and the intervals of all that is certain. Those of others may be cut.
fn axis(lanes: &Lanes) -> Axis {
    Axis::around(
        lanes.origin,
        lanes.lanes.iter().flat_map(|lane| {
            let ends = lane.ends().filter(|_| !lane.value.mark.is_open());
            let ends = ends.into_iter().flat_map(|(low, high)| [low, high]);
            ends.chain(lane.from).chain([lane.at(lane.value.value)])
        }),
    )
}

/// Appends the picture; nothing without a row.
pub(super) fn write(page: &mut Html, lanes: &Lanes) {
    if lanes.lanes.is_empty() {
        return;
    }
    let axis = axis(lanes);
    page.raw("<ol class=\"lanes\">\n");
    for lane in &lanes.lanes {
        let shown = lanes.scale.shown(&lane.value, false);
        let open = lane.value.mark.is_open();
        page.raw(if open { "<li class=\"open\">" } else { "<li>" });
        page.tag("span", &lane.name);
        track(page, lanes, lane, &axis);
        let sign = lane.value.mark.sign();
        page.raw("<span class=\"figure\">")
            .tag("b", &format!("{sign}{}", shown.value));
        if let Some(interval) = shown.interval {
            page.raw(" ").tag("small", &interval);
        }
        page.raw("</span></li>\n");
    }
    page.raw("<li class=\"ticks\" aria-hidden=\"true\"><span></span>");
    open(page);
    for tick in axis.ticks() {
        let x = axis.place(tick);
        page.raw(&format!(
            "<text x=\"{x:.1}%\" y=\"14\" text-anchor=\"middle\" font-size=\"11\" style=\"fill:var(--quiet)\">"
        ));
        page.text(&Axis::label(lanes.scale, tick)).raw("</text>");
    }
    page.raw("</svg><span></span></li>\n</ol>\n");
}

/// The interval and the estimate of one row, or its bar.
fn track(page: &mut Html, lanes: &Lanes, lane: &Lane, axis: &Axis) {
    let middle = HEIGHT / 2;
    open(page);
    if let Some((low, high)) = lane.band {
        let (low, high) = (axis.place(low), axis.place(high));
        rect(page, (low, high), (0, HEIGHT), "fill:var(--grid)");
    }
    let zero = axis.place(lanes.origin);
    page.raw(&format!(
        "<line x1=\"{zero:.1}%\" x2=\"{zero:.1}%\" y1=\"0\" y2=\"{HEIGHT}\" style=\"stroke:var(--edge)\"/>"
    ));
    let colour = match lane.value.mark {
        Mark::Outcome(_) if !lane.value.mark.is_different() => "var(--quiet)",
        _ => "var(--mesh-1)",
    };
    page.raw("<g class=\"mark\">");
    let value = axis.place(lane.at(lane.value.value));
    if let Some(from) = lane.from {
        let (low, high) = (axis.place(from).min(value), axis.place(from).max(value));
        let style = format!("fill:{colour};fill-opacity:0.5");
        rect(page, (low, high), (4, HEIGHT - 8), &style);
    }
    if let Some((low, high)) = lane.ends() {
        for (end, x, sign) in [(low, "0", "\u{2039}"), (high, "100%", "\u{203a}")] {
            if !axis.shows(end) {
                page.raw(&format!(
                    "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"14\" style=\"fill:{colour}\">{sign}</text>",
                    middle + 5
                ));
            }
        }
        let (low, high) = (axis.place(low), axis.place(high));
        page.raw(&format!(
            "<line x1=\"{low:.1}%\" x2=\"{high:.1}%\" y1=\"{middle}\" y2=\"{middle}\" stroke-width=\"2\" \
             style=\"stroke:{colour}\"/>"
        ));
    }
    if lane.from.is_none() {
        let fill = if lane.value.mark.is_different() {
            colour
        } else {
            "var(--paper)"
        };
        page.raw(&format!(
            "<circle cx=\"{value:.1}%\" cy=\"{middle}\" r=\"4\" stroke-width=\"2\" style=\"fill:{fill};stroke:{colour}\"/>"
        ));
    }
    page.raw("</g></svg>");
}

/// Opens a drawing as wide as its column. The row says the same in words, so it is hidden from readers of text.
pub(super) fn open(page: &mut Html) {
    page.raw(&format!(
        "<svg width=\"100%\" height=\"{HEIGHT}\" aria-hidden=\"true\" xmlns=\"http://www.w3.org/2000/svg\">"
    ));
}

fn rect(page: &mut Html, (low, high): (f64, f64), (y, height): (u32, u32), style: &str) {
    page.raw(&format!(
        "<rect x=\"{low:.1}%\" width=\"{:.1}%\" y=\"{y}\" height=\"{height}\" style=\"{style}\"/>",
        high - low
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::Unit;
    use tare_records::summary::Outcome;

    fn lane(name: &str, value: f64, half: f64, outcome: Outcome) -> Lane {
        let value = Value {
            value,
            low: Some(value - half),
            high: Some(value + half),
            ..Value::default()
        };
        Lane::new(name, value, Mark::Outcome(outcome))
    }

    fn drawn(lanes: Vec<Lane>) -> String {
        let mut page = Html::default();
        let lanes = Lanes {
            lanes,
            origin: 0.0,
            scale: Scale::Added(Unit::Ns),
        };
        write(&mut page, &lanes);
        page.0
    }

    #[test]
    fn a_row_has_its_name_its_mark_and_its_figure() {
        let html = drawn(vec![
            lane("jwt<", 38e3, 3e3, Outcome::Different),
            lane("mtls", 1e3, 2e3, Outcome::Same),
        ]);
        assert!(html.contains("<span>jwt&lt;</span>"), "{html}");
        assert!(
            html.contains("<b>+38 µs</b> <small>35 to 41</small>"),
            "{html}"
        );
        assert!(html.contains("<b>= +1 µs</b>"), "{html}");
        assert_eq!(html.matches("<circle").count(), 2);
        assert_eq!(
            html.matches("fill:var(--paper)").count(),
            1,
            "hollow if not different"
        );
        assert!(html.contains(">0 ns<") || html.contains(">0 µs<"), "{html}");
    }

    #[test]
    fn an_uncertain_interval_does_not_set_the_axis_and_is_cut_visibly() {
        let sure = || lane("jwt", 38e3, 3e3, Outcome::Different);
        let axis = |lanes| {
            axis(&Lanes {
                lanes,
                origin: 0.0,
                scale: Scale::Added(Unit::Ns),
            })
        };
        let wild = || lane("wild", 5e3, 900e3, Outcome::NotResolved);
        let both = axis(vec![sure(), wild()]);
        assert!(
            both.to < 50e3 && both.from > -10e3,
            "{} {}",
            both.from,
            both.to
        );
        let html = drawn(vec![sure(), wild()]);
        assert!(
            html.contains('\u{2039}') && html.contains('\u{203a}'),
            "{html}"
        );
        assert!(html.contains("class=\"open\""), "{html}");
        assert!(!drawn(vec![sure()]).contains('\u{203a}'));
        assert_eq!(drawn(Vec::new()), "");
    }

    #[test]
    fn the_bar_of_a_part_begins_where_it_stands() {
        let part = lane("called services", 3e6, 1e5, Outcome::Different).bar_from(2e6);
        assert_eq!(part.ends(), Some((4.9e6, 5.1e6)));
        let html = drawn(vec![part]);
        assert!(
            !html.contains("<circle") && html.contains("fill-opacity"),
            "{html}"
        );
    }
}
