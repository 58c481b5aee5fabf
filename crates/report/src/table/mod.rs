//! Tables. Each is built once, by a function of [`crate::tables`], from typed cells in columns; the terminal, the page and
//! Markdown write it each in its way.

pub(crate) mod html;
pub(crate) mod markdown;
mod scale;
pub(crate) mod text;

use tare_plan::Figure;
use tare_records::summary::{Estimate, Outcome, Ratio, Summary};
use tare_records::verdict::Grade;

pub(crate) use scale::Scale;

use crate::words;

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

    /// A column of numbers.
    pub(crate) fn number(label: impl Into<String>, scale: Scale) -> Self {
        Self {
            label: label.into(),
            scale,
            left: false,
            notes: false,
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

/// One cell.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// Nothing was measured, for this reason; empty if it needs none.
    Absent(&'static str),
    Text(String),
    Name(Name),
    /// A number of the second rank, such as a count.
    Number(f64),
    Value(Value),
    Outcome(Outcome, &'static str),
    Verdict(Grade, &'static str),
    /// Files of the run directory, each with its name.
    Links(Vec<(String, String)>),
}

/// What a row is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Name {
    /// The name; of a feature, the short one.
    pub(crate) text: String,
    /// The long name, where there is room.
    pub(crate) title: String,
    /// The number of its colour.
    pub(crate) colour: Option<usize>,
    /// Whether it is the baseline.
    pub(crate) is_base: bool,
    /// The grade, if the reader must know it.
    pub(crate) grade: Option<Grade>,
}

/// A figure with what is known of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Value {
    pub(crate) value: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) mark: Mark,
    /// What stands below the interval, where there is room.
    pub(crate) note: String,
    pub(crate) bar: Option<Bar>,
}

/// The outcome that a figure is marked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mark {
    #[default]
    Nothing,
    Outcome(Outcome),
    /// The run gives no answer.
    NoAnswer,
}

impl Mark {
    /// Whether the figure is different from another.
    pub(crate) fn is_different(self) -> bool {
        self == Self::Outcome(Outcome::Different)
    }

    /// Before the number, such as `? ` for what is not resolved.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Nothing | Self::Outcome(Outcome::Different) => "",
            Self::Outcome(Outcome::Same) => "= ",
            Self::Outcome(Outcome::NotResolved) => "? ",
            Self::NoAnswer => "! ",
        }
    }
}

/// A bar that shows a figure beside those of the other rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) colour: usize,
    /// Its length, from 0 to 1.
    pub(crate) length: f64,
    /// The length of what it is a part of.
    pub(crate) of: Option<f64>,
}

impl Cell {
    /// The name of a mesh, in its colour.
    pub(crate) fn mesh(summary: &Summary, mesh: &str) -> Self {
        Self::Name(Name {
            text: words::mesh_label(summary, mesh).to_owned(),
            colour: Some(words::colour_of(summary, mesh)),
            is_base: mesh == summary.baseline,
            ..Name::default()
        })
    }

    /// The name of something else.
    pub(crate) fn name(text: impl Into<String>) -> Self {
        Self::Name(Name {
            text: text.into(),
            ..Name::default()
        })
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Words, or a dash without any.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        let text = text.into();
        match text.is_empty() {
            true => Self::Absent(""),
            false => Self::Text(text),
        }
    }

    pub(crate) fn count(number: u64) -> Self {
        Self::Number(number as f64)
    }

    /// A number, or a dash.
    pub(crate) fn number(number: Option<f64>) -> Self {
        number.map_or(Self::Absent(""), Self::Number)
    }

    /// A value with the ends of its interval, if it has one.
    pub(crate) fn value(value: f64, low: Option<f64>, high: Option<f64>) -> Self {
        Self::Value(Value {
            value,
            low,
            high,
            ..Value::default()
        })
    }

    /// An estimate, or a dash.
    pub(crate) fn estimate<'a>(estimate: impl Into<Option<&'a Estimate>>) -> Self {
        let estimate = estimate.into();
        estimate.map_or(Self::Absent(""), |e| Self::value(e.value, e.low, e.high))
    }

    /// An estimate divided by a number.
    pub(crate) fn share(e: &Estimate, of: f64) -> Self {
        let [low, high] = [e.low, e.high].map(|end| end.map(|x| x / of));
        Self::value(e.value / of, low, high)
    }

    /// A percentile in nanoseconds with its ends, or a dash if there are too few responses.
    pub(crate) fn nanoseconds(found: Option<(u64, Option<u64>, Option<u64>)>) -> Self {
        found.map_or(Self::Absent(TOO_FEW), |(value, low, high)| {
            let [low, high] = [low, high].map(|end| end.map(|ns| ns as f64));
            Self::value(value as f64, low, high)
        })
    }

    /// A ratio of two meshes with its outcome, or a dash; `note` says more of one that is different.
    pub(crate) fn ratio(ratio: Option<&Ratio>, note: fn(&Ratio) -> String) -> Self {
        ratio.map_or(Self::Absent(""), |r| {
            let note = match r.outcome {
                Outcome::Different => note(r),
                outcome => outcome.words().to_owned(),
            };
            Self::value(r.value, r.low, r.high).marked(Mark::Outcome(r.outcome), note)
        })
    }

    /// Adds the outcome, and what stands below the figure.
    pub(crate) fn marked(mut self, mark: Mark, note: impl Into<String>) -> Self {
        if let Self::Value(value) = &mut self {
            (value.mark, value.note) = (mark, note.into());
        }
        self
    }

    /// Adds a bar.
    pub(crate) fn with_bar(mut self, bar: Bar) -> Self {
        if let Self::Value(value) = &mut self {
            value.bar = Some(bar);
        }
        self
    }
}

/// Why a percentile is absent.
pub(crate) const TOO_FEW: &str = "too few responses";

#[cfg(test)]
pub(crate) mod tests {
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
