//! Trials: one mesh, one load, one repeat, once; and what is kept of each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::LoadResult;
use crate::mesh::Mesh;
use crate::plan::{Load, Plan};
use crate::rng::Rng;
use crate::verdict::Verdict;
use crate::worker::Plane;

/// One trial of a plan: `trial.json` in its directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Position in the run's order, from 0; also its identity within the run.
    pub index: u32,
    /// Which repeat, from 0.
    pub block: u32,
    /// What is under test.
    pub mesh: Mesh,
    /// The load.
    pub load: Load,
    /// Seed of this trial's arrivals: the same for all meshes of a block and load,
    /// so that they see the same schedule.
    pub seed: u64,
}

impl TrialSpec {
    /// Directory name: `007-b2-envoy-mtls-200rps`.
    #[must_use]
    pub fn dir_name(&self) -> String {
        let clean = |s: &str| -> String {
            s.chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
                        c
                    } else {
                        '-'
                    }
                })
                .collect()
        };
        format!(
            "{:03}-b{}-{}-{}",
            self.index,
            self.block,
            clean(&self.mesh.name),
            clean(&self.load.name)
        )
    }
}

/// All trials of a plan, in the order in which they run: block by block, each
/// block's mesh and load combinations shuffled from the plan's seed.
#[must_use]
pub fn order(plan: &Plan) -> Vec<TrialSpec> {
    let mut trials = Vec::new();
    for block in 0..plan.repeats {
        let mut combos: Vec<(usize, usize)> = (0..plan.meshes.len())
            .flat_map(|m| (0..plan.loads.len()).map(move |l| (m, l)))
            .collect();
        Rng::stream(plan.seed, u64::from(block)).shuffle(&mut combos);
        for (m, l) in combos {
            trials.push(TrialSpec {
                schema_version: crate::SCHEMA_VERSION,
                index: trials.len() as u32,
                block,
                mesh: plan.meshes[m].clone(),
                load: plan.loads[l].clone(),
                seed: Rng::stream(plan.seed, (u64::from(block) << 32) | (l as u64 + 1)).next_u64(),
            });
        }
    }
    trials
}

/// What is kept of a trial: `result.json` in its directory. Derived from the
/// records beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialResult {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was asked.
    pub trial: TrialSpec,
    /// When the trial began (deployment included).
    pub started_unix_ns: u64,
    /// When it was over.
    pub ended_unix_ns: u64,
    /// The generators' result; absent when the trial did not get that far.
    pub load: Option<LoadResult>,
    /// CPU and memory; absent likewise.
    pub resources: Option<Resources>,
    /// Proofs that what the trial names was in the path, and for `bare` that nothing was.
    pub proofs: Vec<Proof>,
    /// The generator's verdict and everything that the trial adds.
    pub verdict: Verdict,
}

/// One thing that was checked about the mesh before or after the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// What was checked, as `plaintext to an inbound port is refused`.
    pub claim: String,
    /// Whether it held.
    pub holds: bool,
    /// What was seen.
    pub seen: String,
}

/// CPU and memory over the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Between the first and the last sample.
    pub window_ns: u64,
    /// Each process (or container).
    pub processes: Vec<ProcessUse>,
    /// Summed per plane.
    pub planes: BTreeMap<Plane, PlaneUse>,
    /// The whole machine.
    pub machine: MachineUse,
    /// What the sampling itself used, in cores.
    pub sampling_cores: f64,
    /// Set where the kubelets' summaries were read in the place of control groups: age of
    /// the oldest value when it was read, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_age_ns_max: Option<u64>,
}

/// Which measure of memory a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// Proportional set size: shared pages divided between their users.
    Pss,
    /// Resident set size.
    Rss,
    /// What a container's control group is charged with, without inactive file pages.
    WorkingSet,
}

/// One process over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessUse {
    /// `WatchedProcess::name`.
    pub name: String,
    /// Whose it is.
    pub plane: Plane,
    /// CPU in cores: the integral over the window, divided by the window.
    pub cpu_cores: f64,
    /// The busiest interval between samples (about a second), in cores.
    pub cpu_cores_max: f64,
    /// Memory mean in bytes.
    pub memory_mean_bytes: f64,
    /// Memory maximum in bytes.
    pub memory_max_bytes: u64,
    /// Which measure `memory_*` is.
    pub memory_kind: MemoryKind,
    /// Resident set size, mean in bytes, whatever the kind above.
    pub rss_mean_bytes: f64,
    /// When it vanished, since the start of the window; its use until then is counted. 0 of
    /// what could not be read from the beginning.
    pub gone_at_ns: Option<i64>,
}

/// One plane over the window: the sums over its processes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaneUse {
    /// Number of processes.
    pub processes: u32,
    /// CPU in cores, integral over the window.
    pub cpu_cores: f64,
    /// The busiest interval of the whole plane, in cores.
    pub cpu_cores_max: f64,
    /// Sum of the means, in bytes.
    pub memory_mean_bytes: f64,
    /// Largest sum at one instant, in bytes.
    pub memory_max_bytes: u64,
    /// Sum of the resident means, in bytes.
    pub rss_mean_bytes: f64,
}

/// The machine over the window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineUse {
    /// Number of cores, all of them.
    pub cores: u32,
    /// Cores that the trial's processes may run on.
    pub cores_allowed: u32,
    /// Busy cores, mean.
    pub busy_cores: f64,
    /// Busy cores in the busiest interval.
    pub busy_cores_max: f64,
    /// Cores used by processes that are not the trial's.
    pub other_cores: f64,
    /// Cores taken by the hypervisor.
    pub stolen_cores: f64,
    /// Time for which CPU quotas stopped the trial's control group, in nanoseconds,
    /// summed over cores; absent where control groups do not tell.
    pub throttled_ns: Option<u64>,
}

/// Something that happened, one line of `events.ndjson` of a trial or a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub at_unix_ns: u64,
    /// A word: `started`, `proved`, `exited`...
    pub kind: String,
    /// A sentence.
    pub message: String,
}
