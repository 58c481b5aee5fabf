//! Counts responses by endpoint.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The responses of a server. Probes are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Successful requests by endpoint name.
    pub served: BTreeMap<String, u64>,
    /// Failed requests by endpoint name; not included in `served`.
    pub failed: BTreeMap<String, u64>,
}

/// The name under which requests for unknown endpoints are counted.
pub(crate) const UNKNOWN: &str = "unknown";

/// Counters per endpoint, with names that are fixed at the start.
#[derive(Debug)]
pub(crate) struct Counters {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    served: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    pub(crate) fn new<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let all = names.chain(std::iter::once(UNKNOWN));
        Self {
            entries: all.map(|n| (n.to_owned(), Entry::default())).collect(),
        }
    }

    /// Counts one response. Names that were not given at the start count as [`UNKNOWN`].
    pub(crate) fn count(&self, name: &str, ok: bool) {
        let entry = self
            .entries
            .get(name)
            .unwrap_or_else(|| &self.entries[UNKNOWN]);
        let counter = if ok { &entry.served } else { &entry.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// All counts so far, without endpoints that have none.
    pub(crate) fn tally(&self) -> Tally {
        let collect = |of: fn(&Entry) -> &AtomicU64| {
            let counts = self
                .entries
                .iter()
                .map(|(n, e)| (n.clone(), of(e).load(Ordering::Relaxed)));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        Tally {
            served: collect(|e| &e.served),
            failed: collect(|e| &e.failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_counted_once_and_unknown_endpoints_together() {
        let counters = Counters::new(["list", "vote"].into_iter());
        counters.count("list", true);
        counters.count("list", true);
        counters.count("list", false);
        counters.count("nonsense", false);
        let tally = counters.tally();
        assert_eq!(tally.served, BTreeMap::from([("list".to_owned(), 2)]));
        let failed = [("list".to_owned(), 1), (UNKNOWN.to_owned(), 1)];
        assert_eq!(tally.failed, BTreeMap::from(failed));
    }
}
