//! Parsing durations, rates and sizes.

use thiserror::Error;

use crate::limits::{RATE_MAX, RATE_RPS_MAX};

/// Why a text is no duration, rate or size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnitError {
    /// Nothing was written.
    #[error("expected {expected}, found nothing")]
    Empty {
        /// What was wanted, with examples.
        expected: &'static str,
    },
    /// A number without a unit, where it could mean several things.
    #[error("{found:?} has no unit: expected {expected}; did you mean `{suggestion}`?")]
    NoUnit {
        /// What was written.
        found: String,
        /// What was wanted, with examples.
        expected: &'static str,
        /// The same number with the likeliest unit.
        suggestion: String,
    },
    /// A unit that there is not.
    #[error("{found:?} has the unknown unit {unit:?}: expected {expected}")]
    UnknownUnit {
        /// What was written.
        found: String,
        /// Its unit.
        unit: String,
        /// What was wanted, with examples.
        expected: &'static str,
    },
    /// A minus sign.
    #[error("{found:?} is negative: expected {expected}")]
    Negative {
        /// What was written.
        found: String,
        /// What was wanted, with examples.
        expected: &'static str,
    },
    /// No number where one should be, or parts in a wrong order.
    #[error("expected {expected}, found {found:?}")]
    Malformed {
        /// What was written.
        found: String,
        /// What was wanted, with examples.
        expected: &'static str,
    },
    /// More than can be kept.
    #[error("{found:?} is too large: the most is {most}")]
    TooLarge {
        /// What was written.
        found: String,
        /// The largest value.
        most: &'static str,
    },
    /// Less than one of the smallest unit.
    #[error("{found:?} is not a whole number of {unit}")]
    TooFine {
        /// What was written.
        found: String,
        /// The smallest unit, in the plural.
        unit: &'static str,
    },
}

const DURATION: &str =
    "a duration with its unit (h, m, s, ms, us, ns), like `10s`, `1m30s` or `500ms`";
const RATE: &str = "a rate, like `500`, `500rps`, `1.5krps` or `500/s`";
const BYTES: &str = "a size, like `128`, `128B`, `4KiB` or `1MB`";

/// Parses a duration into nanoseconds: one or more numbers with units, the
/// larger units first (`1m30s`, `1.5s`, `250us`). A bare `0` is 0.
///
/// # Errors
/// Anything else, with what was expected; a bare number names the units.
pub fn parse_duration(text: &str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    let found = || trimmed.to_owned();
    check_start(trimmed, DURATION)?;
    if trimmed == "0" {
        return Ok(0);
    }
    let mut rest = trimmed;
    let mut total: u64 = 0;
    let mut last_scale = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if number.is_empty() {
            return Err(UnitError::Malformed {
                found: found(),
                expected: DURATION,
            });
        }
        if unit.is_empty() {
            if !after.is_empty() || !is_number(number) {
                return Err(UnitError::Malformed {
                    found: found(),
                    expected: DURATION,
                });
            }
            return Err(UnitError::NoUnit {
                found: found(),
                expected: DURATION,
                suggestion: format!("{trimmed}s"),
            });
        }
        let Some(scale) = duration_scale(unit) else {
            return Err(UnitError::UnknownUnit {
                found: found(),
                unit: unit.to_owned(),
                expected: DURATION,
            });
        };
        if scale >= last_scale {
            return Err(UnitError::Malformed {
                found: found(),
                expected: DURATION,
            });
        }
        last_scale = scale;
        let part = scaled(number, scale)
            .map_err(|e| e.into_error(trimmed, DURATION, "584 years", "nanoseconds"))?;
        total = total.checked_add(part).ok_or_else(|| UnitError::TooLarge {
            found: found(),
            most: "584 years",
        })?;
        rest = after;
    }
    Ok(total)
}

fn duration_scale(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Parses a rate into requests per second: `500`, `500rps`, `1.5krps`, `500/s`.
/// Zero is a rate; who needs one above zero says so.
///
/// # Errors
/// Anything else, with what was expected.
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    let trimmed = text.trim();
    check_start(trimmed, RATE)?;
    let (number, unit) = split_number(trimmed);
    let unit = unit.trim_start();
    let scale = match unit {
        "" | "rps" | "/s" => 1.0,
        "k" | "krps" | "k/s" => 1e3,
        "M" | "Mrps" | "M/s" => 1e6,
        _ if number.is_empty() => {
            return Err(UnitError::Malformed {
                found: trimmed.to_owned(),
                expected: RATE,
            });
        }
        _ => {
            return Err(UnitError::UnknownUnit {
                found: trimmed.to_owned(),
                unit: unit.to_owned(),
                expected: RATE,
            });
        }
    };
    let malformed = || UnitError::Malformed {
        found: trimmed.to_owned(),
        expected: RATE,
    };
    if !is_number(number) {
        return Err(malformed());
    }
    let value = number.parse::<f64>().map_err(|_| malformed())? * scale;
    if value > RATE_RPS_MAX {
        return Err(UnitError::TooLarge {
            found: trimmed.to_owned(),
            most: RATE_MAX,
        });
    }
    Ok(value)
}

/// Parses a size into bytes: `128`, `128B`, `4KiB`, `1MB` (`K`, `M`, `G`, `T` are
/// powers of 1000, `Ki`... of 1024; the `B` may be left out, case is free).
///
/// # Errors
/// Anything else, with what was expected; fractions of a byte too.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let trimmed = text.trim();
    check_start(trimmed, BYTES)?;
    let (number, unit) = split_number(trimmed);
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(UnitError::Malformed {
            found: trimmed.to_owned(),
            expected: BYTES,
        });
    }
    let lower = unit.to_ascii_lowercase();
    let scale: u64 = match lower.strip_suffix('b').unwrap_or(&lower) {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        "gi" => 1 << 30,
        "ti" => 1 << 40,
        _ => {
            return Err(UnitError::UnknownUnit {
                found: trimmed.to_owned(),
                unit: unit.to_owned(),
                expected: BYTES,
            });
        }
    };
    scaled(number, scale).map_err(|e| e.into_error(trimmed, BYTES, "16777215 TiB", "bytes"))
}

/// What all three refuse before anything else.
fn check_start(trimmed: &str, expected: &'static str) -> Result<(), UnitError> {
    if trimmed.is_empty() {
        return Err(UnitError::Empty { expected });
    }
    if trimmed.starts_with(['-', '\u{2212}']) {
        return Err(UnitError::Negative {
            found: trimmed.to_owned(),
            expected,
        });
    }
    Ok(())
}

/// Splits off the leading digits and points.
fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Digits with at most one point, and at least one digit.
fn is_number(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().filter(|&b| b == b'.').count() <= 1
}

enum ScaleError {
    Malformed,
    TooLarge,
    TooFine,
}

impl ScaleError {
    fn into_error(
        self,
        found: &str,
        expected: &'static str,
        most: &'static str,
        unit: &'static str,
    ) -> UnitError {
        let found = found.to_owned();
        match self {
            Self::Malformed => UnitError::Malformed { found, expected },
            Self::TooLarge => UnitError::TooLarge { found, most },
            Self::TooFine => UnitError::TooFine { found, unit },
        }
    }
}

/// `number` times `scale`, exactly: decimal arithmetic, no floating point, so that
/// `0.1s` is 100 ms to the nanosecond.
fn scaled(number: &str, scale: u64) -> Result<u64, ScaleError> {
    if !is_number(number) {
        return Err(ScaleError::Malformed);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| ScaleError::TooLarge)?
    };
    let fraction = fraction.trim_end_matches('0');
    // The largest scale has 13 digits; a longer fraction cannot come out whole.
    let mut part: u64 = 0;
    if !fraction.is_empty() {
        if fraction.len() > 18 {
            return Err(ScaleError::TooFine);
        }
        let digits: u128 = fraction.parse().map_err(|_| ScaleError::Malformed)?;
        let product = digits * u128::from(scale);
        let divisor = 10u128.pow(fraction.len() as u32);
        if !product.is_multiple_of(divisor) {
            return Err(ScaleError::TooFine);
        }
        part = u64::try_from(product / divisor).map_err(|_| ScaleError::TooLarge)?;
    }
    whole
        .checked_mul(scale)
        .and_then(|v| v.checked_add(part))
        .ok_or(ScaleError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_in_every_unit() {
        for (text, ns) in [
            ("0", 0),
            ("0s", 0),
            ("1ns", 1),
            ("250us", 250_000),
            ("250µs", 250_000),
            ("500ms", 500_000_000),
            ("10s", 10_000_000_000),
            ("1.5s", 1_500_000_000),
            ("0.1s", 100_000_000),
            (".5s", 500_000_000),
            ("1m30s", 90_000_000_000),
            ("2h", 7_200_000_000_000),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            (" 10s ", 10_000_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_why() {
        let say = |text| parse_duration(text).unwrap_err().to_string();
        assert_eq!(
            say("10"),
            "\"10\" has no unit: expected a duration with its unit (h, m, s, ms, us, ns), \
             like `10s`, `1m30s` or `500ms`; did you mean `10s`?"
        );
        assert!(say("").ends_with("found nothing"), "{}", say(""));
        assert!(say("-1s").contains("negative"));
        assert!(say("5 parsecs").contains("expected a duration"));
        assert!(say("5parsecs").contains("unknown unit \"parsecs\""));
        assert!(say("99999999h").contains("too large"));
        assert!(say("99999999999999999999999s").contains("too large"));
        assert!(say("0.5ns").contains("whole number of nanoseconds"));
        for text in [
            "NaN", "inf", "s", "1.2.3s", ".s", "1s1s", "1s1m", "1m30", "1e3s", "+1s", "١s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_in_every_form() {
        for (text, rps) in [
            ("500", 500.0),
            ("500rps", 500.0),
            ("500 rps", 500.0),
            ("1.5krps", 1500.0),
            ("500/s", 500.0),
            ("2k", 2000.0),
            ("0.5", 0.5),
            ("1Mrps", 1e6),
        ] {
            assert_eq!(parse_rate(text), Ok(rps), "{text}");
        }
        for text in [
            "",
            "-1",
            "NaN",
            "inf",
            "1e99",
            "500/m",
            "rps",
            ".",
            "1.2.3",
            "2000000000",
        ] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_in_every_form() {
        for (text, bytes) in [
            ("128", 128),
            ("128B", 128),
            ("4KiB", 4096),
            ("4kib", 4096),
            ("1MB", 1_000_000),
            ("1.5Ki", 1536),
            ("2 GiB", 2 << 30),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "-1",
            "1.5",
            "B",
            "KiB",
            "4XB",
            "99999999TiB",
            "NaN",
            "0x10",
        ] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_decimal_of_seconds_reads_back(s in 0u64..1_000_000, ns in 0u64..1_000_000_000) {
            prop_assert_eq!(parse_duration(&format!("{s}.{ns:09}s")), Ok(s * 1_000_000_000 + ns));
        }

        #[test]
        fn a_rate_reads_back(rps in 0.001f64..1e7) {
            prop_assert_eq!(parse_rate(&format!("{rps}rps")), Ok(rps));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = (parse_duration(&text), parse_rate(&text), parse_bytes(&text));
        }

        #[test]
        fn no_unitlike_text_makes_it_panic(text in "[0-9.]{0,25}[hmsunkKMGiBrp/µ ]{0,4}[0-9.]{0,3}") {
            let _ = (parse_duration(&text), parse_rate(&text), parse_bytes(&text));
        }

    }
}
