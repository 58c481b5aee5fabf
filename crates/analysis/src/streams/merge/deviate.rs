//! Finds generators that differ from the others.
//!
//! **Rule.** At p50, p90 and p99, if a generator has enough samples for the percentile: the
//! interval of its percentile by order statistics (99.9 %, normal approximation to the binomial
//! distribution of the ranks) is completely outside the band around the median of the same
//! percentile of the *other* generators. The band is ± 25 %, and at least ± 100 µs. So neither
//! chance nor an irrelevant difference is reported, and one differing generator does not make the
//! others appear to differ. If there are only two generators and they differ, both are named.
//!
//! Source of the interval: David and Nagaraja, Order Statistics, 3rd edition, 7.1.
//! The width of the band is this project's own choice.

use tare_plan::Figure;
use tare_plan::units::format_duration_ns;
use tare_records::load::merge::{Deviation, MergedGenerator};
use tare_records::verdict::{Finding, Grade, Reason};

use super::Part;
use tare_stats::hist::Histogram;
use tare_stats::order::samples_needed;

/// Half the width of the band, as a share of the others' percentile.
pub(super) const BAND: f64 = 0.25;

/// Smallest half of the width of the band, in nanoseconds.
pub(super) const BAND_NS: u64 = 100_000;

/// Two-sided 99.9 % point of the normal distribution.
const Z: f64 = 3.290_5;

const AT: [(Figure, f64); 3] = [(Figure::P50, 0.5), (Figure::P90, 0.9), (Figure::P99, 0.99)];

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
            // The median of an even number of values is between two of them. The one nearer to this
            // generator counts.
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
                what,
                value_ns: own.quantile(q),
                low_ns,
                high_ns,
                others_ns,
            });
        }
    }
    all
}

/// The ends of the interval of quantile `q`, in nanoseconds.
fn interval(h: &Histogram, q: f64) -> (u64, u64) {
    let n = h.len() as f64;
    let half = Z * (n * q * (1.0 - q)).sqrt();
    let low = (n * q - half).floor().max(1.0) as u64;
    let high = ((n * q + half).ceil() as u64 + 1).min(h.len());
    (h.value_at_rank(low), h.value_at_rank(high))
}

/// A finding for each generator that differs, at the first percentile at which it does.
pub(super) fn findings(generators: &[MergedGenerator]) -> Vec<Finding> {
    let of = |g: &MergedGenerator| {
        let d = g.deviations.first()?;
        let found = format!(
            "{} differs from the other generators: its {} is {} ({} to {}), theirs is {}",
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
