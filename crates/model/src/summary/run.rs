//! The summary of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Distinction};
use super::inference::Stopping;
use super::published::Published;
use super::stability::{Outlier, Stability};
use crate::graph::ServiceProtocol;
use crate::hist::LatencySummary;
use crate::layout::Fingerprint;
use crate::load::Counts;
use crate::mesh::Mesh;
use crate::plan::{EnvironmentKind, Load, Prices};
use crate::trial::Proof;
use crate::verdict::{Grade, Verdict};

/// The whole analysis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `RunManifest::id`.
    pub run: String,
    /// Plan name.
    pub plan: String,
    /// Version of tare that ran the trials.
    pub tare_version: String,
    /// `release` or `debug` build of it.
    pub tare_build: String,
    /// Start time of the run.
    pub started_unix_ns: u64,
    /// Name of the mesh that the others are compared with.
    pub baseline: String,
    /// Trials in the plan.
    pub trials_planned: u32,
    /// Trials on disk.
    pub trials_done: u32,
    /// The setup.
    pub setup: Setup,
    /// Confidence of every interval here, as 0.95.
    pub confidence: f64,
    /// Invalid if a mesh under a load has no usable trial; suspect if any trial or cell is
    /// suspect, or trials are missing.
    pub grade: Grade,
    /// The answers: one for each mesh except the baseline, under the highest load.
    pub answers: Vec<Answer>,
    /// Mesh by load, in the order of the plan (loads within meshes).
    pub cells: Vec<Cell>,
    /// Every trial on disk, in order of its index.
    pub trials: Vec<TrialRow>,
    /// Where it ran.
    pub fingerprint: Fingerprint,
    /// Files and trials that could not be read or used, in sentences.
    pub notes: Vec<String>,
    /// Differences up to this share of the baseline's figure count as equivalent: 0.05.
    pub equivalence_margin: f64,
    /// Targets and progress of an adaptive plan; absent with a fixed number of blocks.
    pub stopping: Option<Stopping>,
    /// Published figures, the same in every summary: measured by others on other machines. Every
    /// output must label them as such.
    pub published: Vec<Published>,
}

/// The setup of the run, for readers who assess or repeat it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The plan's description; may be empty.
    pub description: String,
    /// Where it ran.
    pub environment: EnvironmentKind,
    /// Name of the service graph.
    pub workload: String,
    /// Services of one instance.
    pub services: Vec<String>,
    /// Number of instances of the graph.
    pub instances: u32,
    /// Name of the mix of endpoints.
    pub mix: String,
    /// Protocols of the services in the mix; empty in summaries of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ServiceProtocol>,
    /// The meshes with all settings, in the order of the plan.
    pub meshes: Vec<Mesh>,
    /// The loads, in the order of the plan.
    pub loads: Vec<Load>,
    /// Number of blocks.
    pub repeats: u32,
    /// Seed of the order of trials and of the arrivals. A string, because JSON
    /// readers lose integers past 2^53.
    pub seed: String,
    /// The command line.
    pub command: Vec<String>,
    /// Prices of CPU and memory, if the plan has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// Result of the run for one mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Grade of the cell that the answer rests on (the worse of the mesh's and the baseline's).
    pub grade: Grade,
    /// Comparison of the medians; absent if impossible.
    pub distinction: Option<Distinction>,
    /// A sentence or two.
    pub text: String,
    /// Correction of the sentence for multiple comparisons, such as `Among the 12 comparisons of
    /// this report, the difference in p99 may be chance (Holm's correction).`; absent if the
    /// correction changes nothing.
    pub caution: Option<String>,
}

/// One trial in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialRow {
    /// `TrialSpec::index`.
    pub index: u32,
    /// Directory name.
    pub dir: String,
    /// Repeat.
    pub block: u32,
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Whether its figures are in a cell.
    pub used: bool,
    /// Whether the user excluded it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excluded: bool,
    /// The verdict with its reasons.
    pub verdict: Verdict,
    /// Slots; absent if the trial has no result.
    pub counts: Option<Counts>,
    /// Achieved rate; absent if the trial has no result.
    pub achieved_rps: Option<f64>,
    /// Latency; absent if the trial has no result.
    pub latency_ns: Option<LatencySummary>,
    /// The generator's own delay; absent if the trial has no result.
    pub lateness_ns: Option<LatencySummary>,
    /// Errors and timeouts by class.
    pub errors: BTreeMap<String, u64>,
    /// Data-plane CPU in cores; absent if nothing was sampled.
    pub data_plane_cores: Option<f64>,
    /// Data-plane memory mean in bytes; absent if nothing was sampled.
    pub data_plane_bytes: Option<f64>,
    /// Proofs about the mesh.
    pub proofs: Vec<Proof>,
    /// Processes that vanished during the trial.
    pub gone: Vec<String>,
    /// Whether latency was steady; absent without enough records by the second.
    pub stability: Option<Stability>,
    /// How it differs from the other trials of its cell; absent if it does not.
    pub outlier: Option<Outlier>,
}
