//! Words of the price list of features, which the terminal and the page share.

use tare_analysis::figures;
use tare_model::summary::{Estimate, FeaturePrice, Outcome, Price, PriceList, Summary};

/// What is shown of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// The ratio, of latencies.
    Ratio,
    /// The added CPU time.
    Cpu,
    /// The added memory.
    Memory,
}

/// Returns the figures of a feature in the order of the columns: p50, p99, CPU, memory.
pub(crate) fn of(feature: &FeaturePrice) -> [(Option<&Price>, Shown); 4] {
    [
        (feature.p50.as_ref(), Shown::Ratio),
        (feature.p99.as_ref(), Shown::Ratio),
        (feature.cpu.as_ref(), Shown::Cpu),
        (feature.memory.as_ref(), Shown::Memory),
    ]
}

/// Returns a figure and its interval, which is empty with a single block.
pub(crate) fn text(price: &Price, shown: Shown) -> (String, String) {
    let added = |words: fn(f64) -> String| {
        let Some(added) = &price.added else {
            return ("-".to_owned(), String::new());
        };
        let interval = added.low.zip(added.high).map(|ends| between(ends, words));
        (
            figures::signed(added.value, words(added.value)),
            interval.unwrap_or_default(),
        )
    };
    match shown {
        Shown::Ratio => {
            let text = figures::ratio_short(price.ratio, price.low, price.high);
            match text.split_once(" (") {
                Some((ratio, interval)) => (
                    format!("x{ratio}"),
                    interval.trim_end_matches(')').to_owned(),
                ),
                None => (format!("x{text}"), String::new()),
            }
        }
        Shown::Cpu => added(figures::duration),
        Shown::Memory => added(figures::bytes),
    }
}

/// Two figures with one unit if they have the same: `412 to 523 µs`.
fn between((low, high): (f64, f64), words: fn(f64) -> String) -> String {
    let (low, high) = (words(low), words(high));
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((low, unit)), Some((_, other))) if unit == other => format!("{low} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// Returns the length of the bar of a figure, in any unit: what the feature adds, at least 0.
pub(crate) fn length(price: &Price, shown: Shown) -> f64 {
    let added = match shown {
        Shown::Ratio => price.ratio - 1.0,
        Shown::Cpu | Shown::Memory => price.added.as_ref().map_or(0.0, |e| e.value),
    };
    added.max(0.0)
}

/// Returns the outcome: `higher`, `lower`, `the same within the margin` or `not resolved`.
pub(crate) fn outcome(price: &Price) -> &'static str {
    match price.outcome {
        Outcome::Different if price.ratio > 1.0 => "higher",
        Outcome::Different => "lower",
        outcome => outcome.words(),
    }
}

/// Returns the name of a feature: that of its mesh without the part before the slash.
pub(crate) fn name(mesh: &str) -> &str {
    mesh.rsplit('/').next().unwrap_or(mesh)
}

/// Returns what the figures mean, in sentences.
pub(crate) fn legend(summary: &Summary, list: &PriceList) -> String {
    let confidence = format!("{:.0} %", summary.confidence * 100.0);
    let own = |e: &Option<Estimate>, words: fn(f64) -> String| {
        e.as_ref().map_or("unknown".to_owned(), |e| words(e.value))
    };
    format!(
        "Each feature on against off on otherwise equal sidecars, by block, with {confidence} intervals. \
         p50 and p99: latency of the whole request, as a ratio. CPU: what the feature adds to each hop, \
         which is a pass of a request through a proxy ({} without a feature). Memory: what it adds to each proxy ({} without \
         a feature). Outcomes of p50, p99 and CPU are corrected for all features together (Holm).",
        own(&list.reference_request_ns, figures::duration),
        own(&list.reference_proxy_bytes, figures::bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(outcome: Outcome, added: Option<(f64, f64, f64)>) -> Price {
        Price {
            ratio: 1.2,
            low: Some(1.1),
            high: Some(1.3),
            outcome,
            added: added.map(|(value, low, high)| Estimate {
                value,
                low: Some(low),
                high: Some(high),
                runs: Vec::new(),
            }),
        }
    }

    #[test]
    fn a_figure_has_its_sign_and_its_interval_one_unit() {
        let micros = price(Outcome::Different, Some((12_300.0, -1_500.0, 26_000.0)));
        let both = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            text(&micros, Shown::Cpu),
            both("+12.3 µs", "-1.50 to 26.0 µs")
        );
        let wide = price(Outcome::Same, Some((1e6, 9e5, 1.1e6)));
        assert_eq!(
            text(&wide, Shown::Cpu),
            both("+1.00 ms", "900 µs to 1.10 ms")
        );
        assert_eq!(text(&wide, Shown::Ratio), both("x1.20", "1.10 to 1.30"));
        let none = price(Outcome::NotResolved, None);
        assert_eq!(text(&none, Shown::Memory), both("-", ""));
    }

    #[test]
    fn a_bar_is_never_negative() {
        let less = price(Outcome::Different, Some((-5.0, -6.0, -4.0)));
        assert_eq!(length(&less, Shown::Memory), 0.0);
        assert!((length(&less, Shown::Ratio) - 0.2).abs() < 1e-12);
        assert_eq!(outcome(&less), "higher");
        assert_eq!(name("features/jwt"), "jwt");
    }
}
