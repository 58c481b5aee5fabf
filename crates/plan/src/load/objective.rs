//! Objectives that a load must meet, such as `p99<20ms` or `errors<0.1%`.

use std::fmt;

use crate::figure::Figure;
use crate::text::nearest;
use crate::units::parse_duration;

/// Names of figures without a number.
const NAMES: [&str; 4] = ["max", "mean", "errors", "achieved"];
/// Names by which other tools call a figure, with tare's own.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("failures", "errors"),
    ("failed", "errors"),
    ("avg", "mean"),
    ("average", "mean"),
    ("median", Figure::P50.id()),
    ("rate", "achieved"),
];

const EXPECTED: &str = "like p99<20ms (p50 to p99.999, max, mean), errors<0.1% or achieved>99%";

/// Objectives that apply unless others of the same figures are given: without them, a server that
/// rejects requests quickly would appear fast.
pub const DEFAULT_OBJECTIVES: [&str; 2] = ["errors<1%", "achieved>99%"];

/// Fewest responses for an objective whose figure has no minimum of its own.
const SAMPLES_MIN: u64 = 30;

/// The figure that an objective bounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// A quantile of the latency, 0 to 1.
    Quantile(f64),
    /// The largest latency.
    Max,
    /// The mean latency.
    Mean,
    /// Share of the planned requests without an ok response.
    Errors,
    /// Share of the planned requests that were sent.
    Achieved,
}

/// One objective.
#[derive(Debug, Clone, PartialEq)]
pub struct Objective {
    text: String,
    measure: Measure,
    /// In nanoseconds, or as a share from 0 to 1.
    bound: f64,
}

impl Objective {
    /// Parses `NAME<BOUND` or `NAME>BOUND`; `<=` and `>=` mean the same.
    ///
    /// # Errors
    /// A message with what was found and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let at = text
            .find(['<', '>'])
            .ok_or_else(|| format!("found {text:?}, expected an objective {EXPECTED}"))?;
        let (name, rest) = text.split_at(at);
        let (direction, bound) = rest.split_at(1);
        let bound = bound.strip_prefix('=').unwrap_or(bound);
        let measure = measure(name).ok_or_else(|| {
            let intended = intended(name).map(|i| format!("; did you mean `{i}{rest}`?"));
            format!(
                "found {name:?} in {text:?}, expected p50 to p99.999, max, mean, errors or achieved{}",
                intended.unwrap_or_default()
            )
        })?;
        let expected = match measure {
            Measure::Achieved => ">",
            _ => "<",
        };
        if direction != expected {
            return Err(format!("found {text:?}, expected {name}{expected}"));
        }
        let parsed = match measure {
            Measure::Errors | Measure::Achieved => share(bound),
            _ => latency_ns(name, bound),
        };
        let bound = parsed.map_err(|problem| format!("{text:?}: {problem}"))?;
        let expected = match measure {
            Measure::Errors => None,
            Measure::Achieved => {
                (bound >= 1.0).then_some("a percentage below 100%, like achieved>99%")
            }
            _ => (bound <= 0.0).then_some("a latency above 0, like 20ms"),
        };
        if let Some(expected) = expected {
            return Err(format!("{text:?} can never be met, expected {expected}"));
        }
        Ok(Self {
            text,
            measure,
            bound,
        })
    }

    /// The bound in nanoseconds, if this objective bounds a latency.
    #[must_use]
    pub fn latency_bound_ns(&self) -> Option<u64> {
        match self.measure {
            Measure::Errors | Measure::Achieved => None,
            _ => Some(self.bound as u64),
        }
    }

    /// Number of responses that are needed to judge this objective with 95 % confidence: the
    /// smallest n with `1 - q^n >= 0.95`, where q is the quantile, or 1 minus the allowed share of
    /// errors.
    #[must_use]
    pub fn samples_needed(&self) -> u64 {
        let for_quantile = |q: f64| (0.05_f64.ln() / q.ln()).ceil() as u64;
        match self.measure {
            Measure::Quantile(q) => for_quantile(q),
            Measure::Errors if self.bound > 0.0 && self.bound < 1.0 => {
                for_quantile(1.0 - self.bound)
            }
            Measure::Errors | Measure::Achieved | Measure::Max | Measure::Mean => SAMPLES_MIN,
        }
    }

    /// Share by which a rate can exceed the sustainable rate while a step of `step_ns` still meets
    /// this objective. At a rate r above the capacity C, the backlog grows to `(r / C - 1)` times
    /// the length of the step. `None` if this objective does not bound a latency.
    #[must_use]
    pub fn unseen_share(&self, step_ns: u64) -> Option<f64> {
        let of_longest = match self.measure {
            Measure::Quantile(q) => q,
            Measure::Max => 1.0,
            Measure::Mean => 0.5,
            Measure::Errors | Measure::Achieved => return None,
        };
        Some(self.bound / (of_longest * step_ns.max(1) as f64))
    }

    /// The figure that it bounds.
    #[must_use]
    pub fn measure(&self) -> Measure {
        self.measure
    }

    /// The bound: nanoseconds of a latency, or a share from 0 to 1.
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.bound
    }

    /// The name of the figure, as it was written: `p99`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text[..self.text.find(['<', '>']).unwrap_or(0)]
    }

    /// Adds to `given` those of [`DEFAULT_OBJECTIVES`] whose figure it does not bound.
    #[must_use]
    pub fn with_defaults(mut given: Vec<Self>) -> Vec<Self> {
        for default in DEFAULT_OBJECTIVES
            .iter()
            .filter_map(|text| Self::parse(text).ok())
        {
            if !given.iter().any(|o| o.measure == default.measure) {
                given.push(default);
            }
        }
        given
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn measure(name: &str) -> Option<Measure> {
    Some(match name {
        "max" => Measure::Max,
        "mean" => Measure::Mean,
        "errors" => Measure::Errors,
        "achieved" => Measure::Achieved,
        _ => {
            let percent = name.strip_prefix('p')?;
            let decimal = percent.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let value: f64 = percent.parse().ok().filter(|_| decimal)?;
            let known = (50.0..=99.999).contains(&value);
            known.then_some(Measure::Quantile(value / 100.0))?
        }
    })
}

/// The figure that was probably meant.
fn intended(name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == lower);
    if let Some((_, own)) = other {
        return Some((*own).to_owned());
    }
    // A percentile without its point: p999.
    let digits = lower.strip_prefix('p').filter(|d| d.starts_with("99"));
    let with_point = digits.map(|d| format!("p99.{}", d[2..].trim_start_matches(['.', '_'])));
    let with_point = with_point.filter(|name| measure(name).is_some());
    with_point.or_else(|| nearest(&lower, NAMES).map(str::to_owned))
}

/// Parses a latency. Most bounds are milliseconds.
fn latency_ns(name: &str, text: &str) -> Result<f64, String> {
    match (parse_duration(text), text.parse::<f64>()) {
        (Ok(ns), _) => Ok(ns as f64),
        (Err(_), Ok(number)) if number > 0.0 && number.is_finite() => Err(format!(
            "{text:?} has no unit, expected a duration with its unit (h, m, s, ms, us, ns); did you mean \
             `{name}<{text}ms`?"
        )),
        (Err(error), _) => Err(error.to_string()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let expected = || {
        let is_number = text
            .parse::<f64>()
            .is_ok_and(|v| (0.0..=100.0).contains(&v));
        let hint = is_number.then(|| format!("; did you mean `{text}%`?"));
        format!(
            "found {text:?}, expected a percentage from 0% to 100%, like 0.1%{}",
            hint.unwrap_or_default()
        )
    };
    let number = text.strip_suffix('%').ok_or_else(expected)?;
    let value: f64 = number.parse().map_err(|_| expected())?;
    if !(0.0..=100.0).contains(&value) {
        return Err(expected());
    }
    Ok(value / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read() {
        let p99 = Objective::parse("p99 < 20ms").unwrap();
        assert_eq!((p99.measure, p99.bound), (Measure::Quantile(0.99), 2e7));
        assert_eq!(
            (p99.to_string(), p99.samples_needed()),
            ("p99<20ms".to_owned(), 299)
        );
        assert_eq!(
            Objective::parse("p99.9<=1s").unwrap().samples_needed(),
            2_995
        );
        let errors = Objective::parse("errors<0.1%").unwrap();
        assert_eq!((errors.bound, errors.samples_needed()), (0.001, 2_995));
        assert_eq!(
            Objective::parse("achieved>99%").unwrap().measure,
            Measure::Achieved
        );
        assert_eq!(
            Objective::parse("max<5ms").unwrap().latency_bound_ns(),
            Some(5_000_000)
        );
    }

    #[test]
    fn a_backlog_is_visible_only_above_the_bound() {
        let share = |text: &str| Objective::parse(text).unwrap().unseen_share(2_000_000_000);
        assert_eq!(share("max<100ms"), Some(0.05));
        assert_eq!(share("p50<100ms"), Some(0.1));
        assert_eq!(share("errors<1%"), None);
    }

    #[test]
    fn errors_name_what_was_found_and_expected() {
        let error = |text: &str| Objective::parse(text).unwrap_err().to_string();
        assert!(error("p99").contains("expected an objective like p99<20ms"));
        assert!(error("p999<1ms").contains("p50 to p99.999"));
        assert!(error("latency<1ms").contains("\"latency\""));
        assert!(error("p99>1ms").contains("expected p99<"));
        assert!(error("achieved<99%").contains("expected achieved>"));
        assert!(error("p99<20").contains("no unit"));
        assert!(error("errors<0.1").contains("like 0.1%"));
        assert!(error("errors<200%").contains("0% to 100%"));
    }

    #[test]
    fn an_error_suggests_the_objective_that_was_meant() {
        for (text, meant) in [
            ("p99<50", "p99<50ms"),
            ("max<=0.5", "max<0.5ms"),
            ("error<1%", "errors<1%"),
            ("Errors<1%", "errors<1%"),
            ("failures<=1%", "errors<=1%"),
            ("avg<5ms", "mean<5ms"),
            ("p999<5ms", "p99.9<5ms"),
            ("achived>99%", "achieved>99%"),
            ("errors<1", "1%"),
        ] {
            let error = Objective::parse(text).unwrap_err();
            let suggestion = format!("; did you mean `{meant}`?");
            assert!(error.ends_with(&suggestion), "{text}: {error}");
            if meant.contains(['<', '>']) {
                assert!(Objective::parse(meant).is_ok(), "{meant}");
            }
        }
    }

    #[test]
    fn an_objective_that_no_result_can_meet_is_refused() {
        for text in ["p99<0ms", "max<0", "mean<=0s", "achieved>100%"] {
            let error = Objective::parse(text).unwrap_err();
            assert!(error.contains("can never be met, expected"), "{error}");
        }
        // No failure at all.
        assert!(Objective::parse("errors<0%").is_ok());
    }

    #[test]
    fn default_objectives_apply_unless_their_figure_is_given() {
        let with = |text: &str| -> Vec<String> {
            let given = vec![Objective::parse(text).unwrap()];
            let all = Objective::with_defaults(given);
            all.iter().map(Objective::to_string).collect()
        };
        assert_eq!(with("p99<1s"), ["p99<1s", "errors<1%", "achieved>99%"]);
        assert_eq!(with("errors<5%"), ["errors<5%", "achieved>99%"]);
    }
}
