//! Which generator stands apart from the others.
//!
//! **Rule.** At p50, p90 and p99, where a generator has the samples to state them: its
//! percentile's interval by order statistics (99.9 %, normal approximation to the
//! binomial of the ranks) lies wholly outside the band of a quarter, and of 100 µs at
//! least, around the median of the *other* generators' same percentile. So neither
//! chance nor a trifle is named, and one generator that is off does not make the rest
//! look so. Of two, each stands apart from the other, and both are named.
//!
//! Source of the interval: David and Nagaraja, Order Statistics, 3rd edition, 7.1.
//! The width of the band is this project's own choice.

use tare_model::load::merge::{Deviation, MergedGenerator};
use tare_model::units::format_duration_ns;
use tare_model::verdict::{Finding, Grade, Reason};

use super::Part;
use tare_stats::bootstrap::samples_needed;
use tare_stats::hist::Histogram;

/// Differences within this share of the others' percentile do not matter.
pub(super) const BAND: f64 = 0.25;

/// Nor do those within this, in nanoseconds.
pub(super) const BAND_NS: u64 = 100_000;

/// Two-sided 99.9 % point of the normal distribution.
const Z: f64 = 3.290_5;

const AT: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// The deviations of each part, in the order of the parts.
pub(super) fn all(parts: &[Part]) -> Vec<Vec<Deviation>> {
    let mut all = vec![Vec::new(); parts.len()];
    for (what, q) in AT {
        let stated: Vec<(usize, &Histogram)> = parts
            .iter()
            .enumerate()
            .map(|(i, p)| (i, &p.latency))
            .filter(|(_, h)| !h.is_empty() && h.len() >= samples_needed(q))
            .collect();
        for (i, own) in &stated {
            let mut others: Vec<u64> = stated
                .iter()
                .filter(|(j, _)| j != i)
                .map(|(_, h)| h.quantile(q))
                .collect();
            others.sort_unstable();
            let (low_ns, high_ns) = interval(own, q);
            // Of an even number, that of the two in the middle which speaks for the part.
            let (lower, upper) = match others.len() {
                0 => continue,
                n => (others[(n - 1) / 2], others[n / 2]),
            };
            let margin = |ns: u64| BAND_NS.max((ns as f64 * BAND) as u64);
            let others_ns = if high_ns < lower.saturating_sub(margin(lower)) {
                lower
            } else if low_ns > upper + margin(upper) {
                upper
            } else {
                continue;
            };
            all[*i].push(Deviation {
                what: what.to_owned(),
                value_ns: own.quantile(q),
                low_ns,
                high_ns,
                others_ns,
            });
        }
    }
    all
}

fn interval(h: &Histogram, q: f64) -> (u64, u64) {
    let n = h.len() as f64;
    let half = Z * (n * q * (1.0 - q)).sqrt();
    let low = (n * q - half).floor().max(1.0) as u64;
    let high = ((n * q + half).ceil() as u64 + 1).min(h.len());
    (h.value_at_rank(low), h.value_at_rank(high))
}

/// A finding for each generator that stands apart, at its first such percentile.
pub(super) fn findings(generators: &[MergedGenerator]) -> Vec<Finding> {
    let of = |g: &MergedGenerator| {
        let d = g.deviations.first()?;
        let found = format!(
            "{} stands apart: its {} is {} ({} to {}), that of the others {}",
            g.source,
            d.what,
            format_duration_ns(d.value_ns),
            format_duration_ns(d.low_ns),
            format_duration_ns(d.high_ns),
            format_duration_ns(d.others_ns)
        );
        Some(Finding::new(
            Grade::Suspect,
            Reason::GeneratorsDiffer,
            found,
        ))
    };
    generators.iter().filter_map(of).collect()
}
