//! The summary of a run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::Cell;
use super::cost::ProxyCpu;
use super::failure::CellFailure;
use super::gate::GateResult;
use super::path::PathCosts;
use super::price_list::PriceList;
use super::profiles::Profiles;
use super::published::Published;
use super::ratio::{MeshComparison, Outcome};
use super::stability::Outlier;
use super::stopping::Stopping;
use super::sweep::SweepSummary;
use crate::layout::Fingerprint;
use crate::load::Counts;
use crate::trial::Proof;
use crate::verdict::{Grade, Verdict};
use tare_plan::graph::ServiceProtocol;
use tare_plan::mesh::Mesh;
use tare_plan::{EnvironmentKind, Load, Margins, Pairing, Prices};
use tare_stats::series::Stability;
use tare_stats::wire::LatencySummary;

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
    /// What failed, in the order of the cells; every output begins with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<CellFailure>,
    /// The answers: one for each mesh over the baseline and, with up to 3 meshes, for the other pairs,
    /// under the load with the highest rate.
    pub answers: Vec<Answer>,
    /// Mesh by load, in the order of the plan (loads within meshes).
    pub cells: Vec<Cell>,
    /// All pairs of meshes under each load: each mesh with each that precedes it, the baseline
    /// first. If meshes have features, only the pairs with the baseline.
    pub comparisons: Vec<MeshComparison>,
    /// The result of a gate; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateResult>,
    /// What each feature adds; absent if no mesh has a feature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_list: Option<PriceList>,
    /// The trials of each mesh, in the order of the plan: what they were used for.
    pub mesh_trials: Vec<MeshTrials>,
    /// p-value of the hypothesis that something outside the trials disturbed all meshes equally
    /// often; absent if it disturbed none.
    #[serde(default)]
    pub disturbed_equally_p: Option<f64>,
    /// Fixed and marginal CPU of the proxies of each mesh whose idle proxies were sampled.
    #[serde(default)]
    pub proxy_cpu: Vec<ProxyCpu>,
    /// Where in the path of a request the meshes cost time, CPU and memory; absent if neither calls were
    /// timed nor proxies are on one side only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathCosts>,
    /// In which code the CPU time of a request is spent; absent without profile trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Profiles>,
    /// The machine over the blocks.
    pub machine: MachineState,
    /// Every trial on disk, in order of its index.
    pub trials: Vec<TrialRow>,
    /// Where it ran.
    pub fingerprint: Fingerprint,
    /// Files and trials that could not be read or used, in sentences.
    pub notes: Vec<String>,
    /// Up to these shares, figures count as the same.
    #[serde(default)]
    pub margins: Margins,
    /// The factors of a sweep; absent if the plan has no `vary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepSummary>,
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
    /// How the trials of a block shared the machine.
    #[serde(default, skip_serializing_if = "Pairing::is_turns")]
    pub pairing: Pairing,
    /// Number of blocks of each mesh.
    pub repeats: u32,
    /// Number of blocks of each load that not every block has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub blocks_of_load: BTreeMap<String, u32>,
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
    /// The worse grade of the two cells that are compared.
    pub grade: Grade,
    /// Name of the mesh that it is compared with.
    pub reference: String,
    /// Comparison of the medians; absent if impossible.
    pub outcome: Option<Outcome>,
    /// A sentence or two.
    pub text: String,
    /// What qualifies the sentence: other trials that give another outcome, and failed requests;
    /// absent if nothing does.
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
    /// Which attempt at its block, from 0.
    #[serde(default)]
    pub attempt: u32,
    /// Whether its figures are in a cell.
    pub status: TrialStatus,
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
    /// Time for which the trial's processes waited for a core, as a share of the CPU time that they
    /// used; absent if it was not sampled.
    #[serde(default)]
    pub run_queue_delay_per_cpu_time: Option<f64>,
    /// The same time per request, in nanoseconds; absent also if no request was sent.
    #[serde(default)]
    pub run_queue_delay_per_request_ns: Option<f64>,
    /// Instructions of applications and proxies per request, by hardware counters; absent if they are
    /// unknown.
    #[serde(default)]
    pub instructions_per_request: Option<f64>,
    /// Cycles of applications and proxies per request; absent if they are unknown.
    #[serde(default)]
    pub cycles_per_request: Option<f64>,
    /// Proofs about the mesh.
    pub proofs: Vec<Proof>,
    /// Processes that vanished during the trial.
    pub gone: Vec<String>,
    /// Whether latency was steady; absent without enough records by the second.
    pub stability: Option<Stability>,
    /// How it differs from the other trials of its cell; absent if it does not.
    pub outlier: Option<Outlier>,
}

/// What a trial was used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialStatus {
    /// Its figures are in a cell.
    Used,
    /// It has no figure of its mesh: it failed, or the mesh was not in the path.
    Failed,
    /// Something outside the trials disturbed its block, which was run again.
    RunAgain,
    /// Something outside the trials disturbed its block, which is left out for all meshes.
    LeftOut,
    /// The user excluded it.
    Excluded,
    /// The plan has no such trial, or another one takes its place.
    Unplanned,
}

impl TrialStatus {
    /// The text in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Failed => "failed",
            Self::RunAgain => "block run again",
            Self::LeftOut => "block left out",
            Self::Excluded => "excluded on request",
            Self::Unplanned => "not in the plan",
        }
    }
}

/// The trials of a mesh under all loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeshTrials {
    /// Mesh name.
    pub mesh: String,
    /// Trials on disk.
    pub trials: u32,
    /// Number of trials that are used.
    pub used: u32,
    /// Number of trials that failed.
    pub failed: u32,
    /// Number of trials whose block was run again.
    pub run_again: u32,
    /// Number of trials whose block is left out.
    pub left_out: u32,
    /// Number of trials that something outside the trials disturbed itself, above the threshold. It
    /// rises with the CPU that a mesh uses.
    pub disturbed: u32,
    /// On which terms its proxies worked, by name. Several values of its trials are separated by semicolons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, String>,
}

/// The machine over the blocks of the run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineState {
    /// Median latency of each used block relative to the typical block, over all meshes and loads, in
    /// order of block.
    pub blocks: Vec<f64>,
    /// p-value of the hypothesis that the order of the blocks is random; absent with fewer than 8.
    pub order_p: Option<f64>,
    /// Whether the machine changed its state during the run: it drifted, or was slow for a while. Then
    /// ratios hold, and absolute figures are of this run only.
    pub changed: bool,
}
