//! How a column shows its numbers.

use tare_analysis::figures::{self, Shown};
use tare_plan::{Figure, Unit};

use super::{Mark, Value};

/// The unit of a column, and the digits of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Whole numbers.
    Count,
    /// Three significant digits.
    Number,
    /// Numbers of any size: `81.2 k`.
    Amount,
    /// Of ratios.
    Ratio,
    /// Of shares.
    Percent,
    /// Of shares that somebody set: with the digits that they have.
    Margin,
    /// Of probabilities.
    Probability,
    /// Of nanoseconds, as are the next.
    Seconds,
    Ms,
    Micros,
    /// Tenths of microseconds.
    TenthMicros,
    Ns,
    /// Differences; the interval decides the digits, as of the next.
    AddedMs,
    /// Differences, each in the unit that fits.
    Added(Unit),
    Cores,
    Rps,
    /// Of bytes.
    Mib,
}

impl Scale {
    /// The scale of a figure in its own unit.
    pub(crate) fn of(figure: Figure) -> Self {
        match (figure.unit(), figure) {
            (Unit::Ns, Figure::Convergence | Figure::PodReady) => Self::Seconds,
            (Unit::Ns, Figure::Mean) => Self::Ms,
            (Unit::Ns, figure) if figure.q().is_some() => Self::Ms,
            (Unit::Ns, _) => Self::Micros,
            (Unit::Bytes, _) => Self::Mib,
            (Unit::Rps, _) => Self::Rps,
            (Unit::Cores, _) => Self::Cores,
            (Unit::Count, _) => Self::Amount,
            (Unit::Ratio, _) => Self::Ratio,
        }
    }

    /// The unit in the head of the column. Empty for numbers without a unit, and for those with the unit in the cell.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Ms | Self::AddedMs => "ms",
            Self::Micros | Self::TenthMicros => "µs",
            Self::Ns => "ns",
            Self::Cores => "cores",
            Self::Rps => "rps",
            Self::Mib => "MiB",
            Self::Percent | Self::Margin => "%",
            Self::Count
            | Self::Number
            | Self::Amount
            | Self::Ratio
            | Self::Probability
            | Self::Added(_) => "",
        }
    }

    /// One number.
    pub(crate) fn number(self, value: f64) -> String {
        match self {
            Self::Count => figures::count(value.round() as u64),
            Self::Number => figures::significant(value),
            Self::Amount => figures::amount(value),
            Self::Ratio => figures::ratio_interval(value, None, None),
            Self::Percent => figures::significant(value * 100.0),
            Self::Margin => ((value * 1e4).round() / 100.0).to_string(),
            Self::Probability if value < 0.0001 => "< 0.0001".to_owned(),
            Self::Probability => figures::significant(value),
            Self::Seconds => figures::significant(value / 1e9),
            Self::Ms => figures::ms(value),
            Self::AddedMs => figures::ms_interval(value, None, None).to_string(),
            Self::Micros => figures::significant(value / 1e3),
            Self::TenthMicros => format!("{:.1}", value / 1e3),
            Self::Ns => format!("{value:.0}"),
            Self::Added(unit) => figures::signed(value, figures::in_unit(value, unit)),
            Self::Cores => figures::cores(value),
            Self::Rps => figures::rps(value),
            Self::Mib => figures::mib(value),
        }
    }

    /// A figure with its interval; `short` for a place with little room.
    pub(crate) fn shown(self, v: &Value, short: bool) -> Shown {
        let (value, low, high) = (v.value, v.low, v.high);
        match self {
            Self::Ratio if short && v.mark != Mark::Nothing => {
                let mut shown = figures::ratio_short(value, low, high);
                if v.mark.sign().is_empty() {
                    shown.value.insert(0, 'x');
                }
                shown
            }
            Self::Ratio => figures::ratio(value, low, high),
            Self::AddedMs => figures::ms_interval(value, low, high),
            Self::Added(unit) => {
                let mut shown = figures::amount_interval(value, low, high, unit);
                if !shown.value.starts_with("0 ") {
                    shown.value = figures::signed(value, shown.value);
                }
                shown
            }
            _ => Shown {
                value: self.number(value),
                interval: low
                    .zip(high)
                    .map(|(low, high)| format!("{} to {}", self.number(low), self.number(high))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_its_unit_and_its_digits() {
        assert_eq!(Scale::of(Figure::P99).unit(), "ms");
        assert_eq!(Scale::of(Figure::Cpu).unit(), "µs");
        assert_eq!(Scale::of(Figure::PodReady).unit(), "s");
        assert_eq!(Scale::of(Figure::P99).number(1_930_000.0), "1.93");
        assert_eq!(Scale::Rps.number(2_499.6), "2,500");
        assert_eq!(Scale::Percent.number(0.042), "4.20");
        assert_eq!(Scale::Margin.number(0.05), "5");
        assert_eq!(Scale::Margin.number(0.025), "2.5");
        assert_eq!(Scale::Probability.number(1e-9), "< 0.0001");
    }

    #[test]
    fn a_difference_has_its_sign_and_its_interval_one_unit() {
        let of = |scale: Scale, value, low, high| {
            let (low, high) = (Some(low), Some(high));
            let value = Value {
                value,
                low,
                high,
                ..Value::default()
            };
            scale.shown(&value, true).to_string()
        };
        let added = Scale::Added(Unit::Ns);
        assert_eq!(of(added, 12_300.0, -1_500.0, 26e3), "+12 µs (-2 to 26)");
        assert_eq!(of(added, 1e6, 9e5, 1.1e6), "+1.00 ms (0.90 to 1.10)");
        assert_eq!(of(added, 300.0, -9e3, 9.6e3), "0 µs (-9 to 10)");
        assert_eq!(of(Scale::Ratio, 1.2, 1.1, 1.3), "x1.20 (1.10 to 1.30)");
    }
}
