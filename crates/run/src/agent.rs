//! The sampler, which is the worker behind `tare agent`. It reads CPU, run-queue delay and memory of the
//! watched processes, and the state of the machine, at the edges of the measured window and at each
//! second between; hardware counters only at the edges. It disturbs the measurement as little as
//! possible.

use std::io::Write;
use std::time::{Duration, Instant};

use tare_files::unix_ns;
use tare_plan::SCHEMA_VERSION;
use tare_records::record::{AgentRecord, ProcessSample, ResourceSample};
use tare_records::stacks::StackSampling;
use tare_records::worker::{AgentSpec, WatchedProcess};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::agent_records::AgentRecords;
use crate::proc::container::{Container, Groups};
use crate::proc::counters::{Counted, HardwareCounters};
use crate::proc::read::{self, Process, Throttling};
use crate::proc::stacks::StackSampler;
use crate::proc::tree::Tree;

/// Maximum share of one core, on average, for reading proportional set sizes (PSS).
const PSS_SHARE_MAX: f64 = 0.005;
/// Maximum share of one core during a round of these reads. Pauses between the reads keep to it.
const PSS_SHARE_MAX_MOMENTARY: f64 = 0.1;
/// Interval between two rounds of these reads, if their cost allows it.
const PSS_EVERY: Duration = Duration::from_secs(10);
/// The first round begins at most this long before the window.
const PSS_LEAD: Duration = Duration::from_secs(5);
/// No other read begins within this time before a sample.
const PSS_MARGIN_NS: i64 = 20_000_000;
/// The runtime's timer has a resolution of 1 ms, so the last part of a wait, of this length, is a
/// sleep of the thread, which is exact.
const TIMER_GRAIN: Duration = Duration::from_millis(2);
const SECOND_NS: i64 = 1_000_000_000;

/// Why an agent failed.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The specification has the schema version of another version of tare.
    #[error("agent specification has schema version {found}, expected {SCHEMA_VERSION}")]
    SchemaVersion {
        /// Its schema version.
        found: u32,
    },
    /// `/proc` is not readable as expected.
    #[error("failed to read /proc/stat or /proc/meminfo: is /proc mounted?")]
    Machine,
    /// A write failed.
    #[error("failed to write records: {0}")]
    Io(#[from] std::io::Error),
}

/// Takes the samples that the specification describes, and writes records to `out`. After SIGTERM
/// it takes one more sample and writes the final record.
///
/// # Errors
/// When the specification is from another version, `/proc` cannot be read, or `out` fails.
pub async fn run(spec: &AgentSpec, out: &mut impl Write) -> Result<(), AgentError> {
    if spec.schema_version != SCHEMA_VERSION {
        return Err(AgentError::SchemaVersion {
            found: spec.schema_version,
        });
    }
    let mut records = AgentRecords::new(out);
    records.hello("agent", std::process::id())?;
    Sampler::new(spec)?.run(spec, records).await
}

/// Writes the sampled stacks, or why there are none.
fn stacks<W: Write>(
    period_ns: u64,
    sampler: Result<StackSampler, String>,
    records: &mut AgentRecords<W>,
) -> std::io::Result<()> {
    let totals = match sampler.and_then(StackSampler::finish) {
        Ok((processes, totals)) => {
            for process in processes {
                records.write(&AgentRecord::Stacks(process))?;
            }
            totals
        }
        Err(found) => StackSampling {
            period_ns,
            limits: vec![found],
            ..StackSampling::default()
        },
    };
    records.write(&AgentRecord::StackSampling(totals))
}

struct Sampler {
    window: Duration,
    /// The start of the window on the monotonic clock.
    start: WindowStart,
    /// The containers of the machine, if some are watched.
    groups: Option<Groups>,
    /// `None` for a process that has ended.
    processes: Vec<Option<Sampled>>,
    /// Throttling of the control group of this process. All processes of the trial inherit the
    /// group.
    throttling: Throttling,
    counters: HardwareCounters,
    round: PssRound,
    terminate: Signal,
    terminated: bool,
}

/// A sampled process, the processes below one, or a container by its control group.
enum Sampled {
    Process(Process),
    Tree(Tree),
    Container(Container),
}

impl Sampled {
    /// Returns `None` when the group of a container was not found.
    fn new(watched: &WatchedProcess, groups: Option<&Groups>) -> Option<Self> {
        match &watched.container {
            Some(id) => Some(Self::Container(groups?.container(id)?)),
            None if watched.only_below => Some(Self::Tree(Tree::new(watched.pid))),
            None => Some(Self::Process(Process::new(watched.pid))),
        }
    }

    fn sample(&mut self, place: usize, last: bool, t_ns: i64) -> Option<ProcessSample> {
        let (usage, working_set_bytes) = match self {
            Self::Process(process) => (process.usage()?, None),
            Self::Tree(tree) => (tree.usage()?, None),
            Self::Container(container) => container.usage(place, last)?,
        };
        Some(ProcessSample {
            t_ns,
            cpu_ns: usage.cpu_ns,
            run_queue_delay_ns: usage.run_queue_delay_ns,
            counters: None,
            throttled_ns: usage.throttled_ns,
            rss_bytes: usage.rss_bytes,
            pss_bytes: None,
            working_set_bytes,
        })
    }

    fn pss_bytes(&self) -> Option<u64> {
        match self {
            Self::Process(process) if process.is_same() => process.pss_bytes(),
            Self::Tree(tree) if tree.is_same() => tree.pss_bytes(),
            _ => None,
        }
    }
}

/// A round of proportional set sizes: every process once, spread over time. A sample
/// contains the values of a round only after the round is complete.
#[derive(Default)]
struct PssRound {
    values: Vec<Option<u64>>,
    /// Index of the next process to read. After the last process, the round is complete.
    next: usize,
    cost: Duration,
    /// When the next round is due.
    due_ns: i64,
}

/// An instant on the monotonic clock, and its offset from the start of the window.
struct WindowStart {
    at: Instant,
    offset_ns: i64,
}

impl WindowStart {
    fn new(start_unix_ns: u64) -> Self {
        let now_unix_ns = unix_ns() as i64;
        Self {
            at: Instant::now(),
            offset_ns: now_unix_ns.saturating_sub_unsigned(start_unix_ns),
        }
    }

    fn t_ns(&self) -> i64 {
        self.offset_ns + self.at.elapsed().as_nanos() as i64
    }

    fn instant(&self, t_ns: i64) -> Instant {
        let from_now = u64::try_from(t_ns - self.offset_ns).unwrap_or(0);
        self.at + Duration::from_nanos(from_now)
    }
}

impl Sampler {
    fn new(spec: &AgentSpec) -> Result<Self, AgentError> {
        let containers = spec.processes.iter().any(|w| w.container.is_some());
        let groups = containers.then(Groups::find);
        Ok(Self {
            window: Duration::from_nanos(spec.window_ns),
            start: WindowStart::new(spec.window_start_unix_ns),
            processes: spec
                .processes
                .iter()
                .map(|w| Sampled::new(w, groups.as_ref()))
                .collect(),
            groups,
            throttling: Throttling::own(),
            counters: HardwareCounters::open(spec.processes.iter().map(|w| match w.container {
                Some(_) => None,
                None if w.only_below => Some(Counted::Below(w.pid)),
                None => Some(Counted::Process(w.pid)),
            })),
            round: PssRound {
                values: vec![None; spec.processes.len()],
                due_ns: i64::MIN,
                ..PssRound::default()
            },
            terminate: signal(SignalKind::terminate())?,
            terminated: false,
        })
    }

    async fn run<W: Write>(
        mut self,
        spec: &AgentSpec,
        mut records: AgentRecords<W>,
    ) -> Result<(), AgentError> {
        let lead_ns = -(PSS_LEAD.as_nanos() as i64);
        self.sleep_until(lead_ns).await;
        self.read_pss_until(-PSS_MARGIN_NS).await;

        let (mut first_t, mut first_cpu) = (None, Duration::ZERO);
        let mut sampler = None;
        let (mut last_t, mut last_cpu) = (0, Duration::ZERO);
        let end_ns = self.window.as_nanos() as i64;
        let slices = spec.slices.as_ref();
        for due_ns in spec.sample_instants_ns() {
            if due_ns < self.start.t_ns() - 500_000_000 && due_ns != end_ns {
                continue; // The agent started late: the next instant is nearer.
            }
            self.sleep_until(due_ns).await;
            let cpu = read::own_cpu();
            let last = due_ns == end_ns || self.terminated;
            let at_edge = first_t.is_none() || last || slices.is_some();
            let mut sample = self.sample(first_t.is_none(), last, at_edge)?;
            if let Some(period_ns) = spec.stack_period_ns.filter(|_| first_t.is_none()) {
                let groups = self.groups.as_ref();
                let started = StackSampler::start(&spec.processes, groups, period_ns);
                sampler = Some((period_ns, started.map_err(|e| e.to_string())));
            }
            first_t.get_or_insert_with(|| {
                first_cpu = cpu;
                sample.t_ns
            });
            (last_t, last_cpu) = (sample.t_ns, cpu);
            if last {
                self.read_pss_at_once();
            }
            self.attach_pss(&mut sample);
            records.sample(sample)?;
            if last {
                break;
            }
            // In slices, the read would disturb the trial that is loaded.
            if slices.is_none() {
                let next_ns = end_ns.min(due_ns + SECOND_NS);
                self.read_pss_until(next_ns - PSS_MARGIN_NS).await;
            }
        }
        if let Some((period_ns, sampler)) = sampler {
            stacks(period_ns, sampler, &mut records)?;
        }
        let own_cpu_ns = last_cpu.saturating_sub(first_cpu).as_nanos() as u64;
        let elapsed_ns = u64::try_from(last_t - first_t.unwrap_or(last_t)).unwrap_or(0);
        for (process, target) in (0..).zip(&self.processes) {
            if let Some(Sampled::Tree(tree)) = target
                && let Some(found) = tree.missing()
            {
                records.write(&AgentRecord::CpuMissing { process, found })?;
            }
        }
        for (process, found) in self.counters.missing {
            records.write(&AgentRecord::NotCounted { process, found })?;
        }
        records.last(own_cpu_ns, elapsed_ns)?;
        Ok(())
    }

    async fn sleep_until(&mut self, t_ns: i64) {
        if self.terminated {
            return;
        }
        let at = self.start.instant(t_ns);
        let coarse = at.checked_sub(TIMER_GRAIN).unwrap_or(at);
        tokio::select! {
            () = tokio::time::sleep_until(coarse.into()) => {}
            _ = self.terminate.recv() => { self.terminated = true; return; }
        }
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
    }

    /// Reads CPU, run-queue delay and resident memory of all processes, as close together as possible. At
    /// the edges of the window and of slices it also reads hardware counters, which interrupts the processes' cores.
    fn sample(
        &mut self,
        first: bool,
        last: bool,
        at_edge: bool,
    ) -> Result<ResourceSample, AgentError> {
        let t_ns = self.start.t_ns();
        let machine = read::machine().ok_or(AgentError::Machine)?;
        let mut processes = Vec::with_capacity(self.processes.len());
        for (i, target) in self.processes.iter_mut().enumerate() {
            let t_ns = self.start.t_ns();
            let mut sample = target.as_mut().and_then(|t| t.sample(i, last, t_ns));
            if sample.is_none() {
                *target = None;
            }
            if let Some(Sampled::Tree(tree)) = target.as_mut().filter(|_| first) {
                tree.begin();
            }
            if let Some(sample) = sample.as_mut().filter(|_| at_edge) {
                sample.counters = self.counters.read(i);
            }
            processes.push(sample);
        }
        Ok(ResourceSample {
            application_nodes: None,
            t_ns,
            processes,
            machine,
            throttled_ns: self.throttling.ns(),
        })
    }

    fn attach_pss(&mut self, sample: &mut ResourceSample) {
        if self.round.next < self.processes.len() {
            return;
        }
        for (process, pss) in sample.processes.iter_mut().zip(&mut self.round.values) {
            if let Some(process) = process {
                process.pss_bytes = pss.take();
            }
        }
    }

    /// Continues a round that is due, with a pause after each process, until the round is complete
    /// or `until_ns` is reached.
    async fn read_pss_until(&mut self, until_ns: i64) {
        if self.round.next >= self.processes.len() {
            if self.start.t_ns() < self.round.due_ns {
                return;
            }
            self.round.next = 0;
            self.round.cost = Duration::ZERO;
        }
        while self.round.next < self.processes.len() && self.start.t_ns() < until_ns {
            let before = read::own_cpu();
            self.read_pss(self.round.next);
            let cost = read::own_cpu().saturating_sub(before);
            self.round.next += 1;
            self.round.cost += cost;
            let pause = cost.mul_f64(1.0 / PSS_SHARE_MAX_MOMENTARY - 1.0);
            let at = (Instant::now() + pause).min(self.start.instant(until_ns));
            tokio::select! {
                () = tokio::time::sleep_until(at.into()) => {}
                _ = self.terminate.recv() => { self.terminated = true; return; }
            }
        }
        let every = PSS_EVERY.max(self.round.cost.mul_f64(1.0 / PSS_SHARE_MAX));
        self.round.due_ns = self.start.t_ns() + every.as_nanos() as i64;
    }

    /// Reads a complete round without pauses, after the window.
    fn read_pss_at_once(&mut self) {
        for i in 0..self.processes.len() {
            self.read_pss(i);
        }
        self.round.next = self.processes.len();
    }

    fn read_pss(&mut self, i: usize) {
        self.round.values[i] = self.processes[i].as_ref().and_then(Sampled::pss_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::record::StreamChecksum;
    use tare_records::worker::{Plane, WatchedProcess};

    fn records(bytes: &[u8]) -> Vec<AgentRecord> {
        let text = std::str::from_utf8(bytes).unwrap();
        let mut checksum = StreamChecksum::default();
        let lines: Vec<&str> = text.lines().collect();
        let (last, before) = lines.split_last().unwrap();
        before.iter().for_each(|l| checksum.line(l));
        let AgentRecord::Final { checksum: sum, .. } = serde_json::from_str(last).unwrap() else {
            panic!("the last record is {last}");
        };
        assert_eq!(sum, checksum.hex());
        lines
            .iter()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect()
    }

    /// Ends a process when the first sample is written.
    struct EndsAfterFirstSample {
        child: std::process::Child,
        out: Vec<u8>,
    }

    impl Write for EndsAfterFirstSample {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.out.extend_from_slice(bytes);
            if String::from_utf8_lossy(&self.out).contains("\"sample\"") {
                // This also closes its standard input, at whose end it ends.
                self.child.wait()?;
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_process_that_ends_in_the_window_is_recorded_as_gone() {
        let deadline = Instant::now() + Duration::from_secs(60);
        // A slow machine may leave out a sample, or begin too late to read the memory before the first.
        while !ends_in_the_window().await {
            assert!(Instant::now() < deadline, "samples are missing");
        }
    }

    /// Returns whether all samples were taken in time. What was taken is right in any case.
    async fn ends_in_the_window() -> bool {
        let child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let now = unix_ns();
        let watched = |name: &str, pid| WatchedProcess {
            name: name.to_owned(),
            plane: Plane::Application,
            pid,
            container: None,
            only_below: false,
        };
        let spec = AgentSpec {
            schema_version: SCHEMA_VERSION,
            processes: vec![
                watched("me", std::process::id()),
                watched("child", child.id()),
                watched("nobody", u32::MAX),
            ],
            window_start_unix_ns: now + 200_000_000,
            window_ns: 1_200_000_000,
            stack_period_ns: None,
            slices: None,
        };
        let out = Vec::new();
        let mut writer = EndsAfterFirstSample { child, out };
        run(&spec, &mut writer).await.unwrap();

        let records = records(&writer.out);
        let samples: Vec<&ResourceSample> = records
            .iter()
            .filter_map(|r| match r {
                AgentRecord::Sample(s) => Some(s),
                _ => None,
            })
            .collect();
        assert!(samples.len() <= 3, "at 0, 1 and 1.2 s");
        let (first, last) = (samples[0], samples[samples.len() - 1]);
        // A sample is never taken early. How late it is taken depends on the machine.
        assert!(first.t_ns >= 0 && last.t_ns >= 1_200_000_000);
        assert!(last.processes[0].unwrap().pss_bytes.is_some());
        assert!(first.processes[1].is_some(), "it runs at the start");
        if samples.len() < 3 || first.processes[0].unwrap().pss_bytes.is_none() {
            return false;
        }
        assert!(last.processes[1].is_none(), "it has ended at the end");
        let gone: Vec<u32> = records
            .iter()
            .filter_map(|r| match r {
                AgentRecord::Gone { process, .. } => Some(*process),
                _ => None,
            })
            .collect();
        assert_eq!(gone, [2, 1]);
        true
    }
}
