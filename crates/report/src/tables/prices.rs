//! The price list of features, and the proof of each feature.

use tare_plan::{Figure, Unit};
use tare_records::summary::{FeaturePrice, Price, PriceList, Summary};
use tare_records::verdict::Grade;

use crate::prices;
use crate::table::{Bar, Cell, Column, Columns, Name, Scale, Table};

/// What is shown of a figure.
#[derive(Debug, Clone, Copy)]
enum Shown {
    /// The ratio, of latencies.
    Ratio,
    /// The added CPU time or memory.
    Added,
}

/// What a feature adds, in any unit and at least 0.
fn length(price: &Price, shown: Shown) -> f64 {
    let added = match shown {
        Shown::Ratio => price.ratio - 1.0,
        Shown::Added => price.added.as_ref().map_or(0.0, |e| e.value),
    };
    added.max(0.0)
}

/// What each feature adds.
pub(crate) fn features(summary: &Summary, list: &PriceList) -> Table {
    let cpu = Column::number("CPU per hop", Scale::Added(Unit::Ns));
    let memory = Column::number("memory per proxy", Scale::Added(Unit::Bytes));
    let columns = Columns::of(&list.features).with(Column::text("feature"), |feature| {
        let grade = prices::cell(summary, list, feature).map(|c| c.verdict.grade);
        Cell::Name(Name {
            text: prices::name(&feature.mesh).to_owned(),
            title: feature.title.clone(),
            grade: grade.filter(|g| *g != Grade::Valid),
            ..Name::default()
        })
    });
    let figures: [(Column, PriceOf, Shown); 4] = [
        (Column::ratio(Figure::P50), |f| f.p50.as_ref(), Shown::Ratio),
        (Column::ratio(Figure::P99), |f| f.p99.as_ref(), Shown::Ratio),
        (cpu, |f| f.cpu.as_ref(), Shown::Added),
        (memory, |f| f.memory.as_ref(), Shown::Added),
    ];
    let columns = figures
        .into_iter()
        .fold(columns, |all, (column, of, shown)| {
            let largest = largest(list.features.iter().filter_map(of), shown);
            all.with(column, |feature| cell(of(feature), shown, largest))
        });
    let mut table = columns.table("");
    table.stacks = true;
    table
}

type PriceOf = fn(&FeaturePrice) -> Option<&Price>;

/// The length of the longest bar of a column: that of the largest figure that is different from the reference.
fn largest<'a>(prices: impl Iterator<Item = &'a Price>, shown: Shown) -> f64 {
    let different = prices.filter(|p| prices::mark(p).is_different());
    different.map(|p| length(p, shown)).fold(0.0, f64::max)
}

fn cell(price: Option<&Price>, shown: Shown, largest: f64) -> Cell {
    let Some(price) = price else {
        return Cell::Absent("");
    };
    let cell = match shown {
        Shown::Ratio => Cell::value(price.ratio, price.low, price.high),
        Shown::Added => Cell::estimate(&price.added),
    };
    let cell = cell.marked(prices::mark(price), prices::outcome(price));
    match length(price, shown) / largest {
        length if length.is_finite() => cell.with_bar(Bar {
            colour: 1,
            length,
            of: None,
        }),
        _ => cell,
    }
}

/// How each trial proved that its feature was on, and that of the reference that it was off.
pub(crate) fn proofs(list: &PriceList) -> Table {
    let on = |feature: &FeaturePrice| match feature.nothing {
        true => "changes nothing".to_owned(),
        false => feature.proofs.join("; "),
    };
    let off = Column::text(format!("off in {}", list.reference));
    Columns::of(&list.features)
        .with(Column::text("feature"), |f| {
            Cell::name(prices::name(&f.mesh))
        })
        .with(Column::text("on"), |f| Cell::words(on(f)))
        .with(off, |f| Cell::words(f.off.as_deref().unwrap_or_default()))
        .table("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::summary::{Estimate, Outcome};

    #[test]
    fn a_bar_is_never_negative() {
        let less = Price {
            ratio: 1.2,
            low: Some(1.1),
            high: Some(1.3),
            outcome: Some(Outcome::Different),
            added: Some(Estimate {
                value: -5.0,
                low: Some(-6.0),
                high: Some(-4.0),
                runs: Vec::new(),
            }),
        };
        assert_eq!(length(&less, Shown::Added), 0.0);
        assert!((length(&less, Shown::Ratio) - 0.2).abs() < 1e-12);
    }
}
