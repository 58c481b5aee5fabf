//! A picture of sums: a bar for each name, divided into its parts, all on one axis. It needs no script.

use super::html::Html;
use super::lanes::{self, HEIGHT};
use crate::table::Scale;

/// Parts that have a colour of their own; the rest is one part.
const PARTS_MAX: usize = 7;

/// A bar: its name, and the size of each part in the order of [`Stack::parts`].
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) sizes: Vec<f64>,
}

/// Bars with the same parts.
pub(super) struct Stack {
    pub(super) parts: Vec<String>,
    pub(super) bars: Vec<Bar>,
    pub(super) scale: Scale,
}

impl Stack {
    /// The largest parts first, as they are in the bar in which each is largest; the smallest together as `other`.
    fn sorted(&self) -> (Vec<String>, Vec<Vec<f64>>) {
        let largest = |part: usize| {
            let sizes = self.bars.iter().map(|bar| bar.sizes[part]);
            sizes.fold(0.0, f64::max)
        };
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by(|a, b| largest(*b).total_cmp(&largest(*a)));
        let split = match order.len() > PARTS_MAX {
            true => PARTS_MAX - 1,
            false => order.len(),
        };
        let (own, rest) = order.split_at(split);
        let mut names: Vec<String> = own.iter().map(|i| self.parts[*i].clone()).collect();
        names.extend((!rest.is_empty()).then(|| "other".to_owned()));
        let sizes = self.bars.iter().map(|bar| {
            let mut sizes: Vec<f64> = own.iter().map(|i| bar.sizes[*i]).collect();
            let others: f64 = rest.iter().map(|i| bar.sizes[*i]).sum();
            sizes.extend((!rest.is_empty()).then_some(others));
            sizes
        });
        (names, sizes.collect())
    }
}

/// Appends the picture; nothing without a bar.
pub(super) fn write(page: &mut Html, stack: &Stack) {
    let (names, sizes) = stack.sorted();
    let sums: Vec<f64> = sizes.iter().map(|bar| bar.iter().sum()).collect();
    let most = sums.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return;
    }
    page.raw("<p class=\"parts\">");
    for (i, name) in names.iter().enumerate() {
        page.raw(&format!(
            "<span><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" style=\"{}\"/></svg> ",
            fill(i)
        ))
        .text(name)
        .raw("</span> ");
    }
    page.raw("</p>\n<ol class=\"lanes\">\n");
    for ((bar, sizes), sum) in stack.bars.iter().zip(&sizes).zip(&sums) {
        let number = |ns: f64| format!("{} {}", stack.scale.number(ns), stack.scale.unit());
        page.raw("<li>").tag("span", &bar.name);
        lanes::open(page);
        let mut from = 0.0;
        for (i, size) in sizes.iter().enumerate() {
            let width = size / most * 100.0;
            page.raw(&format!(
                "<rect x=\"{from:.2}%\" width=\"{width:.2}%\" y=\"2\" height=\"{}\" style=\"{};stroke:var(--paper)\"><title>",
                HEIGHT - 4,
                fill(i)
            ))
            .text(&format!("{}: {}", names[i], number(*size)))
            .raw("</title></rect>");
            from += width;
        }
        page.raw("</svg><span class=\"figure\">")
            .tag("b", &number(*sum))
            .raw("</span></li>\n");
    }
    page.raw("</ol>\n");
}

fn fill(part: usize) -> String {
    format!("fill:var(--mesh-{})", (part + 1) % 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_parts_come_first_and_the_smallest_together() {
        let bar = |name: &str, sizes: &[f64]| Bar {
            name: name.to_owned(),
            sizes: sizes.to_vec(),
        };
        let stack = Stack {
            parts: (0..9).map(|i| format!("<{i}>")).collect(),
            bars: vec![
                bar("bare", &[1e3, 9e3, 0.0, 3e3, 4e3, 5e3, 6e3, 7e3, 8e3]),
                bar("envoy", &[2e3, 0.0, 50e3, 3e3, 4e3, 5e3, 6e3, 7e3, 8e3]),
            ],
            scale: Scale::TenthMicros,
        };
        let (names, sizes) = stack.sorted();
        assert_eq!(names, ["<2>", "<1>", "<8>", "<7>", "<6>", "<5>", "other"]);
        assert_eq!(sizes[0], [0.0, 9e3, 8e3, 7e3, 6e3, 5e3, 8e3]);
        assert_eq!(sizes[1].iter().sum::<f64>(), 85e3);
        let mut page = Html::default();
        write(&mut page, &stack);
        assert!(page.0.contains("&lt;2&gt;: 50.0 µs"), "{}", page.0);
        assert!(page.0.contains("<b>85.0 µs</b>"), "{}", page.0);
        assert_eq!(page.0.matches("<li>").count(), 2);
        let mut none = Html::default();
        write(
            &mut none,
            &Stack {
                bars: Vec::new(),
                ..stack
            },
        );
        assert_eq!(none.0, "");
    }
}
