//! Trials: one mesh, one load, one repeat, run once; their order, and what is stored of each.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capacity::Capacity;
use crate::churn::ChurnResult;
use crate::load::LoadResult;
use crate::overload::OverloadResult;
use crate::record::HardwareCounts;
use crate::verdict::Verdict;
use crate::worker::{Plane, Slices};
use tare_plan::limits;
use tare_plan::trial::TrialSpec;

/// The result of a trial: `result.json` in its directory. Derived from the records in the same
/// directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialResult {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Specification of the trial.
    pub trial: TrialSpec,
    /// When the trial began (deployment included).
    pub started_unix_ns: u64,
    /// When the trial ended.
    pub ended_unix_ns: u64,
    /// The generators' result; absent if the trial ended before it.
    pub load: Option<LoadResult>,
    /// What a search for the capacity found; absent in other trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// The parts of an overload; absent in other trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<OverloadResult>,
    /// What the churn showed; absent in loads without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<ChurnResult>,
    /// CPU and memory; absent if nothing was sampled.
    pub resources: Option<Resources>,
    /// CPU and memory of the deployment before the load, without any request: once for each mesh with
    /// proxies in each block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Resources>,
    /// When it was loaded, if it shared the window with other trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<SliceUse>,
    /// Proofs that the mesh was in the path, and for `bare` that no proxy was.
    pub proofs: Vec<Proof>,
    /// On which terms the proxies work, such as the version of TLS, by name; empty where that cannot be seen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub terms: BTreeMap<String, String>,
    /// The generator's verdict with the findings that the trial adds.
    pub verdict: Verdict,
}

impl TrialResult {
    /// The part of the generators' result that figures are made of: all of it, or without the rounds that were left out.
    #[must_use]
    pub fn counted(&self) -> Option<&LoadResult> {
        let kept = self.slices.as_ref().and_then(|s| s.kept.as_deref());
        kept.or(self.load.as_ref())
    }

    /// Requests per second that the generators sent while the trial was loaded; `None` without their result.
    #[must_use]
    pub fn achieved_rps(&self) -> Option<f64> {
        let load = self.counted()?;
        let loaded_ns = self
            .slices
            .as_ref()
            .map_or(load.window_ns, SliceUse::loaded_ns);
        Some(load.rate.achieved * load.window_ns as f64 / loaded_ns.max(1) as f64)
    }

    /// Checks the windows of load and samples, as [`limits::check_window`] does: the file may have been
    /// changed, and memory is allocated for each second of a window.
    ///
    /// # Errors
    /// What was found and expected, as a fragment of a sentence.
    pub fn check_windows(&self) -> Result<(), String> {
        if let Some(load) = &self.load {
            load.check_window()?;
        }
        let mut samples = self.resources.iter().chain(&self.idle);
        samples.try_for_each(|r| limits::check_window(0, r.window_ns, false))
    }
}

/// The slices of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceUse {
    /// When it was loaded.
    pub slices: Slices,
    /// Responses that took longer than the gap: so many, at most, were still in progress when the next slice began.
    pub longer_than_gap: u64,
    /// The rounds, from 0, that are left out of the figures of all trials of the block, because something outside them
    /// disturbed the machine. In each round, each trial has one slice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<u32>,
    /// The generators' result without these rounds; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<LoadResult>>,
}

impl SliceUse {
    /// How long the trial was loaded in the rounds that count, in nanoseconds.
    #[must_use]
    pub fn loaded_ns(&self) -> u64 {
        let left_out = self.left_out.len() as u64 * self.slices.length_ns;
        self.slices.loaded_ns().saturating_sub(left_out)
    }
}

/// A check of the mesh before or after the measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// What was checked, such as `plaintext to an inbound port is refused`.
    pub claim: String,
    /// Whether it held.
    pub holds: bool,
    /// What was observed.
    pub seen: String,
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (observed: {})", self.claim, self.seen)
    }
}

/// CPU and memory over the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Time between the first and the last sample; of a trial in slices, the time for which it was loaded.
    pub window_ns: u64,
    /// Each process (or container).
    pub processes: Vec<ProcessUse>,
    /// Summed per plane.
    pub planes: BTreeMap<Plane, PlaneUse>,
    /// The whole machine.
    pub machine: MachineUse,
    /// What the sampling itself used, in cores.
    pub sampling_cores: f64,
    /// Age of the oldest value when it was read, in nanoseconds. Set only if the kubelets'
    /// summaries were read instead of control groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet_age_ns_max: Option<u64>,
    /// CPU of the processes and of the sampling, without tare's, over the whole window, in cores: with the slices of
    /// other trials. Only of a trial in slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_window_cores: Option<f64>,
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

impl MemoryKind {
    /// The text in tables and messages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Pss => "PSS",
            Self::Rss => "RSS",
            Self::WorkingSet => "working set",
        }
    }
}

/// One process over the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessUse {
    /// `WatchedProcess::name`.
    pub name: String,
    /// Plane that it belongs to.
    pub plane: Plane,
    /// CPU in cores: the integral over the window, divided by the window.
    pub cpu_cores: f64,
    /// The busiest interval between samples (about a second), in cores.
    pub cpu_cores_max: f64,
    /// Time for which its threads were runnable and waited for a core, in nanoseconds summed over
    /// threads; absent where it was not sampled.
    #[serde(default)]
    pub run_queue_delay_ns: Option<u64>,
    /// Hardware counters over the window; absent where they were not read at both of its edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<HardwareCounts>,
    /// Memory mean in bytes.
    pub memory_mean_bytes: f64,
    /// Memory maximum in bytes.
    pub memory_max_bytes: u64,
    /// Which measure `memory_*` is.
    pub memory_kind: MemoryKind,
    /// Mean resident set size in bytes, regardless of `memory_kind`; absent if it could not be read.
    #[serde(default)]
    pub rss_mean_bytes: Option<f64>,
    /// Time for which CPU quotas stopped it, in nanoseconds summed over cores; absent where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// When it vanished, since the start of the window; its use until then is counted. 0 if it
    /// could not be read at the start of the window.
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
    /// Run-queue delay, in nanoseconds; absent if it is unknown of a process.
    #[serde(default)]
    pub run_queue_delay_ns: Option<u64>,
    /// Hardware counters; absent if they are unknown of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<HardwareCounts>,
    /// Sum of the means, in bytes.
    pub memory_mean_bytes: f64,
    /// Largest sum at one instant, in bytes.
    pub memory_max_bytes: u64,
    /// Sum at the first sample, in bytes; absent in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_first_bytes: Option<u64>,
    /// Sum at the last sample, in bytes; absent in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_last_bytes: Option<u64>,
    /// Sum of the resident means, in bytes; absent if one of them is unknown.
    #[serde(default)]
    pub rss_mean_bytes: Option<f64>,
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
    /// Busy cores of the machines that run services of the application, mean, on a cluster: with the work of the kernel,
    /// and with everything else that runs there. Otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_nodes_busy_cores: Option<f64>,
    /// Cores used by processes that are not the trial's.
    pub other_cores: f64,
    /// Cores taken by the hypervisor.
    pub stolen_cores: f64,
    /// Cores that handled interrupts, where the kernel accounts them apart from processes. They are
    /// busy, and neither the trial's nor those of other processes.
    #[serde(default)]
    pub interrupt_cores: Option<f64>,
    /// Share of the window in which some process of the machine waited for a core (PSI); absent
    /// where the kernel does not report it.
    #[serde(default)]
    pub pressure: Option<f64>,
    /// Time for which CPU quotas stopped the trial's control group, in nanoseconds, summed over
    /// cores; absent if control groups do not report it.
    pub throttled_ns: Option<u64>,
}

/// What an [`Event`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A run started with no trial on disk.
    #[serde(alias = "begun")]
    Started,
    /// A run continued from the trials on disk.
    Resumed,
    /// The capacities that overloads are a share of are known.
    CapacitiesFound,
    /// New levels were added to a sweep.
    Extended,
    /// A block is run again, because something outside the trials disturbed it.
    BlockRunAgain,
    /// An adaptive run stopped, because its intervals are narrow enough.
    NarrowEnough,
    /// A gate is decided.
    GateDecided,
    /// A run was asked to stop.
    Interrupted,
    /// A run finished.
    #[serde(alias = "ended")]
    Finished,
    /// A trial failed before measurement.
    NotStarted,
    /// A proof held.
    Proved,
    /// A proof failed.
    NotProved,
    /// Data of a trial are missing or damaged.
    Incomplete,
    /// CPU and memory were not sampled, or only in a part of the window.
    NotSampled,
    /// The calls between services were not timed.
    CallsMissing,
    /// A process, a container or a node ended during a trial.
    Exited,
    /// An object of the user's application was changed before it was deployed.
    ApplicationChanged,
    /// An object of the user's application seems to send load of its own.
    OwnLoad,
    /// The generators have a node of their own.
    #[serde(alias = "node")]
    GeneratorNode,
    /// A pod was created without its sidecar, and was created again.
    #[serde(alias = "repaired")]
    Recreated,
    /// Generators did not run in time, and were started again.
    LateStart,
    /// The stream of a log was cut, and was read again.
    #[serde(alias = "log_again")]
    LogReread,
    /// The API server was unavailable for a time.
    #[serde(alias = "server_away")]
    ApiServerUnavailable,
    /// The clocks of the generators differ.
    #[serde(alias = "skew")]
    ClockSkew,
    /// CPU and memory were not sampled, or only in part.
    #[serde(alias = "agent")]
    SamplingFailed,
    /// CPU and memory come from kubelets.
    #[serde(alias = "sampled")]
    SampledByKubelets,
    /// The configuration of a proxy was not saved.
    #[serde(alias = "proxy_config")]
    ProxyConfigMissing,
    /// A pod did not end, and was removed by force.
    #[serde(alias = "forced")]
    RemovedByForce,
    /// Something that the run created was not removed.
    #[serde(alias = "left")]
    NotRemoved,
    /// An object on the cluster did not exist before the run, and may not belong to it.
    Appeared,
}

/// Something that happened: one line of `events.ndjson` of a trial or a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Wall-clock time.
    pub at_unix_ns: u64,
    /// What is reported.
    pub kind: EventKind,
    /// Name of the process, container, pod, node or object; empty where the event concerns the
    /// whole trial or run, and in files of earlier versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// What happened to it. Earlier versions wrote a sentence that names the subject, as `message`.
    #[serde(alias = "message")]
    pub found: String,
}

/// The event as one line for people.
impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.subject.as_str() {
            "" => f.write_str(&self.found),
            subject => write!(f, "{subject}: {}", self.found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_earlier_versions_are_read() {
        let old = r#"{"at_unix_ns":1,"kind":"server_away","message":"the API server was away"}"#;
        let event: Event = serde_json::from_str(old).unwrap();
        assert_eq!(event.kind, EventKind::ApiServerUnavailable);
        assert_eq!(event.to_string(), "the API server was away");
        let kinds = [
            "begun",
            "resumed",
            "narrow_enough",
            "interrupted",
            "ended",
            "not_started",
            "proved",
            "not_proved",
            "incomplete",
            "exited",
            "node",
            "repaired",
            "late_start",
            "log_again",
            "server_away",
            "skew",
            "agent",
            "sampled",
            "proxy_config",
            "forced",
            "left",
            "appeared",
        ];
        for kind in kinds {
            let old = old.replace("server_away", kind);
            assert!(serde_json::from_str::<Event>(&old).is_ok(), "{kind}");
        }
    }

    #[test]
    fn an_event_names_its_subject_first() {
        let event = Event {
            at_unix_ns: 1,
            kind: EventKind::Exited,
            subject: "web".into(),
            found: "ended with signal 9".into(),
        };
        assert_eq!(event.to_string(), "web: ended with signal 9");
        let stored = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<Event>(&stored).unwrap(), event);
    }
}
