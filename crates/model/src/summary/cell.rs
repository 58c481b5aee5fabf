//! The figures of one mesh under one load.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cost::Cost;
use super::inference::{Inference, Uncertainty};
use super::instrument::{CoreToCore, Instrument, Tls};
use super::named::MethodSummary;
use crate::load::Counts;
use crate::trial::MemoryKind;
use crate::verdict::Verdict;
use crate::worker::Plane;

/// One mesh under one load: all its valid and suspect trials pooled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Planned rate.
    pub rate_rps: f64,
    /// Achieved rate, mean over the used trials; absent without one.
    pub achieved_rps: Option<f64>,
    /// Indices of the trials that the figures are made of.
    pub trials_used: Vec<u32>,
    /// Indices of the trials that were left out because they are invalid.
    pub trials_invalid: Vec<u32>,
    /// Slots of the used trials.
    pub counts: Counts,
    /// Combined verdict of the used trials, with the findings of pooling (too few samples, too few
    /// blocks).
    pub verdict: Verdict,
    /// p50, p90, p99, p99.9, max of the pooled counts; empty without a used trial. The maximum has
    /// no interval, because it is a property of the requests that were made and not of their
    /// distribution.
    pub latency: Vec<Quantile>,
    /// Pooled latency spectrum for charts: from the median to the last sample.
    pub spectrum: Vec<SpectrumPoint>,
    /// Pooled service time: the same quantiles, without intervals.
    pub service_time: Vec<Quantile>,
    /// Pooled lateness: the same quantiles, without intervals.
    pub lateness: Vec<Quantile>,
    /// CPU and memory by plane (`data_plane`, `application`...); a plane without
    /// processes is absent.
    pub planes: BTreeMap<Plane, PlaneEstimate>,
    /// The whole machine's busy cores.
    pub machine_busy_cores: Option<Estimate>,
    /// Latency by endpoint.
    pub endpoints: Vec<EndpointRow>,
    /// Comparison with the baseline under the same load; absent for the baseline itself.
    pub overhead: Option<Overhead>,
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

/// A quantile of pooled counts, with an interval over runs: on the logarithmic
/// scale, Student's t with the bootstrap standard error (`tare_stats::bootstrap`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quantile {
    /// `p50`, `p90`, `p99`, `p99.9`, `max`.
    pub name: String,
    /// From 0 to 1.
    pub q: f64,
    /// In nanoseconds.
    pub value_ns: u64,
    /// Lower end of the interval over runs; absent with fewer than 2 runs.
    pub low_ns: Option<u64>,
    /// Upper end of the interval over runs; absent with fewer than 2 runs.
    pub high_ns: Option<u64>,
    /// The same quantile of each used trial alone, in their order.
    pub runs_ns: Vec<u64>,
    /// Whether there are enough samples to state it; tables leave it out if not.
    pub supported: bool,
    /// Components of its uncertainty; absent for figures without an interval (service
    /// time, lateness, endpoints) and for the maximum.
    pub sampling: Option<Uncertainty>,
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
    pub latency: Vec<Quantile>,
}

/// A mesh against the baseline: differences paired by block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// Blocks in which both the mesh and the baseline have a usable trial.
    pub blocks: Vec<u32>,
    /// p50, p90, p99, p99.9, in nanoseconds. Maxima are not compared.
    pub latency: Vec<Difference>,
    /// Data-plane CPU in cores (`cpu`), memory in bytes (`memory`), machine's
    /// busy cores (`machine_cpu`), application CPU in cores (`application_cpu`).
    pub resources: Vec<Difference>,
}

/// One difference: mesh minus baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// What differs: `p50`..., `cpu`, `memory`.
    pub what: String,
    /// Difference of the pooled figures (latency) or of the means (resources), over the blocks
    /// with a usable trial of both.
    pub value: f64,
    /// Lower end of the interval; absent with fewer than 2 pairs.
    pub low: Option<f64>,
    /// Upper end of the interval; absent with fewer than 2 pairs.
    pub high: Option<f64>,
    /// Difference as a share of the baseline's figure; absent if that is 0.
    pub ratio: Option<f64>,
    /// Lower end of the interval of `ratio`, also paired by block; absent without an interval, or
    /// if the baseline is not distinguishable from 0.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval of `ratio`.
    pub ratio_high: Option<f64>,
    /// The paired differences, in order of block.
    pub pairs: Vec<f64>,
    /// The result of the comparison.
    pub distinction: Distinction,
    /// Whether both sides have enough samples to state what differs; tables leave it out if not.
    /// Always true for resources.
    pub supported: bool,
    /// p-values, correction, equivalence, detectable effect; absent with fewer than 2 pairs.
    pub inference: Option<Inference>,
}

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distinction {
    /// The interval lies above zero.
    Higher,
    /// The interval lies below zero.
    Lower,
    /// The interval contains zero.
    NotDistinguishable,
    /// Fewer than 2 pairs: no interval.
    TooFewBlocks,
}

impl Distinction {
    /// The text in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::NotDistinguishable => "not distinguishable",
            Self::TooFewBlocks => "too few blocks",
        }
    }
}
