//! Records: what workers write to standard output, one JSON object per line.
//!
//! Every stream begins with `hello` and ends with `final`; a stream without `final` is truncated.
//! `final.checksum` is [`StreamChecksum`] over all lines before it, as
//! [`RecordWriter`](crate::writer::RecordWriter) writes it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::{Counts, LoadResult};
use crate::stacks::{ProcessStacks, StackSampling};
use tare_stats::wire::HistogramWire;

/// The first record of every stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hello {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `load`, `workload` or `agent`.
    pub role: String,
    /// Version of tare.
    pub tare_version: String,
    /// Process id on its own host.
    pub pid: u32,
}

impl Hello {
    /// The first record of a worker in this role, of this version of tare.
    #[must_use]
    pub fn new(role: &str, pid: u32) -> Self {
        Self {
            schema_version: tare_plan::SCHEMA_VERSION,
            role: role.to_owned(),
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid,
        }
    }
}

/// What a generator writes.
#[expect(
    clippy::large_enum_variant,
    reason = "records are read one at a time and not kept"
)]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LoadRecord {
    /// The first record.
    Hello(Hello),
    /// The connections are open and the schedule is fixed.
    Armed {
        /// Start of the warm-up.
        start_unix_ns: u64,
        /// Start of the measured window.
        window_start_unix_ns: u64,
        /// Length of the measured window.
        window_ns: u64,
    },
    /// Once per second, from the start of the warm-up.
    Progress(Progress),
    /// Once per second of the window: additions to each second whose counts changed.
    Interval(Interval),
    /// After the load, for each document of [`tare_plan::load::LoadSpec::proxy_config`]. It is stored
    /// in its own file, not in load.ndjson.
    ProxyConfig(ProxySettings),
    /// Instead of [`Self::ProxyConfig`], for a document that could not be read.
    ProxyConfigMissing {
        /// Name of the document.
        name: String,
        /// Why it could not be read.
        found: String,
    },
    /// The last record.
    Final {
        /// [`StreamChecksum`] over all lines before this one, as 16 hexadecimal digits.
        checksum: String,
        /// The whole result.
        result: Box<LoadResult>,
    },
}

/// What is kept of the configuration of the generator's own proxy. Only settings on an allow-list
/// are kept, because such a document can contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProxySettings {
    /// Name of the document, such as `config_dump`.
    pub name: String,
    /// Length of the whole document as compact JSON, in bytes.
    pub bytes: u64,
    /// SHA-256 of this compact JSON, in hexadecimal digits.
    pub sha256: String,
    /// Number of times that each value of a setting occurs. A setting is named by its field, with
    /// the type of its message in front if it has one: `Cluster.connect_timeout`.
    pub settings: BTreeMap<String, BTreeMap<String, u32>>,
}

/// Progress of a generator, for display. Results are made of the [`Interval`] records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// Since the start of the window; negative in the warm-up.
    pub t_ns: i64,
    /// Sent requests per second over the last second.
    pub rate_rps: f64,
    /// Median latency of the window so far (of the warm-up so far, in the warm-up); absent without a
    /// response.
    pub p50_ns: Option<u64>,
    /// 99th percentile of latency over the same time; absent without a response.
    pub p99_ns: Option<u64>,
    /// Errors and timeouts so far.
    pub errors: u64,
    /// Median lateness so far; absent if nothing was sent.
    pub lateness_p50_ns: Option<u64>,
    /// Slots due per second over the last second.
    #[serde(default)]
    pub planned_rps: f64,
    /// Median lateness over the last second. It shows at once whether a generator keeps up.
    #[serde(default)]
    pub lateness_now_ns: u64,
}

/// Additions to the results of one second of the window. The records of the same `second` add up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Index of the second by *intended* time, from 0.
    pub second: u32,
    /// Slots by outcome, by intended time. `planned` is set by the second's first record; in a
    /// closed loop, later records add the users whose connection did not open.
    pub counts: Counts,
    /// Requests whose bytes left in this second (by sent time).
    pub sent: u64,
    /// done - intended, over ok responses.
    pub latency: HistogramWire,
    /// done - sent, over ok responses.
    pub service_time: HistogramWire,
    /// See `LoadResult::lateness_ns`.
    pub lateness: HistogramWire,
    /// See `LoadResult::wait_ns`.
    pub wait: HistogramWire,
    /// done - intended of errors and timeouts; absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_latency: Option<HistogramWire>,
    /// See `LoadResult::stream_wait_ns`; absent without a value, and in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_wait: Option<HistogramWire>,
    /// See `LoadResult::message_latency_ns`; absent without a value, and in records of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_latency: Option<HistogramWire>,
    /// Errors and timeouts by class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, u64>,
    /// Additions by endpoint name; endpoints without any are left out.
    pub endpoints: Vec<IntervalEndpoint>,
}

/// One endpoint's part of an [`Interval`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalEndpoint {
    /// `Endpoint::name`.
    pub name: String,
    /// Slots of this endpoint by outcome.
    pub counts: Counts,
    /// done - intended, over ok responses.
    pub latency: HistogramWire,
    /// done - intended of errors and timeouts by class; absent without any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub error_latency: BTreeMap<String, HistogramWire>,
}

/// What a workload server writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WorkloadRecord {
    /// The first record.
    Hello(Hello),
    /// The server listens, and is connected to the services that it calls.
    Ready {
        /// Address that it listens on.
        listen: String,
    },
    /// An event that may explain the results.
    Event {
        /// A sentence.
        message: String,
    },
    /// The last record, after SIGTERM or SIGINT.
    Final {
        /// [`StreamChecksum`] over all lines before this one.
        checksum: String,
        /// Requests answered without an error, by endpoint name.
        served: BTreeMap<String, u64>,
        /// Requests answered with an error, by endpoint name; not counted in `served`.
        failed: BTreeMap<String, u64>,
    },
}

/// What an agent writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentRecord {
    /// The first record.
    Hello(Hello),
    /// At the start and the end of the window, and each second in between.
    Sample(ResourceSample),
    /// A watched process has ended.
    Gone {
        /// Index into `AgentSpec::processes`.
        process: u32,
        /// Since the start of the window.
        t_ns: i64,
    },
    /// Before the last record: the hardware counters of a process could not be read, although the
    /// machine has them.
    NotCounted {
        /// Index into `AgentSpec::processes`.
        process: u32,
        /// What was found.
        found: String,
    },
    /// Before the last record: CPU time of the processes below one that keeps them may be missing in the samples.
    CpuMissing {
        /// Index into `AgentSpec::processes`.
        process: u32,
        /// What was found.
        found: String,
    },
    /// Before the last record, for each process whose stacks were sampled.
    Stacks(ProcessStacks),
    /// After them: the sampling of stacks as a whole.
    StackSampling(StackSampling),
    /// Before the last record, if no agent read control groups and the samples come from the
    /// kubelets' summaries.
    Kubelet {
        /// Age of the oldest value when it was read, in nanoseconds.
        age_ns_max: u64,
    },
    /// The last record.
    Final {
        /// [`StreamChecksum`] over all lines before this one.
        checksum: String,
        /// CPU that the agent itself used between its first and last sample, in nanoseconds.
        own_cpu_ns: u64,
        /// Time between the first and the last sample, in nanoseconds.
        elapsed_ns: u64,
    },
}

/// One reading of all watched processes and of the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSample {
    /// Since the start of the window, read before the first process.
    pub t_ns: i64,
    /// In the order of `AgentSpec::processes`; `None` for one that is gone.
    pub processes: Vec<Option<ProcessSample>>,
    /// The whole machine.
    pub machine: MachineSample,
    /// On a cluster, the machines that run services of the application; otherwise absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_nodes: Option<NodesSample>,
    /// Time for which CPU quotas have stopped the trial's control group so far, in nanoseconds,
    /// summed over cores; absent if control groups do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
}

/// One process at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSample {
    /// When this process was read, since the start of the window.
    pub t_ns: i64,
    /// CPU time used since it started, user and system, over all threads including those that have
    /// ended.
    pub cpu_ns: u64,
    /// Time for which its threads were runnable and waited for a core, in nanoseconds summed over
    /// threads. Of a thread that has ended, it includes the time until its last reading. Absent where
    /// the kernel does not report it, and in samples that did not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_queue_delay_ns: Option<u64>,
    /// Hardware counters since the agent opened them, in the first and the last sample; absent where
    /// they cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<HardwareCounts>,
    /// Time for which CPU quotas, of the container or of its pod, have stopped it so far, in nanoseconds summed
    /// over cores; for containers only. Absent if their control groups do not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Resident set size in bytes; absent if it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Proportional set size in bytes, in some samples: read in the seconds before
    /// this one (with the last sample: just after it), because it is costly to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Memory charged to the container's control group, in bytes, without inactive file pages,
    /// which the kernel can drop at once; for containers only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set_bytes: Option<u64>,
}

/// What the hardware counters of the processor counted for a process, over all its threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HardwareCounts {
    /// Instructions that were executed to their end.
    pub instructions: u64,
    /// Cycles of cores while the process ran. A cycle is as long as the core's frequency makes it.
    pub cycles: u64,
    /// Whether only user space was counted, because the kernel does not permit more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub user_only: bool,
}

impl HardwareCounts {
    /// The sum over processes; `None` without one, if the counts of one are unknown, or if not all
    /// are of the same kind.
    #[must_use]
    pub fn sum(counts: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        let add = |a: Self, b: Self| {
            (a.user_only == b.user_only).then_some(Self {
                instructions: a.instructions + b.instructions,
                cycles: a.cycles + b.cycles,
                user_only: a.user_only,
            })
        };
        let mut counts = counts.into_iter();
        let first = counts.next()??;
        counts.try_fold(first, |sum, one| add(sum, one?))
    }
}

/// The machine at one instant; CPU times since boot, over all cores.
///
/// Busy time is not included: the kernel samples it at each tick, which is wrong by 0.1 cores on a
/// quiet machine. Idle time is exact, so busy time is computed as the time that is neither idle
/// nor stolen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineSample {
    /// Cores of the machine, all of them.
    pub cpus: u32,
    /// Idle or waiting for I/O.
    pub idle_ns: u64,
    /// Taken by the hypervisor.
    pub stolen_ns: u64,
    /// Interrupts, hard and soft, where the kernel accounts them apart from processes; otherwise
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_ns: Option<u64>,
    /// Time for which some process of the machine waited for a core (PSI), in nanoseconds; the mean
    /// over several machines. Absent where the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_ns: Option<u64>,
    /// Available memory, in bytes.
    pub memory_available_bytes: u64,
}

/// Some machines of a cluster at one instant; CPU times since boot, over all their cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct NodesSample {
    /// Cores of these machines, all of them.
    pub cpus: u32,
    /// Idle or waiting for I/O.
    pub idle_ns: u64,
    /// Taken by the hypervisor.
    pub stolen_ns: u64,
}

impl From<&MachineSample> for NodesSample {
    fn from(machine: &MachineSample) -> Self {
        Self {
            cpus: machine.cpus,
            idle_ns: machine.idle_ns,
            stolen_ns: machine.stolen_ns,
        }
    }
}

impl NodesSample {
    /// Adds one more machine.
    pub fn add(&mut self, machine: &MachineSample) {
        self.cpus += machine.cpus;
        self.idle_ns += machine.idle_ns;
        self.stolen_ns += machine.stolen_ns;
    }
}

/// FNV-1a, 64 bits, over the lines of a stream, each with its newline. Detects truncated and
/// damaged streams, but not deliberate changes.
///
/// Source: Fowler, Noll, Vo; draft-eastlake-fnv.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamChecksum(u64);

impl Default for StreamChecksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl StreamChecksum {
    /// Adds one line, without its newline.
    pub fn line(&mut self, line: &str) {
        for byte in line.bytes().chain(std::iter::once(b'\n')) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// 16 hexadecimal digits.
    #[must_use]
    pub fn hex(self) -> String {
        format!("{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_with_an_unknown_count_is_unknown() {
        let counts = |instructions, cycles, user_only| {
            Some(HardwareCounts {
                instructions,
                cycles,
                user_only,
            })
        };
        let (a, b) = (counts(7, 5, false), counts(1, 2, false));
        assert_eq!(HardwareCounts::sum([a, b]), counts(8, 7, false));
        assert_eq!(HardwareCounts::sum([a, None, b]), None);
        assert_eq!(HardwareCounts::sum([None, a]), None);
        assert_eq!(HardwareCounts::sum([a, counts(1, 2, true)]), None, "kinds");
        assert_eq!(HardwareCounts::sum([]), None);
    }

    #[test]
    fn the_checksum_detects_missing_and_swapped_lines() {
        let sum = |lines: &[&str]| {
            let mut c = StreamChecksum::default();
            lines.iter().for_each(|l| c.line(l));
            c.hex()
        };
        assert_eq!(sum(&[]), "cbf29ce484222325");
        assert_ne!(sum(&["a", "b"]), sum(&["a"]));
        assert_ne!(sum(&["a", "b"]), sum(&["b", "a"]));
        assert_ne!(sum(&["ab"]), sum(&["a", "b"]));
    }
}
