//! Ratios of pairs of meshes.

use tare_analysis::figures;
use tare_plan::{Figure, Unit};
use tare_records::summary::{MeshComparison, MoreBlocks, Ratio, Summary};

use crate::table::{Cell, Column, Columns, Scale, Table};
use crate::words;

/// The columns of ratios.
const FIGURES: [Figure; 11] = [
    Figure::P50,
    Figure::P90,
    Figure::P99,
    Figure::P99_9,
    Figure::Cpu,
    Figure::ProxyCpu,
    Figure::MachineCpu,
    Figure::NodeCpu,
    Figure::Memory,
    Figure::Instructions,
    Figure::Cycles,
];

fn of_load<'a>(summary: &'a Summary, load: &str) -> Vec<&'a MeshComparison> {
    let all = summary.comparisons.iter();
    all.filter(|c| c.load == load).collect()
}

/// The ratios under a load: a table for each mesh that others are divided by.
pub(crate) fn ratios(summary: &Summary, load: &str) -> Vec<Table> {
    let here = of_load(summary, load);
    let of = |reference: &str| {
        let own: Vec<_> = here.iter().filter(|c| c.reference == reference).collect();
        // One figure of CPU where there is little room, if all pairs have it.
        let has = |c: &MeshComparison, figure| c.ratio(figure).is_some();
        let mut common = Figure::CPU.into_iter();
        let common = common.find(|figure| own.iter().all(|c| has(c, *figure)));
        let first = |c: &&&MeshComparison| Figure::CPU.into_iter().find(|f| has(c, *f));
        let cpu = match common {
            Some(figure) => vec![figure],
            None => own.iter().filter_map(first).collect(),
        };
        let column = |figure: Figure| {
            let column = Column::ratio(figure);
            match figure {
                Figure::P50 | Figure::P99 => column,
                _ if cpu.contains(&figure) => column.optional(),
                _ => column.optional().wide(),
            }
        };
        let ratio = |c: &MeshComparison, figure| Cell::ratio(c.ratio(figure), difference);
        let load = words::load_of(summary, load);
        Columns::of(own)
            .mesh(format!("over {reference}"), summary, |c| &c.mesh)
            .each(FIGURES, column, |c, figure| ratio(c, figure))
            .table(format!("{load}, over {reference}"))
    };
    let references = words::references(&here);
    references.into_iter().map(of).collect()
}

/// The difference on this machine.
pub(crate) fn difference(ratio: &Ratio) -> String {
    match ratio.unit {
        Unit::Ns => figures::signed_duration(ratio.difference),
        unit => figures::signed(ratio.difference, figures::in_unit(ratio.difference, unit)),
    }
}

/// The statistics of each ratio beyond its interval.
pub(crate) fn statistics(summary: &Summary, load: &str) -> Table {
    let rows = of_load(summary, load).into_iter();
    let rows = rows.flat_map(|c| c.ratios.iter().map(move |ratio| (c, ratio)));
    let number = |label| Column::number(label, Scale::Number);
    let p = |label| Column::number(label, Scale::Probability);
    let blocks = Column::number("blocks", Scale::Count);
    Columns::of(rows)
        .mesh("mesh", summary, |(c, _)| &c.mesh)
        .with(Column::text("over"), |(c, _)| Cell::text(&c.reference))
        .with(Column::text("figure"), |(_, r)| Cell::text(r.what.label()))
        .with(Column::number("ratio", Scale::Ratio), |(_, r)| {
            Cell::value(r.value, r.low, r.high)
        })
        .with(Column::text("outcome"), |(_, r)| {
            Cell::Outcome(r.outcome, r.outcome.words())
        })
        .count(blocks, |(_, r)| r.blocks.len() as u64)
        .with(p("p"), |(_, r)| Cell::number(r.p))
        .with(p("p, Holm"), |(_, r)| Cell::number(r.p_holm))
        .with(Column::number("margin", Scale::Margin), |(_, r)| {
            Cell::Number(r.margin)
        })
        .with(number("detectable"), |(_, r)| detectable(r))
        .with(number("more blocks"), |(_, r)| {
            Cell::words(r.more_blocks.map_or_else(String::new, more))
        })
        .table(words::load_of(summary, load))
}

/// The ratios that the blocks can detect.
fn detectable(ratio: &Ratio) -> Cell {
    let words = |x: f64| figures::significant(x.min(1_000.0));
    ratio.detectable.map_or(Cell::Absent(""), |[least, most]| {
        Cell::text(format!("x{} to x{}", words(least), words(most)))
    })
}

fn more(blocks: MoreBlocks) -> String {
    match blocks.high {
        Some(high) if high > blocks.low => format!("{} to {high}", blocks.low),
        Some(_) => blocks.low.to_string(),
        None => format!("{} to more than 1,000", blocks.low),
    }
}
