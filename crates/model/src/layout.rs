//! Names in a run directory. The run directory is the truth; everything shown
//! is derived from it.
//!
//! ```text
//! runs/20260101-120000-quick/
//!   run.json            RunManifest: resolved plan, order, environment
//!   plan.yaml           the plan as it was written
//!   events.ndjson       Event per line
//!   trials/000-b0-bare-200rps/
//!     trial.json        TrialSpec
//!     load.ndjson       LoadRecord per line
//!     agent.ndjson      AgentRecord per line
//!     latency.hlog      HdrHistogram interval log
//!     events.ndjson     Event per line
//!     result.json       TrialResult
//!     logs/             standard error of every process
//!     config/           effective proxy configurations, as generator-sidecar-config_dump.json
//!   summary.json        Summary (derived)
//!   report.html         the page (derived)
//! ```
//!
//! A trial is written under [`PARTIAL_PREFIX`] and renamed when it is complete.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;

/// [`RunManifest`].
pub const RUN: &str = "run.json";
/// The plan as it was written.
pub const PLAN: &str = "plan.yaml";
/// One [`crate::trial::Event`] per line; in the run's and each trial's directory.
pub const EVENTS: &str = "events.ndjson";
/// Folder of the trials.
pub const TRIALS: &str = "trials";
/// [`crate::trial::TrialSpec`].
pub const TRIAL: &str = "trial.json";
/// One [`crate::record::LoadRecord`] per line.
pub const LOAD: &str = "load.ndjson";
/// One [`crate::record::AgentRecord`] per line.
pub const AGENT: &str = "agent.ndjson";
/// HdrHistogram interval log.
pub const HLOG: &str = "latency.hlog";
/// [`crate::trial::TrialResult`].
pub const RESULT: &str = "result.json";
/// Folder of logs.
pub const LOGS: &str = "logs";
/// Folder of effective proxy configurations.
pub const CONFIG: &str = "config";
/// The analysis.
pub const SUMMARY: &str = "summary.json";
/// The page.
pub const REPORT: &str = "report.html";
/// [`crate::clusters::ClustersManifest`], above the runs of several clusters.
pub const CLUSTERS: &str = "clusters.json";
/// [`crate::clusters::ClustersComparison`], beside it.
pub const CLUSTERS_COMPARISON: &str = "comparison.json";
/// The same as text.
pub const CLUSTERS_TEXT: &str = "comparison.txt";
/// In front of the name of a trial directory that is still being written.
pub const PARTIAL_PREFIX: &str = ".partial-";

/// What ran, where: `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunManifest {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Directory name: start time and plan.
    pub id: String,
    /// Version of tare.
    pub tare_version: String,
    /// `release` or `debug` build of tare; numbers of a debug build are suspect.
    pub tare_build: String,
    /// When the run began.
    pub started_unix_ns: u64,
    /// The resolved plan. The order of trials follows from it.
    pub plan: Plan,
    /// The command line.
    pub command: Vec<String>,
    /// Where it ran.
    pub fingerprint: Fingerprint,
}

/// The machine and the programs: what somebody else would need to repeat it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Kernel release and version.
    pub kernel: String,
    /// Processor model.
    pub cpu_model: String,
    /// Cores that tare may use.
    pub cores: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Clock source of the kernel.
    pub clocksource: String,
    /// Frequency governor, where there is one.
    pub governor: Option<String>,
    /// What idle cores did; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleCores>,
    /// Hypervisor, where one shows.
    pub virtualised: Option<String>,
    /// Versions of programs under test: name to version, with the digest of the binary.
    pub programs: std::collections::BTreeMap<String, String>,
    /// Load average over a minute when the run began, in hundredths.
    pub load_average_centi: u32,
}

/// What the cores did that had nothing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IdleCores {
    /// Whether they were kept from sleeping.
    pub awake: bool,
    /// How, or why they may have slept: words.
    pub how: String,
}

impl IdleCores {
    /// What two runs must have in common.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.awake {
            true => "kept awake",
            false => "may sleep",
        }
    }
}

impl std::fmt::Display for IdleCores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.state(), self.how)
    }
}
