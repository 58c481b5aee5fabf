//! Checks the clocks of the nodes.

use super::{Check, failed, note, passed};
use crate::clock::{OFFSET_NS_MAX, Offset};

/// Checks the offsets of nodes.
pub(super) fn check(offsets: &[(String, Offset)]) -> Vec<Check> {
    const WHY: &str = "an offset shifts the CPU samples and the start of the generators against the measured window";
    let over: Vec<&(String, Offset)> = offsets.iter().filter(|(_, o)| o.is_over()).collect();
    let (Some(least), Some(most)) = (
        offsets.iter().map(|(_, o)| o).min_by_key(|o| o.ns),
        offsets.iter().map(|(_, o)| o).max_by_key(|o| o.ns),
    ) else {
        return Vec::new();
    };
    let uncertainty = offsets.iter().map(|(_, o)| o.uncertainty_ns).max();
    let uncertainty_ms = uncertainty.unwrap_or(0) as f64 / 1e6;
    let range = format!(
        "{} nodes are {:+.1} to {:+.1} ms from this machine (± {uncertainty_ms:.1} ms or less)",
        offsets.len(),
        least.ms(),
        most.ms()
    );
    let ahead_at_least = offsets.iter().map(|(_, o)| o.ns - o.uncertainty_ns).max();
    let ahead_at_most = offsets.iter().map(|(_, o)| o.ns + o.uncertainty_ns).min();
    let nodes_agree = ahead_at_least
        .zip(ahead_at_most)
        .is_some_and(|(a, b)| a - b <= OFFSET_NS_MAX);
    if over.len() == offsets.len() && offsets.len() > 1 && nodes_agree {
        let found = format!(
            "{range}, but agree: set the clock of this machine with an NTP client such as chrony"
        );
        return vec![failed("clocks", found)];
    }
    if !over.is_empty() {
        let bad = |(node, offset): &&(String, Offset)| {
            let words = offset.words();
            let found =
                format!("{node} is {words}: {WHY}; set it with an NTP client such as chrony");
            failed("clocks", found)
        };
        return over.iter().map(bad).collect();
    }
    match offsets.iter().find(|(_, offset)| !offset.is_under()) {
        Some((node, offset)) => vec![note(
            "clocks",
            format!(
                "not decided: {node} is {}, and up to {} ms is good",
                offset.words(),
                OFFSET_NS_MAX / 1_000_000
            ),
        )],
        None => vec![passed("clocks", range)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn offset(ms: i64, uncertainty_ms: i64) -> Offset {
        Offset {
            ns: ms * MS,
            uncertainty_ns: uncertainty_ms * MS,
        }
    }

    #[test]
    fn the_interval_contains_the_true_offset_whatever_the_delays_are() {
        for (there, back) in [(0, 40), (40, 0), (13, 27)] {
            for ahead in [-500_i64, 0, 500] {
                let sent = 10_000_i64;
                let clock = sent + there + ahead;
                let found =
                    Offset::between(sent as u64, clock as u64, (sent + there + back) as u64);
                assert_eq!(found.uncertainty_ns, 20);
                assert!((found.ns - ahead).abs() <= 20, "{found:?} {ahead}");
            }
        }
    }

    #[test]
    fn an_offset_that_is_certain_is_named() {
        let of = |all: &[(i64, i64)]| {
            let named = all.iter().enumerate();
            let all: Vec<_> = named
                .map(|(i, (ms, u))| (format!("n{i}"), offset(*ms, *u)))
                .collect();
            let checks = check(&all);
            checks
                .into_iter()
                .map(|c| (c.good, c.found))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(&[(1, 2), (-40, 5)]),
            [(
                Some(true),
                "2 nodes are -40.0 to +1.0 ms from this machine (± 5.0 ms or less)".to_owned()
            )]
        );
        let found = of(&[(0, 1), (-250, 1)]);
        assert_eq!((found.len(), found[0].0), (1, Some(false)));
        let start = "n1 is 250.0 ms behind this machine (± 1.0 ms): ";
        assert!(found[0].1.starts_with(start), "{found:?}");
        let all = of(&[(250, 1), (260, 1)]);
        assert_eq!((all.len(), all[0].0), (1, Some(false)));
        assert!(
            all[0].1.contains("set the clock of this machine"),
            "{all:?}"
        );
        // The interval reaches over the limit.
        assert_eq!(of(&[(0, 1), (90, 20)])[0].0, None);
        assert_eq!(of(&[(0, 1), (110, 20)])[0].0, None);
        assert!(of(&[]).is_empty());
    }
}
