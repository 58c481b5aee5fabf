//! The merged result of several generators: the document of `tare merge --output json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::Figure;

use crate::load::{Counts, LoadResult, Rate};
use crate::verdict::{Grade, Verdict};
use tare_plan::load::Shard;
use tare_stats::wire::{HistogramWire, LatencySummary};

/// The merged results of the generators of one measurement. Histograms and counts are
/// identical to those of a single recorder of all requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Merged {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of tare that merged.
    pub tare_version: String,
    /// Earliest start of a window.
    pub window_start_unix_ns: u64,
    /// From the earliest start to the latest end of a window.
    pub window_ns: u64,
    /// From the earliest start to the latest start.
    pub start_skew_ns: u64,
    /// done - intended over ok responses of all generators: percentiles of the merged
    /// counts.
    pub latency_ns: LatencySummary,
    /// The merged counts.
    pub latency: HistogramWire,
    /// By endpoint name, in the order of first appearance.
    pub endpoints: Vec<MergedEndpoint>,
    /// The generators, in order of shard, start and name.
    pub generators: Vec<MergedGenerator>,
    /// The merged result; absent if one of the generators has only an interval log, which contains
    /// only latency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<LoadResult>>,
    /// The joined verdicts of the generators, with the reasons that the comparison adds.
    pub verdict: Verdict,
}

/// One endpoint over all generators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergedEndpoint {
    /// Label.
    pub name: String,
    /// done - intended, over ok responses.
    pub latency_ns: LatencySummary,
    /// The merged counts.
    pub latency: HistogramWire,
}

/// Kind of file that a generator was read from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// The JSON document of `tare load --output json`.
    Result,
    /// The records of `tare load --spec`.
    Records,
    /// An HdrHistogram interval log.
    IntervalLog,
}

/// One of the merged generators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MergedGenerator {
    /// Name of the file that it was read from.
    pub source: String,
    /// Kind of that file.
    pub kind: SourceKind,
    /// Its part of the schedule, if recorded.
    pub shard: Option<Shard>,
    /// Start of its window.
    pub window_start_unix_ns: u64,
    /// Length of its window.
    pub window_ns: u64,
    /// How much later than the earliest one it started.
    pub start_skew_ns: u64,
    /// Its slots, if recorded.
    pub counts: Option<Counts>,
    /// Its rate, if recorded.
    pub rate: Option<Rate>,
    /// Its own percentiles; the merged percentiles are computed from the merged counts.
    pub latency_ns: LatencySummary,
    /// Its lateness, if recorded.
    pub lateness_ns: Option<LatencySummary>,
    /// The grade of its own verdict, if recorded.
    pub grade: Option<Grade>,
    /// Percentiles at which it differs significantly and relevantly from the other generators
    /// (`tare_analysis::streams::merge` has the rule).
    pub deviations: Vec<Deviation>,
}

/// One percentile at which a generator differs from the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Deviation {
    /// `p50`, `p90` or `p99`.
    pub what: Figure,
    /// The generator's own percentile.
    pub value_ns: u64,
    /// Lower end of its interval by order statistics, at 99.9 %.
    pub low_ns: u64,
    /// Upper end of the same interval.
    pub high_ns: u64,
    /// Median of the other generators' percentiles.
    pub others_ns: u64,
}
