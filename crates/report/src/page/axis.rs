//! The part of an axis that a picture shows.

use crate::table::Scale;

/// Part of the axis beside the outermost mark on each side.
const MARGIN: f64 = 0.04;

/// An axis, linear or logarithmic.
pub(super) struct Axis {
    pub(super) from: f64,
    pub(super) to: f64,
    is_log: bool,
}

impl Axis {
    /// Shows zero and all values.
    pub(super) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        Self::around(0.0, values)
    }

    /// Shows the origin and all values.
    pub(super) fn around(origin: f64, values: impl Iterator<Item = f64>) -> Self {
        let (from, to) = values.fold((origin, origin), |(from, to): (f64, f64), x| {
            (from.min(x), to.max(x))
        });
        let margin = (to - from).max(f64::MIN_POSITIVE) * MARGIN;
        Self {
            from: from - margin,
            to: to + margin,
            is_log: false,
        }
    }

    /// Shows all values above zero, from the lowest to the highest, each factor in the same width.
    pub(super) fn log(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|v| *v > 0.0);
        let (from, to) = positive.fold((f64::MAX, f64::MIN_POSITIVE), |(from, to), x| {
            (from.min(x), to.max(x))
        });
        let margin = (to / from).max(1.1).powf(MARGIN);
        Self {
            from: from / margin,
            to: to * margin,
            is_log: true,
        }
    }

    /// Whether a value is on the part that is shown.
    pub(super) fn shows(&self, value: f64) -> bool {
        (self.from..=self.to).contains(&value)
    }

    /// In percent of its length.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.is_log {
            true => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        };
        (share * 100.0).clamp(0.0, 100.0)
    }

    /// Round values, some three to seven of them.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            return self.log_ticks();
        }
        let rough = (self.to - self.from) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
        let step = step.into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    /// A tick in figures, without zeros at its end.
    pub(super) fn label(scale: Scale, tick: f64) -> String {
        let number = scale.number(tick);
        match number.contains('.') {
            true => number
                .trim_end_matches('0')
                .trim_end_matches('.')
                .to_owned(),
            false => number,
        }
    }

    /// Powers of ten, with their multiples of 2 and 5 where there is room, or linear ones on a short axis.
    fn log_ticks(&self) -> Vec<f64> {
        let decades = (self.to / self.from).log10();
        if decades < 0.5 {
            let linear = Self {
                is_log: false,
                ..*self
            };
            return linear.ticks();
        }
        let each: &[f64] = if decades < 3.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let powers = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let all = powers.flat_map(|p| each.iter().map(move |n| n * 10_f64.powi(p)));
        all.filter(|tick| self.shows(*tick)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        for (low, high) in [(-3.0, 41.0), (-12e3, 260e3), (0.0, 0.7)] {
            let axis = Axis::from_zero([low, high].into_iter());
            let ticks = axis.ticks();
            assert!((3..=7).contains(&ticks.len()), "{ticks:?}");
            assert!(ticks.iter().all(|t| axis.shows(*t)), "{ticks:?}");
            assert!(ticks.contains(&0.0), "{ticks:?}");
        }
    }

    #[test]
    fn a_factor_has_the_same_width_everywhere_on_a_logarithmic_axis() {
        let axis = Axis::log([0.0, 2e6, 400e6].into_iter());
        let width = |a: f64, b: f64| axis.place(b) - axis.place(a);
        assert!((width(4e6, 8e6) - width(100e6, 200e6)).abs() < 1e-9);
        let rounded: Vec<f64> = axis
            .ticks()
            .iter()
            .map(|t| (t / 1e5).round() / 10.0)
            .collect();
        assert_eq!(rounded, [2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        assert_eq!(Axis::label(Scale::Ms, 50e6), "50");
        assert_eq!(Axis::label(Scale::Ms, 500e6), "500");
        assert_eq!(Axis::label(Scale::Ms, 2.5e6), "2.5");
        let short = Axis::log([100.0, 140.0].into_iter());
        assert!(
            (3..=7).contains(&short.ticks().len()),
            "{:?}",
            short.ticks()
        );
    }
}
