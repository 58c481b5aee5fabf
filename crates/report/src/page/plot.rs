//! A picture of points with two coordinates, such as what was answered over what was offered. It needs no script, and
//! fills the width of the page.

use super::axis::Axis;
use super::html::Html;
use crate::table::Scale;

/// Size in pixels: the drawing without the labels of the axes.
const HEIGHT: f64 = 240.0;
/// Room for the labels of the vertical axis, and below the horizontal one.
const LEFT: u32 = 56;
const BELOW: u32 = 22;
/// Shapes of the points, so that the series differ without colours as well.
const SHAPES: usize = 4;

/// Points of one kind, in one colour and one shape.
pub(super) struct Series {
    pub(super) name: String,
    /// Number of the colour of its mesh.
    pub(super) colour: usize,
    pub(super) is_joined: bool,
    pub(super) points: Vec<Point>,
}

/// A point with its interval on the vertical axis.
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) interval: Option<(f64, f64)>,
    /// Drawn hollow.
    pub(super) is_open: bool,
}

/// A straight line or a band behind the points, with its label.
pub(super) enum Guide<'a> {
    /// Both coordinates are the same.
    Diagonal(&'a str),
    /// At this height.
    Level(f64, &'a str),
    /// From one place on the horizontal axis to another.
    Span(f64, f64, &'a str),
}

/// Points on two axes.
pub(super) struct Plot<'a> {
    pub(super) x: (&'a str, Axis, Scale),
    pub(super) y: (&'a str, Axis, Scale),
    pub(super) guide: Option<Guide<'a>>,
    pub(super) series: Vec<Series>,
}

/// Appends the picture; nothing without a point.
pub(super) fn write(page: &mut Html, plot: &Plot<'_>) {
    if plot.series.iter().all(|s| s.points.is_empty()) {
        return;
    }
    let (x_title, x_axis, x_scale) = &plot.x;
    let (y_title, y_axis, y_scale) = &plot.y;
    page.raw("<figure class=\"plot\">\n<figcaption>")
        .tag("b", y_title);
    for (i, series) in plot.series.iter().enumerate() {
        page.raw("<span><svg width=\"14\" height=\"14\" aria-hidden=\"true\">");
        mark(page, ("7", 7.0), i, series.colour, false);
        page.raw("</svg> ").text(&series.name).raw("</span>");
    }
    page.raw("</figcaption>\n");
    let described = described(plot);
    page.raw("<svg class=\"axis\" width=\"100%\" height=\"")
        .raw(&format!(
            "{}\" role=\"img\" aria-label=\"",
            HEIGHT + f64::from(BELOW)
        ))
        .text(&described)
        .raw("\" xmlns=\"http://www.w3.org/2000/svg\">\n");
    // Positions are shares of what is right of the labels.
    page.raw(&format!(
        "<svg x=\"{LEFT}\" width=\"90%\" style=\"width:calc(100% - {}px)\" height=\"{HEIGHT}\" overflow=\"visible\">\n",
        LEFT + 12
    ));
    for tick in y_axis.ticks() {
        let y = height(y_axis, tick);
        line(page, (0.0, y), (100.0, y), "stroke:var(--grid)");
        label(page, ("-6px", y + 4.0), "end", &Axis::label(*y_scale, tick));
    }
    for tick in x_axis.ticks() {
        let x = x_axis.place(tick);
        label(
            page,
            (&format!("{x:.1}%"), HEIGHT + 15.0),
            "middle",
            &Axis::label(*x_scale, tick),
        );
    }
    guide(page, plot);
    for (i, series) in plot.series.iter().enumerate() {
        let colour = format!("stroke:var(--mesh-{})", series.colour);
        let at = |p: &Point| (x_axis.place(p.x), height(y_axis, p.y));
        for pair in series.points.windows(2).filter(|_| series.is_joined) {
            line(
                page,
                at(&pair[0]),
                at(&pair[1]),
                &format!("{colour};stroke-opacity:0.5"),
            );
        }
        for point in &series.points {
            let (x, y) = at(point);
            if let Some((low, high)) = point.interval {
                let [low, high] = [low, high].map(|end| height(y_axis, end));
                line(
                    page,
                    (x, low),
                    (x, high),
                    &format!("{colour};stroke-width:2"),
                );
            }
            mark(
                page,
                (&format!("{x:.1}%"), y),
                i,
                series.colour,
                point.is_open,
            );
        }
    }
    page.raw("</svg>\n</svg>\n");
    page.raw("<p class=\"below\">")
        .text(x_title)
        .raw("</p>\n</figure>\n");
}

/// Most points of a series that are said in words; of more, only the first and the last.
const SAID_MAX: usize = 12;

/// The figures in words, for readers without the picture.
fn described(plot: &Plot<'_>) -> String {
    let (_, _, x_scale) = &plot.x;
    let (_, _, y_scale) = &plot.y;
    let of = |series: &Series| {
        let said = |p: &Point| format!("{} at {}", y_scale.number(p.y), x_scale.number(p.x));
        let words = match &series.points[..] {
            [first, .., last] if series.points.len() > SAID_MAX => format!(
                "{} points, from {} to {}",
                series.points.len(),
                said(first),
                said(last)
            ),
            points => points.iter().map(said).collect::<Vec<_>>().join(", "),
        };
        format!("{}: {words}", series.name)
    };
    let all: Vec<String> = plot.series.iter().map(of).collect();
    format!("{} over {}. {}", plot.y.0, plot.x.0, all.join("; "))
}

/// From the top, in pixels.
fn height(axis: &Axis, value: f64) -> f64 {
    HEIGHT * (1.0 - axis.place(value) / 100.0)
}

fn guide(page: &mut Html, plot: &Plot<'_>) {
    let ((_, x, _), (_, y, _)) = (&plot.x, &plot.y);
    let style = "stroke:var(--quiet);stroke-dasharray:4 4";
    let (end, words) = match plot.guide {
        None => return,
        Some(Guide::Diagonal(words)) => {
            let (from, to) = (x.from.max(y.from), x.to.min(y.to));
            let at = |v: f64| (x.place(v), height(y, v));
            line(page, at(from), at(to), style);
            // Points are mostly at its end.
            (at(f64::midpoint(from, to)), words)
        }
        Some(Guide::Level(level, words)) => {
            let y = height(y, level);
            line(page, (0.0, y), (100.0, y), style);
            ((100.0, y), words)
        }
        Some(Guide::Span(from, to, words)) => {
            let [from, to] = [x.place(from), x.place(to)];
            page.raw(&format!(
                "<rect x=\"{from:.1}%\" y=\"0\" width=\"{:.1}%\" height=\"{HEIGHT}\" style=\"fill:var(--grid);fill-opacity:0.6\"/>",
                to - from
            ));
            ((to, 0.0), words)
        }
    };
    // Below a line at the upper edge.
    let beside = if end.1 > 16.0 { -5.0 } else { 14.0 };
    label(
        page,
        (&format!("{:.1}%", end.0), end.1 + beside),
        "end",
        words,
    );
}

/// Positions: in percent from the left, in pixels from the top.
fn line(page: &mut Html, from: (f64, f64), to: (f64, f64), style: &str) {
    page.raw(&format!(
        "<line x1=\"{:.1}%\" y1=\"{:.1}\" x2=\"{:.1}%\" y2=\"{:.1}\" style=\"{style}\"/>",
        from.0, from.1, to.0, to.1
    ));
}

fn label(page: &mut Html, (x, y): (&str, f64), anchor: &str, words: &str) {
    page.raw(&format!(
        "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"11\" style=\"fill:var(--quiet)\">"
    ));
    page.text(words).raw("</text>");
}

/// A point in the shape of its series.
fn mark(page: &mut Html, (x, y): (&str, f64), shape: usize, colour: usize, is_open: bool) {
    let colour = format!("var(--mesh-{colour})");
    let fill = if is_open { "var(--paper)" } else { &*colour };
    let style = format!("style=\"fill:{fill};stroke:{colour};stroke-width:2\"");
    // Shapes that are paths are moved by a drawing of their own, because a path has no shares of a width.
    let path = match shape % SHAPES {
        0 => {
            page.raw(&format!(
                "<circle cx=\"{x}\" cy=\"{y:.1}\" r=\"4\" {style}/>"
            ));
            return;
        }
        1 => "M-4 -4h8v8h-8z",
        2 => "M0 -5l5 9h-10z",
        _ => "M0 -5l5 5l-5 5l-5 -5z",
    };
    page.raw(&format!(
        "<svg x=\"{x}\" y=\"{y:.1}\" overflow=\"visible\"><path d=\"{path}\" {style}/></svg>"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<Point>) -> Plot<'static> {
        Plot {
            x: (
                "offered, rps",
                Axis::from_zero([0.0, 600.0].into_iter()),
                Scale::Rps,
            ),
            y: (
                "answered, rps",
                Axis::from_zero([0.0, 600.0].into_iter()),
                Scale::Rps,
            ),
            guide: Some(Guide::Diagonal("all are answered")),
            series: vec![Series {
                name: "a<b".to_owned(),
                colour: 3,
                is_joined: true,
                points,
            }],
        }
    }

    #[test]
    fn a_plot_has_its_points_and_says_them_in_words() {
        let mut page = Html::default();
        let point = |x, y| Point {
            x,
            y,
            interval: Some((y - 20.0, y + 20.0)),
            is_open: false,
        };
        write(
            &mut page,
            &plot(vec![point(200.0, 200.0), point(500.0, 320.0)]),
        );
        let html = page.0;
        // The one of the legend, and two points with intervals, which one line joins. Another line is the diagonal.
        assert_eq!(html.matches("<circle").count(), 3, "{html}");
        assert!(html.contains("a&lt;b: 200 at 200, 320 at 500"), "{html}");
        assert_eq!(html.matches("stroke-dasharray").count(), 1);
        assert_eq!(html.matches("stroke-opacity").count(), 1);
        assert_eq!(
            html.matches("stroke:var(--mesh-3);stroke-width:2\"/><")
                .count(),
            5,
            "{html}"
        );
        assert!(html.contains("all are answered"));
    }

    #[test]
    fn a_plot_without_points_is_not_drawn() {
        let mut page = Html::default();
        write(&mut page, &plot(Vec::new()));
        assert_eq!(page.0, "");
    }
}
