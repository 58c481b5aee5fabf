//! Durations, rates and sizes for tables and messages.

/// A duration for people, with 3 significant digits: `847 ns`, `12.3 µs`, `1.23 ms`,
/// `4.00 s`; from two minutes on `2m05s`, `1h02m`.
#[must_use]
pub fn format_duration_ns(ns: u64) -> String {
    let value = ns as f64;
    // The limit is where 3 digits would round up to the next unit.
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    for (unit, scale) in [("µs", 1e3), ("ms", 1e6)] {
        if value / scale < 999.5 {
            return format!("{} {unit}", three_digits(value / scale));
        }
    }
    let seconds = value / 1e9;
    if seconds < 119.5 {
        return format!("{} s", three_digits(seconds));
    }
    let seconds = seconds.round() as u64;
    if seconds < 3_600 {
        return format!("{}m{:02}s", seconds / 60, seconds % 60);
    }
    let minutes = (seconds + 30) / 60;
    format!("{}h{:02}m", minutes / 60, minutes % 60)
}

/// A duration that may be absent, as a dash: it was not measured, which is not zero.
#[must_use]
pub fn format_optional_ns(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), format_duration_ns)
}

/// A duration as [`parse_duration`] reads it back, exactly: `1500ms`, `10s`.
#[must_use]
pub fn exact_duration(ns: u64) -> String {
    for (unit, scale) in [
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ] {
        if ns != 0 && ns.is_multiple_of(scale) {
            return format!("{}{unit}", ns / scale);
        }
    }
    format!("{ns}ns")
}

/// A size for people, with 3 significant digits, in powers of 1024: `847 B`,
/// `12.3 MiB`. Negative values (differences) keep their sign.
#[must_use]
pub fn format_bytes(bytes: f64) -> String {
    scaled_text(
        bytes,
        1024.0,
        &["B", "KiB", "MiB", "GiB", "TiB", "PiB"],
        " ",
    )
}

/// A rate for people, with 3 significant digits: `200 rps`, `1.50 krps`.
#[must_use]
pub fn format_rate(rps: f64) -> String {
    scaled_text(rps, 1000.0, &["rps", "krps", "Mrps"], " ")
}

fn scaled_text(value: f64, base: f64, units: &[&str], gap: &str) -> String {
    if !value.is_finite() {
        return format!("{value}{gap}{}", units[0]);
    }
    let mut scaled = value;
    let mut unit = 0;
    while scaled.abs() >= (base - 0.5).max(999.5) && unit + 1 < units.len() {
        scaled /= base;
        unit += 1;
    }
    let text = if unit == 0 && scaled.fract() == 0.0 {
        format!("{scaled:.0}")
    } else {
        three_digits(scaled)
    };
    format!("{text}{gap}{}", units[unit])
}

/// 3 significant digits without an exponent: `1.23`, `12.3`, `123`, `1234`, `0.0123`.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    let decimals = if size >= 99.95 {
        0
    } else if size >= 9.995 {
        1
    } else if size >= 0.9995 || size == 0.0 {
        2
    } else {
        ((2.0 - size.log10().floor()) as usize).min(12)
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{parse_bytes, parse_duration, parse_rate};
    use proptest::prelude::*;

    #[test]
    fn durations_for_people() {
        for (ns, text) in [
            (0, "0 ns"),
            (847, "847 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (847_000, "847 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (1_234_567, "1.23 ms"),
            (12_345_678, "12.3 ms"),
            (9_996_000, "10.0 ms"),
            (1_500_000_000, "1.50 s"),
            (119_000_000_000, "119 s"),
            (125_000_000_000, "2m05s"),
            (3_599_600_000_000, "1h00m"),
            (3_720_000_000_000, "1h02m"),
        ] {
            assert_eq!(format_duration_ns(ns), text);
        }
    }

    #[test]
    fn sizes_and_rates_for_people() {
        assert_eq!(format_bytes(0.0), "0 B");
        assert_eq!(format_bytes(847.0), "847 B");
        assert_eq!(format_bytes(12.3 * 1048576.0), "12.3 MiB");
        assert_eq!(format_bytes(-2048.0), "-2.00 KiB");
        assert_eq!(format_bytes(1023.9), "1.00 KiB");
        assert_eq!(format_rate(200.0), "200 rps");
        assert_eq!(format_rate(199.94), "200 rps");
        assert_eq!(format_rate(0.25), "0.250 rps");
        assert_eq!(format_rate(1500.0), "1.50 krps");
        assert_eq!(format_rate(f64::NAN), "NaN rps");
    }

    proptest! {
        #[test]
        fn an_exact_duration_reads_back(ns: u64) {
            prop_assert_eq!(parse_duration(&exact_duration(ns)), Ok(ns));
        }

        #[test]
        fn people_read_a_duration_within_half_a_percent(ns in 1u64..119_000_000_000) {
            let text = format_duration_ns(ns).replace(' ', "");
            let back = parse_duration(&text).unwrap() as f64;
            prop_assert!((back / ns as f64 - 1.0).abs() <= 0.0051, "{} as {}", ns, text);
        }

        #[test]
        fn people_read_a_rate_and_a_size_within_half_a_percent(value in 1.0f64..1e9) {
            let rate = value.min(1e8);
            let back = parse_rate(&format_rate(rate)).unwrap();
            prop_assert!((back / rate - 1.0).abs() <= 0.0051);
            let text = format_bytes(value.round());
            let back = match parse_bytes(&text) {
                Ok(bytes) => bytes as f64,
                Err(error) if error.to_string().contains("not a whole number") => return Ok(()),
                Err(error) => panic!("{text}: {error}"),
            };
            prop_assert!((back / value.round() - 1.0).abs() <= 0.0051, "{} as {}", value, text);
        }

        #[test]
        fn no_number_makes_the_formatters_panic(ns: u64, value: f64) {
            prop_assert!(!format_duration_ns(ns).is_empty());
            prop_assert!(!format_bytes(value).is_empty());
            prop_assert!(!format_rate(value).is_empty());
        }
    }
}
