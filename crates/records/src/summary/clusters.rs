//! One plan on several clusters at once: the runs, and the comparison of the clusters.
//!
//! A cluster differs if it differs from more than half of the others in the same direction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::Grade;
use tare_plan::{Figure, Plan, Unit};

/// The runs: `clusters.json` in the directory that holds a run for each cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClustersManifest {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Start time and plan.
    pub id: String,
    /// Start time.
    pub started_unix_ns: u64,
    /// The resolved plan, the same for all clusters except for the context.
    pub plan: Plan,
    /// The plan as it was written.
    pub plan_text: String,
    /// The clusters, in the order of the command line.
    pub clusters: Vec<ClusterRun>,
}

/// One of the clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterRun {
    /// Context of the kubeconfig.
    pub context: String,
    /// Directory of its run, below that of `clusters.json`.
    pub dir: String,
}

/// The comparison of the clusters: `comparison.json` in the directory of `clusters.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClustersComparison {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Confidence of every interval here.
    pub confidence: f64,
    /// Clusters with a run that can be read, in the order of the manifest.
    pub clusters: Vec<ComparedCluster>,
    /// What only some of the clusters measured, without full stops.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Figures that at least two clusters have.
    pub rows: Vec<ClusterRow>,
}

/// A cluster that is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparedCluster {
    /// Context of the kubeconfig.
    pub context: String,
    /// Id of its run.
    pub run: String,
    /// Grade of its own summary.
    pub grade: Grade,
    /// Trials that it has, usable or not.
    pub trials: u32,
}

/// One figure of one mesh under one load, over the clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterRow {
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// The figure.
    pub what: Figure,
    /// Its unit.
    pub unit: Unit,
    /// One for each cluster, in their order; absent for a cluster without a usable trial.
    pub cells: Vec<Option<ClusterCell>>,
}

/// The figure on one cluster, compared with the other clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterCell {
    /// The figure: the median over the usable trials.
    pub value: f64,
    /// Number of usable trials.
    pub trials: u32,
    /// The figure divided by the median of the other clusters' figures.
    pub ratio: f64,
    /// p-value of the least certain comparison with one other cluster (Welch, of logarithms) that is
    /// needed for a majority of the others in the same direction; absent with fewer than 2 trials on a
    /// cluster.
    pub p: Option<f64>,
    /// The p-value after Holm's correction over all pairs of clusters and all figures of latency, or of
    /// resources.
    pub p_holm: Option<f64>,
    /// Whether the cluster differs, after that correction.
    pub differs: bool,
}
