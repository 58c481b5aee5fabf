//! Parsing durations, rates, sizes and shares.

use thiserror::Error;

use crate::limits::{RATE_MAX, RATE_RPS_MAX};
use crate::text::quoted;

/// Why a text is not a duration, rate, size or share: `FOUND, expected EXPECTED`, with a
/// suggestion after a semicolon if a likely meaning is known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UnitError(String);

/// What the texts of one kind look like.
struct Kind {
    /// With examples.
    expected: &'static str,
    /// What the texts of values that are not negative look like.
    positive: &'static str,
    /// Largest value.
    most: &'static str,
    /// Smallest unit, in the plural.
    unit: &'static str,
}

const DURATION: Kind = Kind {
    expected: "a duration with its unit (h, m, s, ms, us, ns), like `10s`, `1m30s` or `500ms`",
    positive: "a duration of 0 or more, like `10s`",
    most: "584 years",
    unit: "nanoseconds",
};
const RATE: Kind = Kind {
    expected: "requests per second, like `500`, `500rps`, `1.5krps` or `500/s`",
    positive: "a rate above 0, like `500`",
    most: RATE_MAX,
    unit: "",
};
const BYTES: Kind = Kind {
    expected: "a size, like `128`, `128B`, `4KiB` or `1MB`",
    positive: "a size of 0 or more, like `4KiB`",
    most: "16777215 TiB",
    unit: "bytes",
};
const SHARE: Kind = Kind {
    expected: "a percentage, like `5%` or `0.5 %`",
    positive: "a percentage of 0 or more, like `5%`",
    most: "100%",
    unit: "",
};

impl Kind {
    fn error(&self, found: &str) -> UnitError {
        UnitError(format!("{found}, expected {}", self.expected))
    }

    fn malformed(&self, text: &str) -> UnitError {
        self.error(&format!("found {}", quoted(text)))
    }

    fn no_unit(&self, text: &str, suggestion: &str) -> UnitError {
        let UnitError(error) = self.error(&format!("{} has no unit", quoted(text)));
        UnitError(format!("{error}; did you mean `{suggestion}`?"))
    }

    fn unknown_unit(&self, text: &str, unit: &str) -> UnitError {
        self.error(&format!(
            "{} has the unknown unit {}",
            quoted(text),
            quoted(unit)
        ))
    }

    fn too_large(&self, text: &str) -> UnitError {
        let found = quoted(text);
        UnitError(format!(
            "{found} is too large, expected at most {}",
            self.most
        ))
    }

    fn too_fine(&self, text: &str) -> UnitError {
        self.error(&format!(
            "{} is not a whole number of {}",
            quoted(text),
            self.unit
        ))
    }

    /// The text without blanks around it, if it can be a number.
    fn trimmed<'t>(&self, text: &'t str) -> Result<&'t str, UnitError> {
        match text.trim() {
            "" => Err(self.error("found nothing")),
            trimmed if trimmed.starts_with(['-', '\u{2212}']) => {
                let (found, expected) = (quoted(trimmed), self.positive);
                Err(UnitError(format!(
                    "{found} is negative, expected {expected}"
                )))
            }
            trimmed => Ok(trimmed),
        }
    }

    /// `number` times `scale`, exactly: decimal arithmetic, no floating point, so that
    /// `0.1s` is 100 ms to the nanosecond. `text` is what was written.
    fn scaled(&self, text: &str, number: &str, scale: u64) -> Result<u64, UnitError> {
        if !is_number(number) {
            return Err(self.malformed(text));
        }
        let too_large = || self.too_large(text);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let whole: u64 = match whole {
            "" => 0,
            digits => digits.parse().map_err(|_| too_large())?,
        };
        let fraction = fraction.trim_end_matches('0');
        // The largest scale has 13 digits: a longer fraction of it is never a whole number.
        if fraction.len() > 18 {
            return Err(self.too_fine(text));
        }
        let digits: u128 = fraction.parse().unwrap_or(0);
        let product = digits * u128::from(scale);
        let divisor = 10u128.pow(fraction.len() as u32);
        if !product.is_multiple_of(divisor) {
            return Err(self.too_fine(text));
        }
        let part = u64::try_from(product / divisor).map_err(|_| too_large())?;
        let scaled = whole.checked_mul(scale).and_then(|v| v.checked_add(part));
        scaled.ok_or_else(too_large)
    }
}

/// Parses a duration into nanoseconds: one or more numbers with units, the
/// larger units first (`1m30s`, `1.5s`, `250us`). A bare `0` is 0.
///
/// # Errors
/// For any other text: what was found and what was expected; for a number without a unit, also a
/// suggestion.
pub fn parse_duration(text: &str) -> Result<u64, UnitError> {
    let text = DURATION.trimmed(text)?;
    if text == "0" {
        return Ok(0);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    let mut last_scale = u64::MAX;
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        let end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        if unit.is_empty() && after.is_empty() && is_number(number) {
            return Err(DURATION.no_unit(text, &format!("{text}s")));
        }
        if number.is_empty() || unit.is_empty() {
            return Err(DURATION.malformed(text));
        }
        let scale = duration_scale(unit).ok_or_else(|| DURATION.unknown_unit(text, unit))?;
        if scale >= last_scale {
            return Err(DURATION.malformed(text));
        }
        last_scale = scale;
        total = total
            .checked_add(DURATION.scaled(text, number, scale)?)
            .ok_or_else(|| DURATION.too_large(text))?;
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

/// Parses a rate into requests per second: `500`, `500rps`, `1.5krps`, `500/s`. Zero is a valid
/// rate; a caller that needs a positive one must check.
///
/// # Errors
/// For any other text: what was found and what was expected.
pub fn parse_rate(text: &str) -> Result<f64, UnitError> {
    let text = RATE.trimmed(text)?;
    let (number, unit) = split_number(text);
    let unit = unit.trim_start();
    let scale = match unit {
        "" | "rps" | "/s" => 1.0,
        "k" | "krps" | "k/s" => 1e3,
        "M" | "Mrps" | "M/s" => 1e6,
        _ if number.is_empty() => return Err(RATE.malformed(text)),
        _ => return Err(RATE.unknown_unit(text, unit)),
    };
    match number.parse::<f64>() {
        Ok(value) if is_number(number) && value * scale <= RATE_RPS_MAX => Ok(value * scale),
        Ok(_) if is_number(number) => Err(RATE.too_large(text)),
        _ => Err(RATE.malformed(text)),
    }
}

/// Parses a size into bytes: `128`, `128B`, `4KiB`, `1MB` (`K`, `M`, `G`, `T` are
/// powers of 1000, `Ki`... of 1024; the `B` may be left out, case is free).
///
/// # Errors
/// For any other text, including fractions of a byte: what was found and what was expected.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let text = BYTES.trimmed(text)?;
    let (number, unit) = split_number(text);
    let unit = unit.trim_start();
    if number.is_empty() {
        return Err(BYTES.malformed(text));
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
        _ => return Err(BYTES.unknown_unit(text, unit)),
    };
    BYTES.scaled(text, number, scale)
}

/// Parses a percentage into a share: `5%` is 0.05. A number without the sign is refused: it
/// could be a percentage or a share.
///
/// # Errors
/// For any other text: what was found and what was expected.
pub fn parse_share(text: &str) -> Result<f64, UnitError> {
    let text = SHARE.trimmed(text)?;
    let number = text.strip_suffix('%').map_or(text, str::trim_end);
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match number.parse::<f64>() {
        Ok(value) if plain && text.ends_with('%') => Ok(value / 100.0),
        Ok(_) if plain => Err(SHARE.no_unit(text, &format!("{number}%"))),
        _ => Err(SHARE.malformed(text)),
    }
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
    fn an_invalid_duration_is_refused_with_the_reason() {
        let error = |text| parse_duration(text).unwrap_err().to_string();
        assert_eq!(
            error("10"),
            "`10` has no unit, expected a duration with its unit (h, m, s, ms, us, ns), \
             like `10s`, `1m30s` or `500ms`; did you mean `10s`?"
        );
        assert!(
            error("").starts_with("found nothing, expected"),
            "{}",
            error("")
        );
        assert!(error("-1s").contains("negative"));
        assert!(error("5 parsecs").contains("expected a duration"));
        assert!(error("5parsecs").contains("unknown unit `parsecs`"));
        assert!(error("99999999h").contains("too large"));
        assert!(error("99999999999999999999999s").contains("too large"));
        assert!(error("0.5ns").contains("whole number of nanoseconds"));
        for text in [
            "NaN", "inf", "s", "1.2.3s", ".s", "1s1s", "1s1m", "1m30", "1e3s", "+1s", "١s",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_need_a_percent_sign() {
        assert_eq!(parse_share("5%"), Ok(0.05));
        assert_eq!(parse_share(" 0.5 % "), Ok(0.005));
        for wrong in ["", "5", "-5%", "five%", "1e3%", "%", "5%%"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
        let error = parse_share("5").unwrap_err().to_string();
        assert!(error.contains("did you mean `5%`"), "{error}");
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
