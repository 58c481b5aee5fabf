//! Names in a run directory. The run directory is the truth; everything shown
//! is derived from it.
//!
//! ```text
//! runs/20260101-120000-quick/
//!   run.json            RunManifest: resolved plan, order, environment
//!   plan.yaml           the plan as it was written
//!   events.ndjson       Event per line
//!   capacities.json     FoundCapacities, of a plan with `overload`
//!   trials/000-b1-bare-200rps/
//!     trial.json        TrialSpec
//!     load.ndjson       LoadRecord per line
//!     agent.ndjson      AgentRecord per line
//!     calls.json        TrialCalls
//!     churn.ndjson      ChurnRecord per line, of a load with `churn`
//!     steps.ndjson      CapacityStep per line, of a search for the capacity
//!     latency.hlog      HdrHistogram interval log
//!     events.ndjson     Event per line
//!     result.json       TrialResult
//!     files.sha256      digests of all files of the trial, for sha256sum
//!     logs/             standard error of every process
//!     config/           effective proxy configurations, as generator-sidecar-config_dump.json
//!   profiles/           of `tare run --profile`
//!     trials/           profile trials, with the same files as those above; they are in no figure
//!     *.svg, *.pb.gz    flame graphs and pprof files (derived)
//!   summary.json        Summary (derived)
//!   report.html         the page (derived)
//! ```
//!
//! A trial is written under [`PARTIAL_PREFIX`] and renamed when it is complete.

pub use super::manifest::{Fingerprint, IdleCores, Platform, PlatformDifference, RunManifest};

/// [`RunManifest`].
pub const RUN: &str = "run.json";
/// The plan as it was written.
pub const PLAN: &str = "plan.yaml";
/// One [`crate::trial::Event`] per line; in the run's and each trial's directory.
pub const EVENTS: &str = "events.ndjson";
/// [`crate::overload::FoundCapacities`]; absent in runs of plans without `overload`.
pub const CAPACITIES: &str = "capacities.json";
/// Folder of the trials.
pub const TRIALS: &str = "trials";
/// [`tare_plan::trial::TrialSpec`].
pub const TRIAL: &str = "trial.json";
/// One [`crate::record::LoadRecord`] per line.
pub const LOAD: &str = "load.ndjson";
/// One [`crate::record::AgentRecord`] per line, from before the load.
pub const IDLE: &str = "idle.ndjson";
/// One [`crate::record::AgentRecord`] per line.
pub const AGENT: &str = "agent.ndjson";
/// [`crate::calls::TrialCalls`]; absent if the services did not time their calls.
pub const CALLS: &str = "calls.json";
/// One [`crate::churn::ChurnRecord`] per line, of a load with `churn`.
pub const CHURN: &str = "churn.ndjson";
/// One [`crate::capacity::CapacityStep`] per line, of a search for the capacity.
pub const STEPS: &str = "steps.ndjson";
/// HdrHistogram interval log.
pub const HLOG: &str = "latency.hlog";
/// [`crate::trial::TrialResult`].
pub const RESULT: &str = "result.json";
/// Digests of all files of a finished trial, as lines of `sha256sum`.
pub const FILES: &str = "files.sha256";
/// Folder of logs.
pub const LOGS: &str = "logs";
/// Folder of effective proxy configurations.
pub const CONFIG: &str = "config";
/// Folder of flame graphs and pprof files; it has a folder [`TRIALS`] of its own.
pub const PROFILES: &str = "profiles";
/// Directory of a profile trial with what the endpoints of a control plane served: `POD-cpu.pb.gz`, `POD-heap.pb.gz`.
pub const PPROF: &str = "pprof";
/// The analysis.
pub const SUMMARY: &str = "summary.json";
/// The page.
pub const REPORT: &str = "report.html";
/// [`crate::summary::clusters::ClustersManifest`], in the directory above the runs of several
/// clusters.
pub const CLUSTERS: &str = "clusters.json";
/// [`crate::summary::clusters::ClustersComparison`], in the same directory.
pub const CLUSTERS_COMPARISON: &str = "comparison.json";
/// That comparison as text.
pub const CLUSTERS_TEXT: &str = "comparison.txt";
/// Prefix of the name of a trial directory that is still being written.
pub const PARTIAL_PREFIX: &str = ".partial-";
