//! How long the slices of a load are, and the gaps and warm parts between them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolved::Load;
use crate::limits::{HOUR_NS, SECOND_NS};
use crate::source::{Duration, Field};

/// Shortest slice that can be set: its edges are read, and reading takes a millisecond or so.
pub(super) const LENGTH_NS_MIN: u64 = 50_000_000;

/// Requests in a slice that is chosen: most of them follow another one of the same slice.
const SLICE_REQUESTS: f64 = 100.0;
/// Shortest and longest slice that is chosen.
const SLICE_NS: [u64; 2] = [250_000_000, 2_000_000_000];
/// A gap that is chosen is at least this part of the slice before it.
const GAP_SHARE: u64 = 5;
/// Shortest gap that is chosen.
const GAP_NS: u64 = 50_000_000;

/// Requests that warm up for each connection: before its first request, a connection is cold.
const WARM_REQUESTS_PER_CONNECTION: f64 = 1.25;
/// Fewest requests that warm up, and shortest time for them.
const WARM_REQUESTS_MIN: f64 = 20.0;
const WARM_NS_MIN: u64 = 20_000_000;
/// The part of a gap in which CPU clocks are read: some 100 µs for each process of two trials.
const LEAD_NS: u64 = 10_000_000;

/// Length of slices and of the gaps after them, where the plan sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceChoice {
    /// How long one mesh is loaded at a time; absent if it follows from the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length_ns: Option<u64>,
    /// How long no request begins after that; absent if it follows from the length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_ns: Option<u64>,
}

impl SliceChoice {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The times of the slices of a load, for `trials` that are loaded in each round. A slice has about a hundred requests,
    /// before it every connection carries a request or more, and after it a fifth of its length is for the last of them to
    /// end. The length divides the window of the load. If neither is set, a round takes a whole number of seconds: the
    /// generators count by second.
    #[must_use]
    pub fn times(self, load: &Load, trials: u32) -> SliceTimes {
        let rate_rps = load.rate_rps().unwrap_or(f64::INFINITY);
        let of_requests = |count: f64| (count / rate_rps * 1e9) as u64;
        let chosen = of_requests(SLICE_REQUESTS).clamp(SLICE_NS[0], SLICE_NS[1]);
        let connections = f64::from(load.connections) * WARM_REQUESTS_PER_CONNECTION;
        let warm_ns = of_requests(connections.max(WARM_REQUESTS_MIN));
        let gap = |length_ns: u64| (length_ns / GAP_SHARE).max(GAP_NS);
        let times = |length_ns: u64, gap_ns: u64, longest_ns: u64| SliceTimes {
            length_ns,
            gap_ns,
            lead_ns: LEAD_NS.min(gap_ns / 2),
            warm_ns: warm_ns.clamp(WARM_NS_MIN, longest_ns.max(WARM_NS_MIN)),
        };
        if self.is_default() {
            let trials = u64::from(trials.max(1));
            let shortest = times(chosen, gap(chosen), chosen / 2);
            let round_ns = (trials * shortest.each_ns()).next_multiple_of(SECOND_NS);
            let each_ns = round_ns / trials;
            let left_ns = each_ns - shortest.counted_from_ns();
            let longest_ns = left_ns - (left_ns / (GAP_SHARE + 1)).max(GAP_NS);
            let rounds = load.duration_ns.div_ceil(longest_ns).max(1);
            let length_ns = load.duration_ns / rounds;
            return SliceTimes {
                length_ns,
                gap_ns: left_ns - length_ns,
                ..shortest
            };
        }
        let length_ns = self.length_ns.unwrap_or(chosen);
        let rounds = (load.duration_ns / length_ns.max(1)).max(1);
        let length_ns = load.duration_ns / rounds;
        let gap_ns = self.gap_ns.unwrap_or_else(|| gap(length_ns));
        times(length_ns, gap_ns, length_ns / 2)
    }
}

/// The times of a slice, in nanoseconds. It begins with its warm part: the lead, requests that do not count, and the lead once
/// more, in which they end. What counts follows: the lead, the requests, and the rest of the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceTimes {
    /// How long requests are sent that count.
    pub length_ns: u64,
    /// How long none is sent between two slices.
    pub gap_ns: u64,
    /// The part of the gap before a slice.
    pub lead_ns: u64,
    /// Length of the warm part in which requests are sent; they do not count. 0: a slice has no warm part.
    pub warm_ns: u64,
}

impl SliceTimes {
    /// Length of the warm part with its leads.
    #[must_use]
    pub fn counted_from_ns(&self) -> u64 {
        match self.warm_ns {
            0 => 0,
            warm_ns => warm_ns + 2 * self.lead_ns,
        }
    }

    /// From the edge of a slice to that of the next.
    #[must_use]
    pub fn each_ns(&self) -> u64 {
        self.counted_from_ns() + self.length_ns + self.gap_ns
    }

    /// Rounds of the warm-up of a load, and of its window: in both, each trial is loaded for as long as in turns.
    #[must_use]
    pub fn rounds(&self, load: &Load) -> (u64, u64) {
        let length_ns = self.length_ns.max(1);
        let warm = load.warmup_ns.div_ceil(length_ns);
        (warm, (load.duration_ns / length_ns).max(1))
    }
}

/// Length of the slices and of the gaps after them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Slice",
    deny_unknown_fields,
    default,
    expecting = "the slice"
)]
pub(super) struct SliceFile {
    /// How long one mesh is loaded at a time. Default: about 100 requests, between 250 ms and 2 s.
    #[schemars(with = "Option<Duration<1, HOUR_NS>>")]
    length: Field<Duration<1, HOUR_NS>>,
    /// How long no request begins after that, so that the last ones end. Default: at least a fifth of the length and 50 ms; if
    /// the length is not set either, so long that all meshes together take whole seconds.
    #[schemars(with = "Option<Duration<0, HOUR_NS>>")]
    gap: Field<Duration<0, HOUR_NS>>,
}

impl SliceFile {
    pub(super) fn resolve(self) -> Option<SliceChoice> {
        Some(SliceChoice {
            length_ns: self.length.optional()?.map(|d| d.0),
            gap_ns: self.gap.optional()?.map(|d| d.0),
        })
    }
}
