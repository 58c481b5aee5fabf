//! Tables. Each is built once, by a function of [`crate::tables`], from typed cells in columns; the terminal, the page and
//! Markdown write it each in its way.

mod cell;
mod columns;
pub(crate) mod html;
pub(crate) mod markdown;
mod scale;
pub(crate) mod text;

use tare_plan::Figure;

pub(crate) use cell::{Bar, Cell, Mark, Name, TOO_FEW, Value};
pub(crate) use columns::Columns;
pub(crate) use scale::Scale;

/// A table: the answer to one question.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// What it shows; empty if its place says so.
    pub(crate) heading: String,
    pub(crate) columns: Vec<Column>,
    /// Each has a cell for every column.
    pub(crate) rows: Vec<Vec<Cell>>,
    /// Whether each row becomes a block on a narrow page.
    pub(crate) stacks: bool,
}

impl Table {
    pub(crate) fn new(
        heading: impl Into<String>,
        columns: impl Into<Vec<Column>>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        let columns = columns.into();
        let rows: Vec<Vec<Cell>> = rows.into_iter().collect();
        debug_assert!(rows.iter().all(|row| row.len() == columns.len()));
        Self {
            heading: heading.into(),
            columns,
            rows,
            stacks: false,
        }
    }

    /// The table, or `None` if it has no rows.
    pub(crate) fn if_any(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    /// The columns that are shown, with their positions: optional ones without a value are not.
    pub(crate) fn shown(&self) -> impl Iterator<Item = (usize, &Column)> {
        let has = |i: usize| self.rows.iter().any(|r| !matches!(r[i], Cell::Absent(_)));
        let columns = self.columns.iter().enumerate();
        columns.filter(move |(i, c)| !c.optional || has(*i))
    }
}

/// What a place with little room, such as a terminal, shows of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Narrow {
    Whole,
    /// No intervals.
    Value,
    Nothing,
}

/// What the cells of a column have in common.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    label: String,
    /// How it shows numbers, and their unit.
    pub(crate) scale: Scale,
    /// Whether it has words, which begin at the left.
    pub(crate) left: bool,
    /// Whether its words are too long for a column of a terminal: there they are lines below the row.
    pub(crate) notes: bool,
    /// Whether its words are a warning.
    pub(crate) warns: bool,
    pub(crate) narrow: Narrow,
    optional: bool,
    with_unit: bool,
}

impl Column {
    /// A column of words.
    pub(crate) fn text(label: impl Into<String>) -> Self {
        Self {
            left: true,
            ..Self::number(label, Scale::Number)
        }
    }

    /// A column of long words.
    pub(crate) fn notes(label: impl Into<String>) -> Self {
        Self {
            notes: true,
            optional: true,
            ..Self::text(label)
        }
    }

    /// A column of warnings.
    pub(crate) fn warning(label: impl Into<String>) -> Self {
        let warns = true;
        Self {
            warns,
            ..Self::notes(label)
        }
    }

    /// A column of numbers.
    pub(crate) fn number(label: impl Into<String>, scale: Scale) -> Self {
        Self {
            label: label.into(),
            scale,
            left: false,
            notes: false,
            warns: false,
            narrow: Narrow::Whole,
            optional: false,
            with_unit: true,
        }
    }

    /// A column of a figure: its label and its unit.
    pub(crate) fn figure(figure: Figure) -> Self {
        Self::number(figure.label(), Scale::of(figure))
    }

    /// A column of ratios of a figure.
    pub(crate) fn ratio(figure: Figure) -> Self {
        Self::number(figure.label(), Scale::Ratio)
    }

    /// Leaves out the intervals where there is little room.
    pub(crate) fn brief(self) -> Self {
        let narrow = Narrow::Value;
        Self { narrow, ..self }
    }

    /// Leaves out the column where there is little room.
    pub(crate) fn wide(self) -> Self {
        let narrow = Narrow::Nothing;
        Self { narrow, ..self }
    }

    /// Leaves out the column if it has no value.
    pub(crate) fn optional(self) -> Self {
        let optional = true;
        Self { optional, ..self }
    }

    /// Leaves out the unit, which the heading has.
    pub(crate) fn without_unit(self) -> Self {
        let with_unit = false;
        Self { with_unit, ..self }
    }

    /// The label with the unit.
    pub(crate) fn head(&self) -> String {
        match self.scale.unit() {
            unit if self.with_unit && !unit.is_empty() => format!("{}, {unit}", self.label),
            _ => self.label.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tare_records::summary::Outcome;

    use super::*;

    /// A table with a cell of each kind.
    pub(crate) fn sample() -> Table {
        let columns = [
            Column::text("over bare"),
            Column::figure(Figure::P50),
            Column::ratio(Figure::P99),
            Column::figure(Figure::Cpu).brief(),
            Column::figure(Figure::Memory).wide(),
            Column::figure(Figure::Cycles).optional(),
            Column::number("failed", Scale::Count),
            Column::notes("limit"),
        ];
        let mesh = |text: &str, is_base| {
            Cell::Name(Name {
                text: text.to_owned(),
                colour: Some(1),
                is_base,
                ..Name::default()
            })
        };
        let ratio = |value, outcome: Outcome| {
            let cell = Cell::value(value, Some(value * 0.9), Some(value * 1.1));
            cell.marked(Mark::Outcome(outcome), outcome.words())
        };
        let row = |name, p50: Cell, ratio: Cell, limit: &str| {
            let cpu = Cell::value(92e3, Some(9e4), Some(94e3));
            let memory = Cell::value(1_048_576.0, None, None);
            let absent = Cell::Absent("");
            let failed = Cell::count(1_234);
            vec![
                name,
                p50,
                ratio,
                cpu,
                memory,
                absent,
                failed,
                Cell::words(limit),
            ]
        };
        let p50 = Cell::value(464e3, Some(457e3), Some(467e3));
        Table::new(
            "400 rps",
            columns,
            [
                row(
                    mesh("<bare>", true),
                    p50,
                    ratio(1.0, Outcome::NotResolved),
                    "",
                ),
                row(
                    mesh("envoy", false),
                    Cell::Absent(TOO_FEW),
                    ratio(2.0, Outcome::Different),
                    "CPU in 3 of 3 trials",
                ),
            ],
        )
    }

    #[test]
    fn heads_have_the_unit_and_empty_optional_columns_are_left_out() {
        let table = sample();
        let heads: Vec<String> = table.shown().map(|(_, c)| c.head()).collect();
        let expected = [
            "over bare",
            "p50, ms",
            "p99",
            "CPU per request, µs",
            "proxy memory, MiB",
            "failed",
            "limit",
        ];
        assert_eq!(heads, expected);
        let column = Column::figure(Figure::P50).without_unit();
        assert_eq!(column.head(), "p50");
    }
}
