//! Ratios of pairs of meshes.

use tare_analysis::figures;
use tare_plan::{Figure, Unit};
use tare_records::summary::{MeshComparison, MoreBlocks, Ratio, Summary};

use crate::table::{Cell, Column, Scale, Table};
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
        let mut columns = vec![Column::text(format!("over {reference}"))];
        columns.extend(FIGURES.map(column));
        let row = |c: &&MeshComparison| {
            let mut row = vec![Cell::mesh(summary, &c.mesh)];
            row.extend(FIGURES.map(|figure| Cell::ratio(c.ratio(figure), difference)));
            row
        };
        let rows = own.into_iter().map(row);
        let heading = format!("{}, over {reference}", words::load_of(summary, load));
        Table::new(heading, columns, rows)
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
    let columns = [
        Column::text("mesh"),
        Column::text("over"),
        Column::text("figure"),
        Column::number("ratio", Scale::Ratio),
        Column::text("outcome"),
        Column::number("blocks", Scale::Count),
        Column::number("p", Scale::Probability),
        Column::number("p, Holm", Scale::Probability),
        Column::number("margin", Scale::Margin),
        Column::number("detectable", Scale::Number),
        Column::number("more blocks", Scale::Number),
    ];
    let rows = of_load(summary, load).into_iter().flat_map(|c| {
        c.ratios.iter().map(|r| {
            let detectable = r.detectable.map(|[least, most]| {
                let words = |x: f64| figures::significant(x.min(1_000.0));
                format!("x{} to x{}", words(least), words(most))
            });
            vec![
                Cell::mesh(summary, &c.mesh),
                Cell::text(&c.reference),
                Cell::text(r.what.label()),
                Cell::value(r.value, r.low, r.high),
                Cell::Outcome(r.outcome, r.outcome.words()),
                Cell::count(r.blocks.len() as u64),
                Cell::number(r.p),
                Cell::number(r.p_holm),
                Cell::Number(r.margin),
                Cell::words(detectable.unwrap_or_default()),
                Cell::words(r.more_blocks.map_or_else(String::new, more)),
            ]
        })
    });
    Table::new(words::load_of(summary, load), columns, rows)
}

fn more(blocks: MoreBlocks) -> String {
    match blocks.high {
        Some(high) if high > blocks.low => format!("{} to {high}", blocks.low),
        Some(_) => blocks.low.to_string(),
        None => format!("{} to more than 1,000", blocks.low),
    }
}
