//! The wire format of histograms and of their summaries. The histogram itself, with recording and
//! merging, is `tare_stats::Histogram`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A histogram in records: HdrHistogram V2 (uncompressed, lowest 1 ns, highest 1 h, 3 significant
/// digits) in base64, with the values that V2 does not store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistogramWire {
    /// Number of recorded values.
    pub count: u64,
    /// Smallest recorded value, exact, in nanoseconds; 0 when empty.
    pub min_ns: u64,
    /// Largest recorded value, exact, in nanoseconds; 0 when empty.
    pub max_ns: u64,
    /// Exact sum in nanoseconds. A string, because JSON readers lose integers past 2^53.
    #[serde(with = "u128_string")]
    #[schemars(with = "String")]
    pub sum_ns: u128,
    /// Values above one hour, counted in the highest bucket.
    pub clamped: u64,
    /// The V2 bytes in base64 (standard alphabet, padded).
    pub v2: String,
}

/// The percentiles that every tare document states, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencySummary {
    /// Number of values.
    pub count: u64,
    /// Exact minimum; 0 when empty.
    pub min: u64,
    /// Exact mean; 0 when empty.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 75th percentile.
    pub p75: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// 99.99th percentile.
    pub p99_99: u64,
    /// 99.999th percentile.
    pub p99_999: u64,
    /// Exact maximum; 0 when empty.
    pub max: u64,
    /// Values above one hour (counted in the highest bucket).
    pub clamped: u64,
}

mod u128_string {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(v: &u128, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(v)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u128, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(|_| {
            serde::de::Error::custom(format!("expected a decimal integer, found {text:?}"))
        })
    }
}
