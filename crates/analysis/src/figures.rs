//! Numbers as text, the same in tables, on pages and in answers. Units are written out. The width
//! of an interval decides the number of digits.

use std::fmt;

use tare_plan::Unit;
use tare_records::summary::{MoreBlocks, Ratio};

/// A number as text, and its interval if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The number, with its unit if the text has one: `1.9 ms`.
    pub value: String,
    /// The ends of the interval, `1.7 to 2.1`, or what is known of them.
    pub interval: Option<String>,
}

impl Shown {
    fn new(value: String, interval: impl Into<Option<String>>) -> Self {
        let interval = interval.into();
        Self { value, interval }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interval {
            Some(interval) => write!(f, "{} ({interval})", self.value),
            None => f.write_str(&self.value),
        }
    }
}

/// A duration in nanoseconds with a unit and three significant digits: `412 µs`, `1.92 ms`,
/// `12.4 s`.
#[must_use]
pub fn duration(ns: f64) -> String {
    let (scale, unit) = duration_unit(ns.abs());
    format!("{} {unit}", significant(ns / scale))
}

/// Nanoseconds without conversion, for times of the hardware: `38 ns`.
#[must_use]
pub fn nanoseconds(ns: f64) -> String {
    format!("{ns:.0} ns")
}

fn duration_unit(ns: f64) -> (f64, &'static str) {
    match ns {
        ns if ns < 1e6 => (1e3, "µs"),
        ns if ns < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// Nanoseconds as milliseconds with three significant digits and no unit.
#[must_use]
pub fn ms(ns: f64) -> String {
    significant(ns / 1e6)
}

/// A difference in nanoseconds as signed milliseconds with its interval and no unit:
/// `+1.9 (1.7 to 2.1)`.
#[must_use]
pub fn ms_interval(value: f64, low: Option<f64>, high: Option<f64>) -> Shown {
    let [low, high] = [low, high].map(|end| end.map(|ns| ns / 1e6));
    let mut shown = interval(value / 1e6, low, high, "");
    shown.value = signed(value, shown.value);
    shown
}

/// Adds a plus sign to the text of a value if the value is above zero.
#[must_use]
pub fn signed(value: f64, text: String) -> String {
    if value > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}

/// A difference in nanoseconds with its sign and unit: `+2.31 ms`.
#[must_use]
pub fn signed_duration(ns: f64) -> String {
    signed(ns, duration(ns))
}

/// Ends of an interval whose ratio is at least this are far apart.
const FAR_APART: f64 = 3.0;

/// From this ratio on, the nearer end of an interval says enough.
const SEVERAL: f64 = 2.0;

/// A ratio and the ends of its interval, with as many digits as the interval needs.
fn ratio_digits(value: f64, low: f64, high: f64, decimals_max: usize) -> [String; 3] {
    let decimals = decimals_for((high - low) / 2.0).min(decimals_max);
    [value, low, high].map(|x| match high / low < FAR_APART {
        true => fixed(x, decimals),
        false => two_digits(x),
    })
}

/// Ends of an interval whose ratio is at least this leave nothing to read off but the side of 1 on which
/// it lies: two blocks can give an interval up to 10^15.
const USELESS: f64 = 1_000.0;

/// From this ratio on, its number does not matter.
const RATIO_MAX: f64 = 10_000.0;

/// What an interval says that has no use as a range.
enum Wide {
    AtLeast(String),
    AtMost(String),
    Nothing,
}

impl Wide {
    /// `None` for an interval that is worth printing.
    fn of(low: f64, high: f64) -> Option<Self> {
        let useless = high / low >= USELESS || (high / low).is_nan();
        useless.then(|| match (low, high) {
            (low, _) if low > 1.0 => Self::AtLeast(ratio_number(low)),
            (_, high) if high < 1.0 => Self::AtMost(ratio_number(high)),
            _ => Self::Nothing,
        })
    }

    fn words(&self) -> String {
        match self {
            Self::AtLeast(end) => format!("at least {end}"),
            Self::AtMost(end) => format!("at most {end}"),
            Self::Nothing => "no useful interval".to_owned(),
        }
    }
}

/// A ratio in two digits, without digits that mean nothing.
fn ratio_number(value: f64) -> String {
    match value {
        v if v >= RATIO_MAX => ">10,000".to_owned(),
        v if v <= 1.0 / RATIO_MAX => "<0.0001".to_owned(),
        v => two_digits(v),
    }
}

/// A ratio with its interval: `x5.3 (4.5 to 6.2)`; `x6.0 (no useful interval)`.
#[must_use]
pub fn ratio_interval(value: f64, low: Option<f64>, high: Option<f64>) -> String {
    ratio(value, low, high).to_string()
}

/// As [`ratio_interval`], with the interval apart.
#[must_use]
pub fn ratio(value: f64, low: Option<f64>, high: Option<f64>) -> Shown {
    let mut shown = match low.zip(high).and_then(|(low, high)| Wide::of(low, high)) {
        Some(wide) => Shown::new(ratio_number(value), wide.words()),
        None => ratio_up_to(DECIMALS_MAX, value, low, high),
    };
    shown.value.insert(0, 'x');
    shown
}

/// A ratio with its interval for a narrow column, without the `x`: `5.3 (4.5 to 6.2)`; `>3.0` or
/// `no useful interval`.
#[must_use]
pub fn ratio_short(value: f64, low: Option<f64>, high: Option<f64>) -> Shown {
    match low.zip(high).and_then(|(low, high)| Wide::of(low, high)) {
        Some(Wide::AtLeast(end)) => Shown::new(format!(">{}", end.trim_start_matches('>')), None),
        Some(Wide::AtMost(end)) => Shown::new(format!("<{}", end.trim_start_matches('<')), None),
        Some(wide) => Shown::new(wide.words(), None),
        None => ratio_up_to(2, value, low, high),
    }
}

fn ratio_up_to(decimals: usize, value: f64, low: Option<f64>, high: Option<f64>) -> Shown {
    let Some((low, high)) = low.zip(high) else {
        let value = match value {
            v if (1.0 / RATIO_MAX..RATIO_MAX).contains(&v) => significant(v),
            v => ratio_number(v),
        };
        return Shown::new(value, None);
    };
    let [value, low, high] = ratio_digits(value, low, high, decimals);
    Shown::new(value, format!("{low} to {high}"))
}

/// What is known of a factor whose interval has its ends far apart: `is at least x4.1`, or
/// `is different: between x1.5 and x9.0`.
#[must_use]
pub fn wide_factor(low: Option<f64>, high: Option<f64>) -> Option<String> {
    let (low, high) = low.zip(high)?;
    let end = |end: f64| ratio_number(end).trim_start_matches(['<', '>']).to_owned();
    let words = || match Wide::of(low, high) {
        _ if low >= SEVERAL => format!("is at least x{}", end(low)),
        _ if high <= 1.0 / SEVERAL => format!("is at most x{}", end(high)),
        Some(wide) => format!("is different: {}", wide.words()),
        None => format!(
            "is different: between x{} and x{}",
            two_digits(low),
            two_digits(high)
        ),
    };
    (high / low >= FAR_APART).then(words)
}

/// What is known of a ratio that is not resolved: `between x0.9 and x4; about 12 to 40 more blocks on
/// this machine`.
#[must_use]
pub fn unresolved(ratio: &Ratio) -> String {
    let Some((low, high)) = ratio.low.zip(ratio.high) else {
        let value = ratio_up_to(DECIMALS_MAX, ratio.value, None, None);
        return format!("x{value} in a single block");
    };
    let [_, low_words, high_words] = ratio_digits(ratio.value, low, high, DECIMALS_MAX);
    let ends = match Wide::of(low, high) {
        Some(wide) => wide.words(),
        None => format!("between x{low_words} and x{high_words}"),
    };
    let more = match ratio.more_blocks {
        Some(MoreBlocks {
            low,
            high: Some(high),
        }) if low < high => {
            format!("about {low} to {high} more blocks")
        }
        Some(MoreBlocks {
            low: 1,
            high: Some(_),
        }) => "about 1 more block".to_owned(),
        Some(MoreBlocks { low, high: Some(_) }) => format!("about {low} more blocks"),
        Some(MoreBlocks { low, high: None }) => format!("{low} to more than 1,000 more blocks"),
        None if ratio.blocks.is_empty() => return ends,
        None => "more than 1,000 more blocks".to_owned(),
    };
    format!("{ends}; {more} on this machine")
}

/// Two significant digits, or all digits of the integer part.
fn two_digits(value: f64) -> String {
    let magnitude = value.abs().max(1e-9).log10().floor();
    fixed(value, (1.0 - magnitude).clamp(0.0, 6.0) as usize)
}

/// No interval of a figure in its own unit is as wide as this; one that is comes from a few blocks that
/// have nothing in common.
const AMOUNT_MAX: f64 = 1e9;

/// A value with its interval. All numbers have as many decimals as half the width of the interval
/// needs to show one significant digit, or two if its first digit is 1.
#[must_use]
pub fn interval(value: f64, low: Option<f64>, high: Option<f64>, unit: &str) -> Shown {
    let unit = if unit.is_empty() {
        String::new()
    } else {
        format!(" {unit}")
    };
    let (Some(low), Some(high)) = (low, high) else {
        return Shown::new(format!("{}{unit}", significant(value)), None);
    };
    if high - low >= AMOUNT_MAX || (high - low).is_nan() {
        return match value.abs() < AMOUNT_MAX {
            true => Shown::new(
                format!("{}{unit}", significant(value)),
                Wide::Nothing.words(),
            ),
            false => Shown::new(Wide::Nothing.words(), None),
        };
    }
    let decimals = decimals_for((high - low) / 2.0);
    let value = if low > 0.0 || high < 0.0 {
        nonzero(value, decimals)
    } else {
        fixed(value, decimals)
    };
    let [low, high] = [low, high].map(|x| nonzero(x, decimals));
    Shown::new(format!("{value}{unit}"), format!("{low} to {high}"))
}

/// Nanoseconds (`ns`) or `bytes` with the interval, such as `3.1 µs (2.8 to 3.4)`: in the unit that
/// fits the larger of them. An interval that is not printed does not count.
#[must_use]
pub fn amount_interval(value: f64, low: Option<f64>, high: Option<f64>, unit: Unit) -> Shown {
    let size = [Some(value), low, high].into_iter().flatten();
    let size = size.map(f64::abs).fold(0.0, f64::max);
    let width = low.zip(high).map(|(low, high)| high - low);
    let is_printed = |(scale, _): &(f64, &str)| width.is_none_or(|w| w / scale < AMOUNT_MAX);
    let of_all = Some(unit_for(unit, size)).filter(is_printed);
    let (scale, unit) = of_all.unwrap_or_else(|| unit_for(unit, value.abs()));
    let [low, high] = [low, high].map(|x| x.map(|x| x / scale));
    interval(value / scale, low, high, unit)
}

/// The unit for an amount of this size, and its length in `ns` or `bytes`.
fn unit_for(unit: Unit, size: f64) -> (f64, &'static str) {
    match (unit, size) {
        (Unit::Bytes, s) if s < 1024.0 => (1.0, "bytes"),
        (Unit::Bytes, s) if s < MIB => (1024.0, "KiB"),
        (Unit::Bytes, _) => (MIB, "MiB"),
        (_, s) if s < 1e3 => (1.0, "ns"),
        (_, s) if s < 1e6 => (1e3, "µs"),
        _ => (1e6, "ms"),
    }
}

/// `value` with `decimals`, or with more if it would be printed as zero: rounding must not hide on
/// which side of zero an interval lies.
fn nonzero(value: f64, decimals: usize) -> String {
    let is_zero = |text: &str| text.bytes().all(|b| matches!(b, b'0' | b'.'));
    (decimals..=DECIMALS_MAX)
        .map(|more| fixed(value, more))
        .find(|text| !is_zero(text))
        .unwrap_or_else(|| fixed(value, decimals))
}

/// Cores with three decimals; with two from 10 cores on, with one from 100 cores on.
#[must_use]
pub fn cores(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 9.9995 => 3,
        v if v < 99.995 => 2,
        _ => 1,
    };
    fixed(value, decimals)
}

/// The value of a figure with its unit, in the size that fits.
#[must_use]
pub fn in_unit(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => duration(value),
        Unit::Bytes => bytes(value),
        Unit::Rps => rate(value),
        Unit::Cores => format!("{} cores", cores(value)),
        Unit::Count => amount(value),
        Unit::Ratio => format!("x{}", significant(value)),
    }
}

/// Bytes as MiB with three significant digits and no unit.
#[must_use]
pub fn mib(bytes: f64) -> String {
    significant(bytes / MIB)
}

const MIB: f64 = 1_048_576.0;

/// Bytes in binary units: `142 MiB`, `3.40 MiB`, `1.20 GiB`.
#[must_use]
pub fn bytes(value: f64) -> String {
    match value.abs() {
        v if v < 1.0 => "0".to_owned(),
        v if v < MIB => format!("{} KiB", significant(value / 1024.0)),
        v if v < 1000.0 * MIB => format!("{} MiB", significant(value / MIB)),
        _ => format!("{} GiB", significant(value / 1024.0 / MIB)),
    }
}

/// A number of events: `812`, `81.2 k`, `1.20 M`.
#[must_use]
pub fn amount(number: f64) -> String {
    match number.abs() {
        n if n < 1e3 => significant(number),
        n if n < 1e6 => format!("{} k", significant(number / 1e3)),
        n if n < 1e9 => format!("{} M", significant(number / 1e6)),
        _ => format!("{} G", significant(number / 1e9)),
    }
}

/// A rate: `400 rps`, `2,500 rps`, `0.500 rps`.
#[must_use]
pub fn rate(value: f64) -> String {
    format!("{} rps", rps(value))
}

/// A rate without its unit.
#[must_use]
pub fn rps(value: f64) -> String {
    if value >= 100.0 || value.fract() == 0.0 {
        count(value.round() as u64)
    } else {
        significant(value)
    }
}

/// A number with commas as thousands separators.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share as a percentage with its sign: `+35.4 %`.
#[must_use]
pub fn percent(share: f64) -> String {
    if share >= RATIO_MAX {
        return ">+1,000,000 %".to_owned();
    }
    signed(share, format!("{} %", significant(share * 100.0)))
}

/// Three significant digits, without an exponent.
#[must_use]
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    fixed(
        value,
        (2 - magnitude).clamp(0, DECIMALS_MAX as i32) as usize,
    )
}

/// Largest number of decimals: with 6, milliseconds are exact to the nanosecond.
const DECIMALS_MAX: usize = 6;

fn decimals_for(half: f64) -> usize {
    if half <= 0.0 || !half.is_finite() {
        return 3;
    }
    let magnitude = half.log10().floor();
    let first = half / 10f64.powf(magnitude);
    let more = if first < 2.0 { 1 } else { 0 };
    (more - magnitude as i32).clamp(0, 3) as usize
}

/// `value` with `decimals`, never as minus zero.
fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_the_digits_of_their_interval() {
        let of = |value, low, high| ratio_interval(value, Some(low), Some(high));
        assert_eq!(of(5.312, 4.46, 6.18), "x5.3 (4.5 to 6.2)");
        assert_eq!(of(1.0131, 1.0071, 1.0192), "x1.013 (1.007 to 1.019)");
        assert_eq!(of(6.0, 0.94, 40.2), "x6.0 (0.94 to 40)");
        assert_eq!(ratio_interval(2.5, None, None), "x2.50");
        assert_eq!(
            ratio_short(1.0131, Some(1.0071), Some(1.0192)).to_string(),
            "1.01 (1.01 to 1.02)"
        );
        let wide = |low, high| wide_factor(Some(low), Some(high));
        assert_eq!(wide(4.1, 7.1e14).unwrap(), "is at least x4.1");
        assert_eq!(wide(4.1, 30.4).unwrap(), "is at least x4.1");
        assert_eq!(
            wide(1.5, 9.0).unwrap(),
            "is different: between x1.5 and x9.0"
        );
        assert_eq!(wide(0.05, 0.4).unwrap(), "is at most x0.40");
        assert_eq!(wide(4.1, 6.0), None);
        assert_eq!(signed_duration(2.31e6), "+2.31 ms");
        assert_eq!(signed_duration(-40e3), "-40.0 µs");
    }

    /// Two blocks can give such an interval.
    #[test]
    fn an_interval_without_use_is_not_printed() {
        const HUGE: f64 = 705_710_953_800_312.0;
        let both = |value, low, high| {
            let (low, high) = (Some(low), Some(high));
            (
                ratio_interval(value, low, high),
                ratio_short(value, low, high).to_string(),
            )
        };
        let words = |long: &str, short: &str| (long.to_owned(), short.to_owned());
        let nothing = words("x6.0 (no useful interval)", "no useful interval");
        assert_eq!(both(6.0, 1.0 / HUGE, HUGE), nothing);
        assert_eq!(both(6.0, 0.0, f64::INFINITY), nothing);
        assert_eq!(
            both(HUGE, 3.0, f64::INFINITY),
            words("x>10,000 (at least 3.0)", ">3.0")
        );
        assert_eq!(
            both(1.0 / HUGE, 0.0, 0.3),
            words("x<0.0001 (at most 0.30)", "<0.30")
        );
        assert_eq!(ratio_interval(HUGE, None, None), "x>10,000");
        let ratio = |low, high, blocks| Ratio {
            low,
            high,
            blocks,
            ..serde_json::from_value(serde_json::json!({
                "what": "p50", "unit": "ns", "value": HUGE, "low": null, "high": null,
                "difference": 0.0, "blocks": [], "primary": true, "p": null, "p_holm": null,
                "margin": 0.05, "outcome": "not_resolved", "detectable": null, "more_blocks": null
            }))
            .unwrap()
        };
        let wide = ratio(Some(1.0 / HUGE), Some(HUGE), vec![1.0, 2.0]);
        assert_eq!(
            unresolved(&wide),
            "no useful interval; more than 1,000 more blocks on this machine"
        );
        let single = ratio(None, None, vec![1.0]);
        assert_eq!(unresolved(&single), "x>10,000 in a single block");
        assert_eq!(
            interval(2.0, Some(-HUGE), Some(HUGE), "%").to_string(),
            "2.00 % (no useful interval)"
        );
        assert_eq!(
            amount_interval(1e3, Some(-HUGE * HUGE), Some(HUGE * HUGE), Unit::Ns).to_string(),
            "1.00 µs (no useful interval)"
        );
        assert_eq!(percent(HUGE), ">+1,000,000 %");
    }

    #[test]
    fn durations_have_the_unit_that_fits() {
        assert_eq!(duration(412_345.0), "412 µs");
        assert_eq!(duration(1_923_000.0), "1.92 ms");
        assert_eq!(duration(12_400_000_000.0), "12.4 s");
        assert_eq!(duration(0.0), "0 µs");
        assert_eq!(ms(412_345.0), "0.412");
    }

    #[test]
    fn the_interval_decides_the_number_of_digits() {
        assert_eq!(
            interval(1.9234, Some(1.71), Some(2.14), "ms").to_string(),
            "1.9 ms (1.7 to 2.1)"
        );
        assert_eq!(
            interval(0.2134, Some(0.2051), Some(0.2217), "cores").to_string(),
            "0.213 cores (0.205 to 0.222)"
        );
        let wide = interval(0.01, Some(-3.4), Some(3.6), "");
        assert_eq!(wide.to_string(), "0 (-3 to 4)");
        assert_eq!(interval(1.9234, None, None, "ms").to_string(), "1.92 ms");
        let added = ms_interval(1_923_400.0, Some(1.71e6), Some(2.14e6));
        assert_eq!(added.to_string(), "+1.9 (1.7 to 2.1)");
    }

    #[test]
    fn rounding_does_not_hide_the_side_of_zero() {
        let of = |value, low, high| interval(value, Some(low), Some(high), "").to_string();
        assert_eq!(of(8.0, 0.3, 17.0), "8 (0.3 to 17)");
        assert_eq!(of(-8.0, -17.0, -0.04), "-8 (-17 to -0.04)");
        assert_eq!(of(8.0, -0.3, 17.0), "8 (-0.3 to 17)");
        assert_eq!(of(8.0, 0.0, 17.0), "8 (0 to 17)");
        assert_eq!(of(8.0, 1e-9, 17.0), "8 (0 to 17)");
        assert_eq!(of(8.0, 0.7, 17.0), "8 (1 to 17)");
        assert_eq!(of(4e-4, 2e-4, 6e-4), "0.0004 (0.0002 to 0.001)");
    }

    #[test]
    fn sizes_rates_and_counts() {
        assert_eq!(
            [812.0, 81_234.0, 1_204_000.0, 3.2e9].map(amount),
            ["812", "81.2 k", "1.20 M", "3.20 G"]
        );
        assert_eq!(
            [0.09, 12.3456, 123.456].map(cores),
            ["0.090", "12.35", "123.5"]
        );
        assert_eq!(mib(148_897_792.0), "142");
        assert_eq!(bytes(148_897_792.0), "142 MiB");
        assert_eq!(bytes(3.0 * 1024.0 * 1_048_576.0), "3.00 GiB");
        assert_eq!(bytes(0.0), "0");
        assert_eq!(rate(2500.0), "2,500 rps");
        assert_eq!(rate(0.5), "0.500 rps");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(123), "123");
        assert_eq!(percent(0.354), "+35.4 %");
    }
}
