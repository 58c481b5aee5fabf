//! The factors of a sweep.

use tare_plan::Figure;
use tare_records::summary::{
    Estimate, FactorSummary, Fit, Slice, Summary, SweepFigure, SweepPoint, SweepRatio,
};

use crate::table::{Cell, Column, Columns, Mark, Scale, Table};
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
    let over_base = |what| over(what, &summary.baseline);
    let over_anchor = |what| over(what, &factor.levels[0].label).wide();
    let to_base = |p, what| ratio(find(p, what).and_then(|f| f.to_baseline.as_ref()));
    let to_anchor = |p, what| ratio(find(p, what).and_then(|f| f.to_anchor.as_ref()));
    let memory = Column::number("memory", Scale::Mib).wide();
    let [p50, p99, cpu] = [Figure::P50, Figure::P99, Figure::Cpu];
    let lines = slice.lines.iter();
    Columns::of(lines.flat_map(|line| line.points.iter().map(move |p| (line, p))))
        .mesh("mesh", summary, |(line, _)| &line.mesh)
        .with(Column::text("level"), |(_, p)| Cell::text(&p.level))
        .estimate(Column::figure(Figure::Mean).wide(), |(_, p)| {
            estimate(p, Figure::Mean)
        })
        .estimate(Column::figure(p50).brief(), |(_, p)| estimate(p, p50))
        .with(over_base(p50.label()), |(_, p)| to_base(p, p50))
        .with(over_anchor(p50.label()), |(_, p)| to_anchor(p, p50))
        .estimate(Column::figure(p99).wide(), |(_, p)| estimate(p, p99))
        .with(over_base(p99.label()).wide(), |(_, p)| to_base(p, p99))
        .with(over_anchor(p99.label()), |(_, p)| to_anchor(p, p99))
        .estimate(Column::figure(cpu).brief(), |(_, p)| estimate(p, cpu))
        .with(over_base("CPU"), |(_, p)| to_base(p, cpu))
        .with(over_anchor("CPU"), |(_, p)| to_anchor(p, cpu))
        .estimate(memory, |(_, p)| estimate(p, Figure::Memory))
        .table(heading(factor, slice))
}

fn find(point: &SweepPoint, what: Figure) -> Option<&SweepFigure> {
    point.figures.iter().find(|f| f.what == what)
}

fn estimate(point: &SweepPoint, what: Figure) -> Option<&Estimate> {
    find(point, what).map(|f| &f.estimate)
}

fn ratio(ratio: Option<&SweepRatio>) -> Cell {
    ratio.map_or(Cell::Absent(""), |r| {
        let note = r.outcome.words();
        Cell::value(r.value, r.low, r.high).marked(Mark::Outcome(r.outcome), note)
    })
}

/// The fitted lines; `None` without one.
pub(crate) fn fits(summary: &Summary, factor: &FactorSummary, slice: &Slice) -> Option<Table> {
    let number = |label| Column::number(label, Scale::Number);
    let adds = number(format!("adds per {}", factor.unit));
    let over_base = number(format!("of it over {}", summary.baseline));
    let amount = |e: &Estimate, fit: &Fit| Cell::text(fit_words::amount(e, fit.unit));
    let over = |fit: &Fit| {
        let found = fit.over_baseline.as_ref();
        found.map_or(Cell::Absent(""), |e| amount(e, fit))
    };
    let residual = |line, fit| Cell::words(fit_words::residual(line, fit).unwrap_or_default());
    let lines = slice.lines.iter();
    Columns::of(lines.flat_map(|line| line.fits.iter().map(move |fit| (line, fit))))
        .mesh("mesh", summary, |(line, _)| &line.mesh)
        .with(Column::text("figure"), |(_, fit)| {
            Cell::text(fit.what.phrase())
        })
        .with(adds, |(_, fit)| amount(&fit.slope, fit))
        .with(over_base, |(_, fit)| over(fit))
        .with(number("at 0".to_owned()), |(_, fit)| {
            amount(&fit.intercept, fit)
        })
        .with(Column::text("largest residual"), |(line, fit)| {
            residual(line, fit)
        })
        .table(format!("Lines: {}", heading(factor, slice)))
        .if_any()
}
