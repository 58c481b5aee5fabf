//! The price list of features, and the proof of each feature.

use tare_plan::{Figure, Unit};
use tare_records::summary::{FeaturePrice, Price, PriceList, Summary};
use tare_records::verdict::Grade;

use crate::prices;
use crate::table::{Bar, Cell, Column, Mark, Name, Scale, Table};

/// What is shown of a figure.
#[derive(Debug, Clone, Copy)]
enum Shown {
    /// The ratio, of latencies.
    Ratio,
    /// The added CPU time or memory.
    Added,
}

/// The figures of a feature in the order of the columns.
fn figures(feature: &FeaturePrice) -> [(Option<&Price>, Shown); 4] {
    [
        (feature.p50.as_ref(), Shown::Ratio),
        (feature.p99.as_ref(), Shown::Ratio),
        (feature.cpu.as_ref(), Shown::Added),
        (feature.memory.as_ref(), Shown::Added),
    ]
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
    let columns = [
        Column::text("feature"),
        Column::ratio(Figure::P50),
        Column::ratio(Figure::P99),
        Column::number("CPU per hop", Scale::Added(Unit::Ns)),
        Column::number("memory per proxy", Scale::Added(Unit::Bytes)),
    ];
    // The longest bar of a column is the largest figure that is different from the reference.
    let largest = [0, 1, 2, 3].map(|column| {
        let figures = list.features.iter().map(|f| figures(f)[column]);
        let different = figures.filter_map(|(price, shown)| {
            let price = price.filter(|p| mark(p).is_different())?;
            Some(length(price, shown))
        });
        different.fold(0.0, f64::max)
    });
    let rows = list.features.iter().map(|feature| {
        let grade = prices::cell(summary, list, feature).map(|c| c.verdict.grade);
        let mut row = vec![Cell::Name(Name {
            text: prices::name(&feature.mesh).to_owned(),
            title: feature.title.clone(),
            grade: grade.filter(|g| *g != Grade::Valid),
            ..Name::default()
        })];
        let cells = figures(feature).into_iter().zip(largest);
        row.extend(cells.map(|((price, shown), largest)| cell(price, shown, largest)));
        row
    });
    let mut table = Table::new("", columns, rows);
    table.stacks = true;
    table
}

fn mark(price: &Price) -> Mark {
    price.outcome.map_or(Mark::NoAnswer, Mark::Outcome)
}

fn cell(price: Option<&Price>, shown: Shown, largest: f64) -> Cell {
    let Some(price) = price else {
        return Cell::Absent("");
    };
    let cell = match shown {
        Shown::Ratio => Cell::value(price.ratio, price.low, price.high),
        Shown::Added => Cell::estimate(&price.added),
    };
    let cell = cell.marked(mark(price), prices::outcome(price));
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
    let columns = [
        Column::text("feature"),
        Column::text("on"),
        Column::text(format!("off in {}", list.reference)),
    ];
    let rows = list.features.iter().map(|feature| {
        let on = match feature.nothing {
            true => "changes nothing".to_owned(),
            false => feature.proofs.join("; "),
        };
        vec![
            Cell::name(prices::name(&feature.mesh)),
            Cell::words(on),
            Cell::words(feature.off.as_deref().unwrap_or_default()),
        ]
    });
    Table::new("", columns, rows)
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
