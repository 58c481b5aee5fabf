//! The factors of a sweep.

use tare_plan::Figure;
use tare_records::summary::{FactorSummary, Slice, Summary, SweepFigure, SweepPoint, SweepRatio};

use crate::table::{Cell, Column, Mark, Scale, Table};
use crate::{fit_words, words};

/// The title of the levels of a factor, with the levels of the others.
fn heading(factor: &FactorSummary, slice: &Slice) -> String {
    let title = words::capitalised(&factor.title);
    match slice.at.as_str() {
        "" => title,
        at => format!("{title}, {at}"),
    }
}

/// The figures at each level.
pub(crate) fn points(summary: &Summary, factor: &FactorSummary, slice: &Slice) -> Table {
    let over = |what: &str, of: &str| Column::number(format!("{what} over {of}"), Scale::Ratio);
    let base = &summary.baseline;
    let anchor = &factor.levels[0].label;
    let columns = [
        Column::text("mesh"),
        Column::text("level"),
        Column::figure(Figure::Mean).wide(),
        Column::figure(Figure::P50).brief(),
        over(Figure::P50.label(), base),
        over(Figure::P50.label(), anchor).wide(),
        Column::figure(Figure::P99).wide(),
        over(Figure::P99.label(), base).wide(),
        over(Figure::P99.label(), anchor).wide(),
        Column::figure(Figure::Cpu).brief(),
        over("CPU", base),
        over("CPU", anchor).wide(),
        Column::number("memory", Scale::Mib).wide(),
    ];
    let row = |mesh: &str, point: &SweepPoint| {
        let find = |what| point.figures.iter().find(|f| f.what == what);
        let value = |what| Cell::estimate(find(what).map(|f: &SweepFigure| &f.estimate));
        let mut row = vec![
            Cell::mesh(summary, mesh),
            Cell::text(&point.level),
            value(Figure::Mean),
        ];
        for what in [Figure::P50, Figure::P99, Figure::Cpu] {
            let found = find(what);
            row.push(value(what));
            row.push(ratio(found.and_then(|f| f.to_baseline.as_ref())));
            row.push(ratio(found.and_then(|f| f.to_anchor.as_ref())));
        }
        row.push(value(Figure::Memory));
        row
    };
    let lines = slice.lines.iter();
    let rows = lines.flat_map(|line| line.points.iter().map(|p| row(&line.mesh, p)));
    Table::new(heading(factor, slice), columns, rows)
}

fn ratio(ratio: Option<&SweepRatio>) -> Cell {
    ratio.map_or(Cell::Absent(""), |r| {
        let note = r.outcome.words();
        Cell::value(r.value, r.low, r.high).marked(Mark::Outcome(r.outcome), note)
    })
}

/// The fitted lines; `None` without one.
pub(crate) fn fits(summary: &Summary, factor: &FactorSummary, slice: &Slice) -> Option<Table> {
    let columns = [
        Column::text("mesh"),
        Column::text("figure"),
        Column::number(format!("adds per {}", factor.unit), Scale::Number),
        Column::number(format!("of it over {}", summary.baseline), Scale::Number),
        Column::number("at 0", Scale::Number),
        Column::text("largest residual"),
    ];
    let rows = slice.lines.iter().flat_map(|line| {
        line.fits.iter().map(|fit| {
            let amount = |e| Cell::text(fit_words::amount(e, fit.unit));
            vec![
                Cell::mesh(summary, &line.mesh),
                Cell::text(fit.what.phrase()),
                amount(&fit.slope),
                fit.over_baseline.as_ref().map_or(Cell::Absent(""), amount),
                amount(&fit.intercept),
                Cell::words(fit_words::residual(line, fit).unwrap_or_default()),
            ]
        })
    });
    let heading = format!("Lines: {}", heading(factor, slice));
    Table::new(heading, columns, rows).if_any()
}
