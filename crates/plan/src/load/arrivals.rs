//! Arrival processes: the distribution of the intended instants, as a value and as text.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::trace::{ArrivalsError, Trace, WarmParts};
use crate::text::{nearest, quoted};
use crate::units::{exact_duration, parse_duration, parse_rate};

const SECOND_NS: f64 = 1e9;
/// Most steps of [`Arrivals::Steps`].
const STEPS_MAX: usize = 1_000;

/// Arrival process: the distribution of the intended instants.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly spaced; shards and threads staggered between each other.
    #[default]
    Constant,
    /// A Poisson process: exponential gaps.
    Poisson,
    /// Several slots at one instant, then a pause that keeps the rate.
    Bursts {
        /// Slots of a burst, at least 1.
        slots: u32,
    },
    /// The rate changes linearly over the window; before the window it is `from_rps`.
    Ramp {
        /// Slots per second at the start of the window.
        from_rps: f64,
        /// Slots per second at its end.
        to_rps: f64,
    },
    /// One constant rate after another from the start of the window; before the window the
    /// rate of the first step, after the last step that of the last.
    Steps(Vec<RateStep>),
    /// Recorded instants, relative to the start of the window; before the window evenly
    /// spaced at the trace's mean rate.
    Trace(Trace),
    /// Compatibility mode: each connection has a constant schedule of its own, all of them in
    /// phase, as in wrk2. Only for comparison with its figures.
    Wrk2,
}

/// A constant rate for a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Slots per second, 0 for a pause.
    pub rate_rps: f64,
    /// Duration, above 0.
    pub duration_ns: u64,
}

impl Arrivals {
    /// The syntax of [`Self::parse`], for messages.
    pub const SYNTAX: &'static str = "`constant`, `poisson`, `bursts:SLOTS`, `ramp:RATE..RATE`, `steps:RATE:DURATION,...`, `trace:FILE` or `wrk2`";

    /// Parses the text form, which [`fmt::Display`] writes for all but traces. `read` returns the
    /// text of the trace's file, or the reason for the failure.
    ///
    /// # Errors
    /// [`ArrivalsError`] with what was found and expected.
    pub fn parse(
        text: &str,
        read: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, ArrivalsError> {
        let arrivals = match text.split_once(':') {
            None => match text {
                "constant" => Self::Constant,
                "poisson" => Self::Poisson,
                "wrk2" => Self::Wrk2,
                _ => return Err(syntax(text)),
            },
            Some(("bursts", slots)) => Self::Bursts {
                slots: slots
                    .parse()
                    .map_err(|_| wrong(slots, "the slots of a burst, like 10"))?,
            },
            Some(("ramp", rates)) => {
                let (from, to) = rates.split_once("..").ok_or_else(|| syntax(text))?;
                if from.trim().is_empty() || to.trim().is_empty() {
                    let expected = "ramp:RATE..RATE, like ramp:100..500";
                    let found = "a rate of the ramp is missing";
                    return Err(ArrivalsError(format!("{found}, expected {expected}")));
                }
                Self::Ramp {
                    from_rps: parse_rate(from)?,
                    to_rps: parse_rate(to)?,
                }
            }
            Some(("steps", list)) => {
                let steps = list.split(',').map(step).collect::<Result<_, _>>()?;
                Self::Steps(steps)
            }
            Some(("trace", file)) => {
                let text =
                    read(file).map_err(|e| ArrivalsError(format!("cannot read the trace: {e}")))?;
                Self::Trace(Trace::parse(&text)?)
            }
            Some(_) => return Err(syntax(text)),
        };
        arrivals.check_values()?;
        Ok(arrivals)
    }

    /// The mean planned rate over a window, in slots per second, if the arrivals determine
    /// it; `None` if they allow any rate.
    #[must_use]
    pub fn own_rate_rps(&self, window_ns: u64) -> Option<f64> {
        let window_s = window_ns as f64 / SECOND_NS;
        match self {
            Self::Ramp { from_rps, to_rps } => Some((from_rps + to_rps) / 2.0),
            Self::Steps(steps) => {
                let mut left_ns = window_ns;
                let mut slots = 0.0;
                for step in steps {
                    let ns = step.duration_ns.min(left_ns);
                    slots += step.rate_rps * ns as f64 / SECOND_NS;
                    left_ns -= ns;
                }
                let last = steps.last().map_or(0.0, |s| s.rate_rps);
                slots += last * left_ns as f64 / SECOND_NS;
                Some(slots / window_s)
            }
            Self::Trace(trace) => Some(trace.counted_before(window_ns) as f64 / window_s),
            _ => None,
        }
    }

    /// Parts of the window whose slots warm up: see [`Trace::with_warm_parts`].
    #[must_use]
    pub fn warm(&self) -> WarmParts {
        match self {
            Self::Trace(trace) => trace.warm(),
            _ => WarmParts::default(),
        }
    }

    /// The default window, in nanoseconds: all steps, or the trace with a mean gap after its
    /// last slot.
    #[must_use]
    pub fn own_window_ns(&self) -> Option<u64> {
        match self {
            Self::Steps(steps) => Some(
                steps
                    .iter()
                    .fold(0, |sum: u64, s| sum.saturating_add(s.duration_ns)),
            ),
            Self::Trace(trace) => {
                let gap_ns = trace
                    .length_ns()
                    .div_ceil(trace.slots().saturating_sub(1).max(1));
                Some(trace.length_ns().saturating_add(gap_ns.max(1)))
            }
            _ => None,
        }
    }

    /// Checks the values, and that the mean rate over the window is `rate_rps`.
    ///
    /// # Errors
    /// [`ArrivalsError`] with what was found and expected.
    pub fn check(&self, rate_rps: f64, window_ns: u64) -> Result<(), ArrivalsError> {
        self.check_values()?;
        match self.own_rate_rps(window_ns) {
            Some(own) if (own - rate_rps).abs() > own.abs() * 1e-6 => Err(ArrivalsError(format!(
                "found a rate_rps of {rate_rps}, expected {own}, the mean of the arrivals {self} over the window"
            ))),
            _ => Ok(()),
        }
    }

    fn check_values(&self) -> Result<(), ArrivalsError> {
        let rate = |r: f64| r.is_finite() && r >= 0.0;
        let wrong = match self {
            Self::Bursts { slots: 0 } => "found a burst of 0 slots, expected at least 1".to_owned(),
            Self::Ramp { from_rps, to_rps } if !(rate(*from_rps) && rate(*to_rps)) => {
                format!("found a ramp from {from_rps} to {to_rps}, expected rates of 0 or more")
            }
            Self::Steps(steps) if steps.is_empty() || steps.len() > STEPS_MAX => {
                format!("found {} steps, expected 1 to {STEPS_MAX}", steps.len())
            }
            Self::Steps(steps) => {
                let is_wrong = |s: &&RateStep| !rate(s.rate_rps) || s.duration_ns == 0;
                match steps.iter().find(is_wrong) {
                    Some(s) => format!(
                        "found a step of {} per second for {} ns, expected a rate of 0 or more and a duration above 0",
                        s.rate_rps, s.duration_ns
                    ),
                    None => return Ok(()),
                }
            }
            Self::Trace(trace) if !trace.has_instants() => {
                "found a trace without its instants, expected gaps_base64".to_owned()
            }
            _ => return Ok(()),
        };
        Err(ArrivalsError(wrong))
    }

    /// A copy without the instants of a trace, for results.
    #[must_use]
    pub fn without_instants(&self) -> Self {
        match self {
            Self::Trace(trace) => Self::Trace(trace.without_instants()),
            other => other.clone(),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Poisson => f.write_str("poisson"),
            Self::Bursts { slots } => write!(f, "bursts:{slots}"),
            Self::Ramp { from_rps, to_rps } => write!(f, "ramp:{from_rps}..{to_rps}"),
            Self::Steps(steps) => {
                f.write_str("steps:")?;
                for (i, s) in steps.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{}:{}", s.rate_rps, exact_duration(s.duration_ns))?;
                }
                Ok(())
            }
            Self::Trace(trace) => write!(
                f,
                "trace of {} slots over {}",
                trace.slots(),
                exact_duration(trace.length_ns())
            ),
            Self::Wrk2 => f.write_str("wrk2 (compatibility mode, all connections in phase)"),
        }
    }
}

fn syntax(text: &str) -> ArrivalsError {
    let words = ["constant", "poisson", "wrk2", "bursts", "ramp", "steps"];
    let help = nearest(text, words).map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
    let (found, expected) = (quoted(text), Arrivals::SYNTAX);
    ArrivalsError(format!("found {found}, expected {expected}{help}"))
}

fn wrong(found: &str, expected: &str) -> ArrivalsError {
    ArrivalsError(format!("found {}, expected {expected}", quoted(found)))
}

fn step(text: &str) -> Result<RateStep, ArrivalsError> {
    let Some((rate, duration)) = text.split_once(':') else {
        return Err(wrong(text, "a rate and a duration, like 200:10s"));
    };
    Ok(RateStep {
        rate_rps: parse_rate(rate)?,
        duration_ns: parse_duration(duration)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Arrivals, ArrivalsError> {
        Arrivals::parse(text, &|file| match file {
            "t.txt" => Ok("# log\n1700000000.5 GET /\n1700000000.25,x\n\n".to_owned()),
            _ => Err("no such file".to_owned()),
        })
    }

    #[test]
    fn the_text_form_reads_back() {
        for text in [
            "constant",
            "poisson",
            "bursts:10",
            "ramp:0..500.5",
            "steps:100:10s,0:500ms,400:90s",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let ramp = parse("ramp:1krps..2krps").unwrap();
        assert_eq!(ramp.own_rate_rps(1), Some(1500.0));
        assert_eq!(parse("wrk2"), Ok(Arrivals::Wrk2));
        let Arrivals::Trace(trace) = parse("trace:t.txt").unwrap() else {
            panic!("expected a trace");
        };
        assert_eq!(trace.instants_ns(), [0, 250_000_000]);
    }

    #[test]
    fn every_mistake_is_described() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("poison").contains("`poisson`"));
        assert!(error("bursts:0").contains("at least 1"));
        assert!(error("bursts:x").contains("`x`"));
        assert!(error("ramp:5").contains("ramp:RATE..RATE"));
        assert!(error("ramp:a..5").contains("`a`"));
        assert!(error("steps:100").contains("200:10s"));
        assert!(error("steps:100:10").contains("10s"));
        assert!(error("steps:100:0").contains("above 0"));
        assert!(error("trace:none").contains("no such file"));
        let line = Trace::parse("1.5\nyesterday\n").unwrap_err().to_string();
        assert!(line.starts_with("line 2"), "{line}");
        assert!(Trace::parse("-1\n").is_err());
    }

    #[test]
    fn the_rate_is_the_mean_over_the_window() {
        let steps = parse("steps:100:10s,300:10s").unwrap();
        let s = 1_000_000_000;
        assert_eq!(steps.own_window_ns(), Some(20 * s));
        assert_eq!(steps.own_rate_rps(20 * s), Some(200.0));
        assert_eq!(steps.own_rate_rps(10 * s), Some(100.0));
        assert_eq!(steps.own_rate_rps(40 * s), Some(250.0));
        assert!(steps.check(200.0, 20 * s).is_ok());
        let wrong = steps.check(100.0, 20 * s).unwrap_err().to_string();
        assert!(wrong.contains("expected 200"), "{wrong}");
    }

    #[test]
    fn the_json_form_does_not_change() {
        for (arrivals, json) in [
            (Arrivals::Constant, r#""constant""#),
            (Arrivals::Poisson, r#""poisson""#),
            (Arrivals::Bursts { slots: 3 }, r#"{"bursts":{"slots":3}}"#),
        ] {
            assert_eq!(serde_json::to_string(&arrivals).unwrap(), json);
            assert_eq!(serde_json::from_str::<Arrivals>(json).unwrap(), arrivals);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_a_panic(
            text in "(bursts|ramp|steps|trace|wrk2|constant)?:?[0-9a-z.,:+-]{0,24}", file: String,
        ) {
            let read = |_: &str| Ok(file.clone());
            if let Ok(arrivals) = Arrivals::parse(&text, &read) {
                let window_ns = arrivals.own_window_ns().unwrap_or(1_000_000_000);
                let rate_rps = arrivals.own_rate_rps(window_ns).unwrap_or(1.0);
                let checked = arrivals.check(rate_rps, window_ns);
                prop_assert!(checked.is_ok(), "{}: {:?}", text, checked);
            }
            Trace::parse(&file).ok();
        }
    }
}
