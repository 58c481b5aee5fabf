//! The cells of tables.

use tare_records::summary::{Estimate, Outcome, Ratio, Summary};
use tare_records::verdict::Grade;

use crate::words;

/// One cell.
#[derive(Debug, Clone)]
pub(crate) enum Cell {
    /// Nothing was measured, for this reason; empty if it needs none.
    Absent(&'static str),
    Text(String),
    Name(Name),
    /// A number without an interval, shown less prominently than a [`Self::Value`].
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
    /// The grade, if it is not valid.
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

impl From<&Estimate> for Value {
    fn from(e: &Estimate) -> Self {
        Self {
            value: e.value,
            low: e.low,
            high: e.high,
            ..Self::default()
        }
    }
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

    /// Whether the figure is too uncertain for a statement.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Outcome(Outcome::NotResolved) | Self::NoAnswer)
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
        estimate.map_or(Self::Absent(""), |e| Self::Value(Value::from(e)))
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
