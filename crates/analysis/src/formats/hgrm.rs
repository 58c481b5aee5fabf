//! HdrHistogram's percentile distribution as text (`.hgrm`), which its plotter and many scripts
//! read. The text is identical to the output of the Java library for the same counts, in
//! milliseconds, with five lines for each halving of the distance to 100 %.
//!
//! As in the library, all values are computed from the buckets. So minimum and maximum are ends of
//! buckets, and differ by up to 0.1 % from the exact values in other documents.
//!
//! Source: HdrHistogram, `AbstractHistogram.outputPercentileDistribution` and
//! `PercentileIterator`.

use std::fmt::Write as _;

use tare_stats::hist::Histogram;

/// Lines for each halving of the distance to 100 %.
const TICKS_PER_HALF: f64 = 5.0;

const MS: f64 = 1e6;

/// Number of powers of two, and of buckets in each, as the library prints them for tare's
/// configuration.
const BUCKETS: (u32, u32) = (32, 2048);

/// The distribution of `histogram` as text.
#[must_use]
pub fn hgrm(histogram: &Histogram) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut out, histogram);
    out
}

fn write(out: &mut String, h: &Histogram) -> std::fmt::Result {
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let total = h.len();
    let mut level = 0.0;
    let mut seen = 0;
    let mut last = 0;
    for (_, high, n) in h.ranges() {
        seen += n;
        last = high;
        while 100.0 * seen as f64 / total as f64 >= level {
            let share = level / 100.0;
            writeln!(
                out,
                "{:>12} {:>14} {seen:>10} {:>14}",
                fixed(high as f64 / MS, 3),
                fixed(share, 12),
                fixed(1.0 / (1.0 - share), 2)
            )?;
            level += 100.0 / ticks_at(level);
            if seen == total {
                break;
            }
        }
    }
    if total > 0 {
        let value = fixed(last as f64 / MS, 3);
        writeln!(out, "{value:>12} {:>14.12} {total:>10}", 1.0)?;
    }
    let (mean, deviation) = moments(h);
    let (buckets, sub_buckets) = BUCKETS;
    writeln!(
        out,
        "#[Mean    = {:>12}, StdDeviation   = {:>12}]",
        fixed(mean / MS, 3),
        fixed(deviation / MS, 3)
    )?;
    writeln!(
        out,
        "#[Max     = {:>12}, Total count    = {total:>12}]",
        fixed(last as f64 / MS, 3)
    )?;
    writeln!(
        out,
        "#[Buckets = {buckets:>12}, SubBuckets     = {sub_buckets:>12}]"
    )
}

/// A non-negative number with `decimals`, rounded as Java does: Java rounds the shortest decimal
/// that represents the value, and ties up. (Rust rounds the binary value, and ties to even.)
fn fixed(value: f64, decimals: usize) -> String {
    let shortest = format!("{value}");
    let (whole, fraction) = shortest.split_once('.').unwrap_or((&shortest, ""));
    if fraction.len() <= decimals {
        return format!("{value:.decimals$}");
    }
    let digits = format!("{whole}{}", &fraction[..decimals]);
    let up = u128::from(fraction.as_bytes()[decimals] >= b'5');
    let Ok(rounded) = digits.parse::<u128>().map(|n| n + up) else {
        return format!("{value:.decimals$}");
    };
    let text = format!("{rounded:0>width$}", width = decimals + 1);
    let (whole, fraction) = text.split_at(text.len() - decimals);
    format!("{whole}.{fraction}")
}

/// Number of lines from 0 to 100 % if all were as dense as at `level`, in %.
fn ticks_at(level: f64) -> f64 {
    let halvings = ((100.0 / (100.0 - level)).ln() / 2f64.ln()) as i32 + 1;
    TICKS_PER_HALF * 2f64.powi(halvings)
}

/// Mean and standard deviation. As in the library, all values of a bucket count as its middle.
fn moments(h: &Histogram) -> (f64, f64) {
    let total = h.len().max(1) as f64;
    let middle = |low: u64, high: u64| low + (high - low).div_ceil(2);
    let sum: u128 = h
        .ranges()
        .map(|(low, high, n)| u128::from(middle(low, high)) * u128::from(n))
        .sum();
    let mean = sum as f64 / total;
    let squares: f64 = h
        .ranges()
        .map(|(low, high, n)| (middle(low, high) as f64 - mean).powi(2) * n as f64)
        .sum();
    (mean, (squares / total).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_java_does() {
        assert_eq!(fixed(0.9997802734375, 12), "0.999780273438");
        assert_eq!(fixed(0.0005, 3), "0.001");
        assert_eq!(fixed(2.675, 2), "2.68");
        assert_eq!(fixed(9.999_6, 3), "10.000");
        assert_eq!(fixed(3.0, 2), "3.00");
    }

    #[test]
    fn the_lines_cover_all_values() {
        let mut h = Histogram::new();
        (1..=1000).for_each(|i| h.record(i));
        let text = hgrm(&h);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|l| l.starts_with(' ') && !l.contains("Value"))
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0], ["0.000", "0.000000000000", "1", "1.00"]);
        assert_eq!(rows[5][1..], ["0.500000000000", "500", "2.00"]);
        assert_eq!(rows.last().unwrap()[1..], ["1.000000000000", "1000"]);
        let counts: Vec<u64> = rows.iter().map(|r| r[2].parse().unwrap()).collect();
        assert!(counts.is_sorted());
        assert!(text.ends_with("#[Buckets =           32, SubBuckets     =         2048]\n"));
        assert_eq!(hgrm(&Histogram::new()).lines().count(), 5);
    }
}
