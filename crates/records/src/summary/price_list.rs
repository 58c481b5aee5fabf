//! The price list of features: what each adds to sidecars without it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;
use super::ratio::Outcome;

/// What each feature of the plan adds, compared with the baseline under the load with the highest rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// Name of the mesh without the features.
    pub reference: String,
    /// Name of the load.
    pub load: String,
    /// Why the list states no outcomes, such as `something outside the trials disturbed some meshes more
    /// often than others`; absent if it states them.
    pub no_answer: Option<String>,
    /// CPU time of a hop in the reference, in nanoseconds; absent if the hops of a request are unknown.
    pub reference_hop_ns: Option<Estimate>,
    /// Memory of a proxy in the reference, in bytes; absent if its trials have several kinds of memory.
    pub reference_proxy_bytes: Option<Estimate>,
    /// The features, those that add most CPU first; those without a figure are last.
    pub features: Vec<FeaturePrice>,
}

/// The price of a feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeaturePrice {
    /// Name of the mesh with the feature.
    pub mesh: String,
    /// Title of the feature.
    pub title: String,
    /// Whether it changes nothing: a second reference, which shows the noise.
    pub nothing: bool,
    /// Median latency; the difference is in nanoseconds.
    pub p50: Option<Price>,
    /// 99th percentile of latency; the difference is in nanoseconds.
    pub p99: Option<Price>,
    /// CPU of the sidecars of the services: the ratio for each request, the difference in nanoseconds for
    /// each hop. A hop is one pass of one request through one proxy.
    pub cpu: Option<Price>,
    /// Memory of the sidecars of the services: the ratio of all, the difference in bytes for each proxy. The
    /// ratio is exploratory.
    pub memory: Option<Price>,
    /// What proves that the feature was on in its trials, of the first used trial: claims and findings.
    pub proofs: Vec<String>,
    /// What proves that it was off in the trials of the reference, of the first used trial.
    pub off: Option<String>,
}

/// One figure with the feature, compared with the same figure without it, by block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The figure with the feature divided by that without.
    pub ratio: f64,
    /// Lower end of its interval; absent with fewer than 2 blocks.
    pub low: Option<f64>,
    /// Upper end of its interval; absent with fewer than 2 blocks.
    pub high: Option<f64>,
    /// Whether the feature changes the figure; corrected for the primary ratios of the feature (Holm), without
    /// those of memory. Absent if the list has no answer.
    pub outcome: Option<Outcome>,
    /// What the feature adds: the typical difference over the blocks, in the unit of the figure. Absent if
    /// the trials have several kinds of memory, or the number of hops is unknown.
    pub added: Option<Estimate>,
}
