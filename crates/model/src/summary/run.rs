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
    /// When the run began.
    pub started_unix_ns: u64,
    /// Name of the mesh that the others are compared with.
    pub baseline: String,
    /// Trials in the plan.
    pub trials_planned: u32,
    /// Trials on disk.
    pub trials_done: u32,
    /// What was asked for.
    pub setup: Setup,
    /// Confidence of every interval here, as 0.95.
    pub confidence: f64,
    /// Invalid where a mesh under a load has no usable trial; suspect where anything
    /// speaks against any trial or cell, or trials are missing.
    pub grade: Grade,
    /// One for each mesh but the baseline, under the highest load: the answer.
    pub answers: Vec<Answer>,
    /// Mesh by load, in the order of the plan (loads within meshes).
    pub cells: Vec<Cell>,
    /// Every trial on disk, in order of its index.
    pub trials: Vec<TrialRow>,
    /// Where it ran.
    pub fingerprint: Fingerprint,
    /// What could not be read or used, in sentences.
    pub notes: Vec<String>,
    /// Up to this share of the baseline's figure, a difference is none for practical
    /// purposes: 0.05.
    pub equivalence_margin: f64,
    /// Of an adaptive plan; absent with a fixed number of blocks.
    pub stopping: Option<Stopping>,
    /// Published figures, the same in every summary: measured by others on other
    /// machines, and to be labelled so wherever they are shown.
    pub published: Vec<Published>,
}

/// What was measured, as far as a reader needs it to judge and to repeat the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The plan's line for people; may be empty.
    pub description: String,
    /// Where it ran.
    pub environment: EnvironmentKind,
    /// Name of the service graph.
    pub workload: String,
    /// Services of one instance.
    pub services: Vec<String>,
    /// How many instances of the graph.
    pub instances: u32,
    /// Name of the mix of endpoints.
    pub mix: String,
    /// What the services that the mix asks speak; empty in a summary of before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<ServiceProtocol>,
    /// What is compared, with all settings, in the order of the plan.
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
    /// What CPU and memory cost, where the plan says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// What the run says about one mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Grade of the cell that the answer rests on (the worse of the mesh's and the baseline's).
    pub grade: Grade,
    /// How the medians compare; absent where no comparison was possible.
    pub distinction: Option<Distinction>,
    /// A sentence or two.
    pub text: String,
    /// What many comparisons in one report take away from the sentence, as `After
    /// Holm's correction for 12 comparisons the median is not distinguishable.`;
    /// absent where they take nothing away.
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
    /// Whether the reader left it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub excluded: bool,
    /// The verdict with its reasons.
    pub verdict: Verdict,
    /// Slots; absent when the trial did not get as far as a result.
    pub counts: Option<Counts>,
    /// Achieved rate, likewise.
    pub achieved_rps: Option<f64>,
    /// Latency, likewise.
    pub latency_ns: Option<LatencySummary>,
    /// The generator's own error, likewise.
    pub lateness_ns: Option<LatencySummary>,
    /// Errors and timeouts by class.
    pub errors: BTreeMap<String, u64>,
    /// Data-plane CPU in cores; absent when nothing was sampled.
    pub data_plane_cores: Option<f64>,
    /// Data-plane memory mean in bytes, likewise.
    pub data_plane_bytes: Option<f64>,
    /// What was proven about the mesh.
    pub proofs: Vec<Proof>,
    /// Processes that vanished in the trial.
    pub gone: Vec<String>,
    /// Whether it was steady; absent without enough records by the second.
    pub stability: Option<Stability>,
    /// How it differs from the other trials of its cell; absent where it does not.
    pub outlier: Option<Outlier>,
}
