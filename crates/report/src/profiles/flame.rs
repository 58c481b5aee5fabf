//! Flame graphs as SVG.

use inferno::flamegraph::color::{BackgroundColor, MultiPalette, Palette};
use inferno::flamegraph::{Options, TextTruncateDirection, from_lines};
use tare_analysis::profile::{Difference, Folded, label};

/// Stacks are drawn in thousandths of a nanosecond, so that rare ones are not rounded to nothing.
const PER_NS: f64 = 1000.0;

/// The page is light or dark as the reader prefers; frames keep their colours and dark text.
const STYLE: &str = "\
svg { --page: #ffffff; --ink: #1b1f24; }
@media (prefers-color-scheme: dark) { svg { --page: #14171b; --ink: #d7dce2; } }
svg > rect { fill: var(--page); }
svg > text { fill: var(--ink); }
#search { opacity: 0.7; }
#frames rect { stroke: #8a94a0; stroke-width: 0.3; }
#frames text { fill: #1b1f24; }
";

/// Returns the flame graph of a plane in nanoseconds per request; `None` if it cannot be drawn.
pub(super) fn graph(title: &str, stacks: &Folded) -> Option<Vec<u8>> {
    let mut options = options(
        title,
        "CPU time per request, by function; click to zoom, Ctrl-F to search",
    );
    options.colors = Palette::Multi(MultiPalette::Java);
    options.hash = true;
    let line = |(stack, samples): (&Vec<_>, &u64)| {
        let labels: Vec<String> = stack.iter().map(label).collect();
        let time = (*samples as f64 * stacks.weight_ns * PER_NS).round();
        format!("{} {time}", labels.join(";"))
    };
    let lines: Vec<String> = stacks.stacks.iter().map(line).collect();
    draw(options, &lines)
}

/// The stacks of two meshes: `plane;function;function REFERENCE MESH`, in thousandths of a nanosecond per
/// request.
pub(super) fn folded(difference: &Difference) -> String {
    let line = |((plane, stack), times): (&(_, Vec<String>), &[f64; 2])| {
        let plane: &tare_records::worker::Plane = plane;
        let [reference, mesh] = times.map(|ns| (ns * PER_NS).round());
        let mut frames = vec![plane.words()];
        frames.extend(stack.iter().map(String::as_str));
        format!("{} {reference} {mesh}\n", frames.join(";"))
    };
    difference.stacks.iter().map(line).collect()
}

/// Returns the difference flame graph of these stacks; `None` if it cannot be drawn.
pub(super) fn difference(title: &str, folded: &str) -> Option<Vec<u8>> {
    let options = options(
        title,
        "width: CPU time per request with the mesh; red: more than before, blue: less",
    );
    let lines: Vec<String> = folded.lines().map(str::to_owned).collect();
    draw(options, &lines)
}

fn options(title: &str, subtitle: &str) -> Options<'static> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned());
    options.count_name = "ns per request".to_owned();
    options.factor = 1.0 / PER_NS;
    options.bgcolors = Some(BackgroundColor::Flat((255, 255, 255).into()));
    options.font_type = "sans-serif".to_owned();
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.deterministic = true;
    options
}

fn draw(mut options: Options<'static>, lines: &[String]) -> Option<Vec<u8>> {
    let mut svg = Vec::new();
    from_lines(&mut options, lines.iter().map(String::as_str), &mut svg).ok()?;
    let svg = String::from_utf8(svg).ok()?;
    let (before, after) = svg.split_once("</style>")?;
    Some(format!("{before}{STYLE}</style>{after}").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    use tare_records::worker::Plane;

    #[test]
    fn a_difference_graph_has_both_colours_of_page_and_every_function() {
        let stack = |name: &str| (Plane::DataPlane, vec!["main".to_owned(), name.to_owned()]);
        let stacks = BTreeMap::from([
            (stack("work"), [100.0, 100.0]),
            (stack("burn"), [0.0, 300.25]),
        ]);
        let folded = folded(&Difference { stacks });
        assert_eq!(
            folded,
            "data plane;main;burn 0 300250\ndata plane;main;work 100000 100000\n"
        );
        let svg = String::from_utf8(super::difference("What b adds", &folded).unwrap()).unwrap();
        assert!(svg.contains("<title>burn (300 ns per request"), "{svg}");
        assert!(svg.contains("prefers-color-scheme: dark"));
        assert!(svg.contains("What b adds"));
    }

    #[test]
    fn without_stacks_there_is_no_graph() {
        assert_eq!(super::difference("empty", ""), None);
    }
}
