//! The figures of one mesh under one load.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::Figure;

use super::capacity::CellCapacity;
use super::churn::CellChurn;
use super::cost::Cost;
use super::instrument::{CoreToCore, Instrument, Tls};
use super::named::MethodSummary;
use super::overload::CellOverload;
use crate::load::Counts;
use crate::trial::MemoryKind;
use crate::verdict::Verdict;
use crate::worker::Plane;

/// One mesh under one load: the figures of its used trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Planned rate; 0 in a search for the capacity, in a closed loop and in an overload.
    pub rate_rps: f64,
    /// Achieved rate, mean over the used trials; absent without one.
    pub achieved_rps: Option<f64>,
    /// Indices of the trials that the figures are made of.
    pub trials_used: Vec<u32>,
    /// Indices of the trials of complete blocks that gave no figure: they failed, or their mesh was
    /// not in the path.
    pub trials_failed: Vec<u32>,
    /// Indices of the trials of blocks that something outside the trials disturbed. They were run
    /// again, or are left out with the whole block.
    #[serde(default)]
    pub trials_disturbed: Vec<u32>,
    /// Limits that the used trials reached; absent if they reached none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
    /// Slots of the used trials.
    pub counts: Counts,
    /// The capacity; absent under a load that does not search for it. The latencies of such a cell
    /// are empty, because those of its trials are at different rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CellCapacity>,
    /// Responses per second of a closed loop: the mean over the blocks; absent under other loads. The
    /// latencies of such a cell are response times at this rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_rps: Option<Estimate>,
    /// The figures beyond the capacity; absent under other loads. The latencies of such a cell are empty,
    /// because those of its trials are at different rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<CellOverload>,
    /// What the churn shows; absent under loads without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<CellChurn>,
    /// Combined verdict of the used trials, with the findings of pooling (too few samples, too few
    /// blocks).
    pub verdict: Verdict,
    /// Latency of the requests that succeeded: p50, p90, p99, p99.9, p99.99, max; empty without a
    /// used trial.
    pub latency: Vec<Quantile>,
    /// The same percentiles of all planned requests, pooled: a request that failed or timed out counts
    /// as not answered within the timeout. Empty where all succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latency_of_all: Vec<Percentile>,
    /// Pooled latency spectrum for charts: from the median to the last sample.
    pub spectrum: Vec<SpectrumPoint>,
    /// Pooled service time: the same quantiles, without intervals.
    pub service_time: Vec<Percentile>,
    /// Pooled lateness: the same quantiles, without intervals.
    pub lateness: Vec<Percentile>,
    /// CPU and memory by plane (`data_plane`, `application`...); a plane without
    /// processes is absent.
    pub planes: BTreeMap<Plane, PlaneEstimate>,
    /// The whole machine's busy cores.
    pub machine_busy_cores: Option<Estimate>,
    /// Latency by endpoint.
    pub endpoints: Vec<EndpointRow>,
    /// Cost of the mesh with the plan's prices; absent without prices, and for a mesh without
    /// processes of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
    /// The same trials summarised by the methods of published benchmarks.
    pub named: Vec<MethodSummary>,
    /// The generator's own measurement error; absent if no trial had kernel timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instrument: Option<Instrument>,
    /// Latency between the cores of the generators' machine; absent if no trial measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_to_core: Option<CoreToCore>,
    /// TLS of the generators' connections; absent without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

impl Cell {
    /// A percentile that every trial has enough responses for.
    #[must_use]
    pub fn supported(&self, what: Figure) -> Option<&Quantile> {
        self.latency.iter().find(|q| q.name == what && q.supported)
    }
}

/// A percentile of the typical run: the median over the used trials of each trial's percentile.
///
/// It and the percentile of all requests pooled are two figures. In the pooled one, a single slow trial
/// of twenty makes up the whole p99.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantile {
    /// A percentile, or the maximum.
    pub name: Figure,
    /// From 0 to 1.
    pub q: f64,
    /// In nanoseconds. `max` is the largest of all.
    pub value_ns: u64,
    /// Lower end of what `spread` states.
    pub low_ns: Option<u64>,
    /// Upper end of what `spread` states.
    pub high_ns: Option<u64>,
    /// What the ends are; absent with one trial, and for `max`.
    pub spread: Option<QuantileSpread>,
    /// The same percentile of each used trial, in their order.
    pub runs_ns: Vec<u64>,
    /// Whether every trial has enough responses for it; tables leave it out if not.
    pub supported: bool,
    /// The percentile of all requests of all used trials.
    pub pooled: PooledQuantile,
}

/// What the ends beside a percentile are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuantileSpread {
    /// An interval for the typical run, by order statistics; from 6 trials on.
    Interval,
    /// The smallest and the largest trial: of few trials, or because the machine changed its state
    /// during the run, so that no interval holds.
    Range,
}

/// A percentile of pooled requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PooledQuantile {
    /// In nanoseconds.
    pub value_ns: u64,
    /// Lower end of its interval, with trials as clusters of requests; absent with fewer than 20 trials
    /// (29 for p90, 299 for p99), or if the machine changed its state.
    pub low_ns: Option<u64>,
    /// Upper end of its interval; absent together with the lower end.
    pub high_ns: Option<u64>,
    /// Number of independent responses with the same uncertainty as these trials; absent with fewer
    /// than 2 trials.
    pub effective_samples: Option<f64>,
}

/// A percentile without an interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Percentile {
    /// A percentile, or the maximum.
    pub name: Figure,
    /// From 0 to 1.
    pub q: f64,
    /// In nanoseconds; absent if that request was not answered within the timeout.
    pub value_ns: Option<u64>,
    /// Whether there are enough samples to state it; tables leave it out if not.
    pub supported: bool,
}

/// Limits that the used trials of a cell reached. They are results: such trials are never left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Saturation {
    /// Number of used trials that reached a limit.
    pub trials: u32,
    /// The limits, such as `the machine was 98 % busy`, each once, worst first.
    pub found: Vec<String>,
}

/// One point of a percentile curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SpectrumPoint {
    /// From 0 to 1.
    pub q: f64,
    /// Pooled value in nanoseconds.
    pub ns: u64,
    /// Smallest of the same quantile over the trials alone.
    pub min_ns: u64,
    /// Largest of the same quantile over the trials alone.
    pub max_ns: u64,
    /// Whether there are enough samples to state this quantile.
    pub supported: bool,
}

/// A mean over runs with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Mean over the runs.
    pub value: f64,
    /// Lower end of the interval; absent with fewer than 2 runs.
    pub low: Option<f64>,
    /// Upper end of the interval; absent with fewer than 2 runs.
    pub high: Option<f64>,
    /// The value of each run.
    pub runs: Vec<f64>,
}

/// One plane's use of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaneEstimate {
    /// Number of processes.
    pub processes: u32,
    /// CPU in cores (integral over the window).
    pub cpu_cores: Estimate,
    /// Busiest second of any run, in cores.
    pub cpu_cores_max: f64,
    /// Memory mean in bytes, summed over the plane.
    pub memory_bytes: Estimate,
    /// Largest memory of any run in bytes.
    pub memory_max_bytes: u64,
    /// Which measure of memory; absent if trials differ.
    pub memory_kind: Option<MemoryKind>,
    /// CPU in cores per 1,000 requests per second achieved; absent if no request was sent.
    pub cpu_cores_per_krps: Option<Estimate>,
    /// Instructions per request, over the trials that counted them; absent without hardware counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions_per_request: Option<Estimate>,
    /// Cycles per request, over the same trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles_per_request: Option<Estimate>,
}

/// One endpoint of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointRow {
    /// Label.
    pub name: String,
    /// Slots.
    pub counts: Counts,
    /// Quantiles of pooled counts, without intervals.
    pub latency: Vec<Percentile>,
}
