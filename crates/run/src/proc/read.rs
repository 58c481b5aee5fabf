//! Reads processes and the machine from the kernel.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use tare_records::record::MachineSample;

use super::run_queue::RunQueue;
use super::{cgroup, parse};

/// A watched process, identified by its id and start time, because the kernel reuses ids.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    start_ticks: Option<u64>,
    clock: Option<ClockId>,
    run_queue: RunQueue,
}

/// CPU and resident memory of a process at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time since its start, of all threads, including ended ones, in nanoseconds.
    pub cpu_ns: u64,
    /// Run-queue delay of its threads in nanoseconds, if it was read.
    pub run_queue_delay_ns: Option<u64>,
    /// Resident set size in bytes; `None` if it cannot be read.
    pub rss_bytes: Option<u64>,
    /// Time for which CPU quotas have stopped it, in nanoseconds summed over cores, if it was read.
    pub throttled_ns: Option<u64>,
}

/// CPU time of a process and of the children that it has waited for, in nanoseconds, and its resident memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub start_ticks: u64,
    pub cpu_ns: u64,
    pub waited_ns: u64,
    pub rss_bytes: u64,
    /// Whether it has ended, and nobody has waited for it.
    pub is_zombie: bool,
}

impl Process {
    /// Starts to watch a process. A process that does not exist counts as ended.
    pub fn new(pid: u32) -> Self {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        Self {
            pid,
            start_ticks: stat.as_deref().and_then(parse::stat_start_ticks),
            clock: i32::try_from(pid)
                .ok()
                .and_then(|pid| clock_getcpuclockid(Pid::from_raw(pid)).ok()),
            run_queue: RunQueue::default(),
        }
    }

    /// Returns CPU, run-queue delay and memory; `None` when the process has ended, even if it was not
    /// waited for yet.
    ///
    /// CPU comes from the clock of the process, in nanoseconds. If that clock cannot be read, it
    /// comes from `/proc/PID/stat`, in ticks of 10 ms.
    pub fn usage(&mut self) -> Option<Usage> {
        let counts = self.counts().filter(|c| !c.is_zombie)?;
        let pid = self.pid.to_string();
        Some(Usage {
            cpu_ns: counts.cpu_ns,
            run_queue_delay_ns: self.run_queue.read([pid.as_str()].into_iter()),
            rss_bytes: Some(counts.rss_bytes),
            throttled_ns: None,
        })
    }

    /// CPU and memory also of a process that has ended and was not waited for; `None` afterwards.
    pub(super) fn counts(&self) -> Option<Counts> {
        let stat = self.stat_of_any()?;
        let is_zombie = is_zombie(&stat);
        let ticks = || Some(parse::stat_cpu_ticks(&stat)? * tick_ns());
        let cpu_ns = match self.clock {
            Some(clock) => match clock_gettime(clock) {
                Ok(time) => u64::try_from(time.num_nanoseconds()).ok()?,
                Err(_) if is_zombie => ticks()?,
                Err(_) => return None,
            },
            None => ticks()?,
        };
        let pages = parse::stat_resident_pages(&stat)?;
        Some(Counts {
            start_ticks: self.start_ticks?,
            cpu_ns,
            waited_ns: parse::stat_children_cpu_ticks(&stat)? * tick_ns(),
            rss_bytes: if is_zombie { 0 } else { pages * page_bytes() },
            is_zombie,
        })
    }

    /// Whether the process still runs.
    pub fn is_same(&self) -> bool {
        self.stat().is_some()
    }

    /// Returns its `/proc/PID/stat`; `None` when it has ended or another process has its id.
    fn stat(&self) -> Option<String> {
        self.stat_of_any().filter(|stat| !is_zombie(stat))
    }

    /// The same, also when it has ended and was not waited for.
    fn stat_of_any(&self) -> Option<String> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let same = self.start_ticks.is_some() && parse::stat_start_ticks(&stat) == self.start_ticks;
        same.then_some(stat)
    }

    /// CPU from `/proc/PID/stat`, in nanoseconds, with the resolution of a tick.
    #[cfg(test)]
    pub fn stat_cpu_ns(&self) -> Option<u64> {
        Some(parse::stat_cpu_ticks(&self.stat()?)? * tick_ns())
    }

    /// Proportional set size in bytes; `None` without permission. The kernel walks all pages of the
    /// process for this, which takes some hundred microseconds for a proxy.
    pub fn pss_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid)).ok()?;
        parse::kib_line_bytes(&text, "Pss")
    }
}

fn is_zombie(stat: &str) -> bool {
    matches!(parse::stat_state(stat), Some('Z' | 'X'))
}

/// Reads the machine; `None` if `/proc` is not as expected.
pub fn machine() -> Option<MachineSample> {
    let ticks = parse::machine_ticks(&fs::read_to_string("/proc/stat").ok()?)?;
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let pressure = fs::read_to_string("/proc/pressure/cpu").ok();
    Some(MachineSample {
        cpus: ticks.cpus,
        idle_ns: ticks.idle * tick_ns(),
        stolen_ns: ticks.stolen * tick_ns(),
        interrupt_ns: ticks.interrupts.map(|ticks| ticks * tick_ns()),
        pressure_ns: pressure.as_deref().and_then(parse::pressure_ns),
        memory_available_bytes: parse::kib_line_bytes(&meminfo, "MemAvailable")?,
    })
}

/// Number of cores that this process may use.
pub fn cores_allowed() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// CPU time of this process.
pub fn own_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

/// Throttling of a control group by its own CPU quota and by those of its ancestors.
#[derive(Debug)]
pub struct Throttling {
    files: Vec<PathBuf>,
}

impl Throttling {
    /// Throttling of the group of this process.
    pub fn own() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let dirs = cgroup::cpu_dirs(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
        Self::of(dirs)
    }

    /// Throttling by the quotas of these groups.
    pub(super) fn of(dirs: Vec<PathBuf>) -> Self {
        let files = dirs.into_iter().map(|dir| dir.join("cpu.stat")).collect();
        Self { files }
    }

    /// Throttled time so far, in nanoseconds, summed over cores and groups; `None` if no group has
    /// the counter (no CPU controller, or only the root group).
    pub fn ns(&self) -> Option<u64> {
        self.each().reduce(u64::saturating_add)
    }

    /// The same of the group with the most. A pod with one container has the quota of the container, so that both
    /// groups count the same time.
    pub(super) fn most_ns(&self) -> Option<u64> {
        self.each().max()
    }

    fn each(&self) -> impl Iterator<Item = u64> {
        let files = self.files.iter();
        files.filter_map(|file| cgroup::throttled_ns(&fs::read_to_string(file).ok()?))
    }
}

pub(super) fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Uses CPU until this process has used this much more CPU time.
    fn burn(cpu: Duration) {
        let start = own_cpu();
        while own_cpu() - start < cpu {
            std::hint::black_box((0..1000_u64).sum::<u64>());
        }
    }

    #[test]
    fn cpu_time_includes_threads_that_have_ended() {
        let mut me = Process::new(std::process::id());
        let before = me.usage().unwrap();
        let work = Duration::from_millis(60);
        std::thread::spawn(move || burn(work)).join().unwrap();
        let after = me.usage().unwrap();
        assert!(after.cpu_ns - before.cpu_ns >= 60_000_000);
        assert!(after.rss_bytes > Some(100_000));
        assert!(me.is_same());
    }

    #[test]
    fn clock_and_ticks_agree() {
        let mut me = Process::new(std::process::id());
        burn(Duration::from_millis(50));
        let ticks = me.stat_cpu_ns().unwrap();
        let exact = me.usage().unwrap().cpu_ns;
        // Two ticks of rounding, and the CPU time between the two readings.
        assert!(exact + 20_000_000 >= ticks, "{exact} against {ticks}");
    }

    #[test]
    fn a_process_counts_as_ended_before_it_is_waited_for() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let mut process = Process::new(child.id());
        let mut tries = 0;
        while process.usage().is_some() && tries < 2000 {
            std::thread::sleep(Duration::from_millis(5));
            tries += 1;
        }
        assert_eq!(process.usage(), None);
        assert!(!process.is_same());
        child.wait().unwrap();
        assert_eq!(process.usage(), None);
    }

    #[test]
    fn a_reused_process_id_is_recognised() {
        let mut process = Process::new(std::process::id());
        assert!(process.usage().is_some() && process.is_same());
        // As if this process had received the id after the watched one ended.
        process.start_ticks = process.start_ticks.map(|ticks| ticks - 1);
        assert_eq!(process.usage(), None);
        assert!(!process.is_same());
        assert_eq!(process.stat_cpu_ns(), None);
    }

    #[test]
    fn throttling_by_the_quota_of_any_ancestor_counts() {
        let root = tempfile::tempdir().unwrap();
        let (slice, scope) = (root.path().join("a"), root.path().join("a/b"));
        fs::create_dir_all(&scope).unwrap();
        let stat = |dir: &Path, us: u64| {
            let text = format!("usage_usec 5\nnr_throttled 1\nthrottled_usec {us}\n");
            fs::write(dir.join("cpu.stat"), text).unwrap();
        };
        let throttling = Throttling::of(vec![scope.clone(), slice.clone()]);
        assert_eq!(throttling.ns(), None, "the file does not exist");
        fs::write(scope.join("cpu.stat"), "usage_usec 5\n").unwrap();
        assert_eq!(throttling.ns(), None, "the file lacks the line");
        stat(&slice, 7);
        assert_eq!(throttling.ns(), Some(7_000));
        stat(&scope, 5);
        assert_eq!(throttling.ns(), Some(12_000));
    }

    #[test]
    fn the_machine_can_be_read() {
        let m = machine().unwrap();
        assert!(m.idle_ns > 0 && m.cpus > 0 && m.memory_available_bytes > 0);
        assert!(cores_allowed() >= 1);
        assert!(
            Process::new(std::process::id())
                .pss_bytes()
                .is_none_or(|b| b > 0)
        );
    }
}
