//! Hardware counters of processes by perf_event_open(2): instructions and cycles.

use std::collections::BTreeSet;
use std::{fs, io};

use nix::errno::Errno;
use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use tare_records::record::HardwareCounts;

use super::tree;

/// What a request costs in hardware.
const EVENTS: [Hardware; 2] = [Hardware::INSTRUCTIONS, Hardware::CPU_CYCLES];

/// How often the counters of a process are opened until no thread starts or ends meanwhile.
const ATTEMPTS: usize = 5;

/// A counter that ran for a smaller share of the time of its thread was shared with other counters, or
/// the thread ran on a core of a kind that has no such counter. Its value would be an extrapolation.
const RUNNING_MIN: f64 = 0.999;

/// What the kernel lets this process count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    UserAndKernel,
    UserOnly,
}

impl Scope {
    /// Opens counters for this process itself.
    fn probe() -> io::Result<Self> {
        let open = |scope| {
            EVENTS.iter().try_for_each(|event| {
                let own = std::process::id().cast_signed();
                open(*event, own, scope, false).map(drop)
            })
        };
        match open(Self::UserAndKernel) {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                open(Self::UserOnly).map(|()| Self::UserOnly)
            }
            other => other.map(|()| Self::UserAndKernel),
        }
    }
}

/// What the hardware counters of this machine count, or why there are none.
pub(crate) fn availability() -> String {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    words(Scope::probe(), paranoid.trim())
}

fn words(probed: io::Result<Scope>, paranoid: &str) -> String {
    match probed {
        Ok(Scope::UserAndKernel) => "instructions and cycles in user space and kernel".to_owned(),
        Ok(Scope::UserOnly) => format!(
            "instructions and cycles in user space only, because kernel.perf_event_paranoid is \
             {paranoid}; 1 or less adds the kernel"
        ),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => format!(
            "none: {e}; kernel.perf_event_paranoid is {paranoid}, 1 or less permits them (containers \
             can forbid them as well)"
        ),
        Err(e) if e.raw_os_error() == Some(Errno::EINVAL as i32) => {
            format!("none: {e}; Linux 5.13 or later is required")
        }
        Err(e) => {
            let absent = [Errno::ENOENT, Errno::ENODEV, Errno::EOPNOTSUPP].map(|e| e as i32);
            match e.raw_os_error() {
                Some(code) if absent.contains(&code) => {
                    format!("none: {e}; usual in virtual machines")
                }
                _ => format!("none: {e}"),
            }
        }
    }
}

/// What has counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The threads of a process, as for CPU.
    Process(u32),
    /// All processes below one, also those that start later.
    Below(u32),
}

impl Counted {
    /// The ids of all threads.
    fn threads(self) -> io::Result<BTreeSet<i32>> {
        let below = match self {
            Self::Process(pid) => return threads(pid),
            Self::Below(pid) => tree::descendants(pid).into_iter(),
        };
        Ok(below.flat_map(threads).flatten().collect())
    }
}

/// Opens a counter that runs from now on: for a thread, and for those that it will start; with `processes` also for
/// the processes that it will start.
fn open(event: impl Event, thread: i32, scope: Scope, processes: bool) -> io::Result<Counter> {
    let mut builder = Builder::new(event);
    builder.observe_pid(thread).any_cpu().enabled(true);
    builder.inherit(true).inherit_thread(!processes);
    if scope == Scope::UserAndKernel {
        builder.include_kernel().include_hv();
    }
    builder.build()
}

/// Counters of `N` events of one process.
#[derive(Debug)]
struct Counters<const N: usize> {
    /// One of each event, for each thread that existed when they were opened.
    threads: Vec<Vec<Counter>>,
}

impl<const N: usize> Counters<N> {
    /// Opens the counters of all threads of what is counted. A thread that starts later is counted by the
    /// counters of the thread that started it. If a thread starts while counters are opened, it is unknown
    /// whether it is counted; then all are opened again.
    fn open<E: Event + Copy>(of: Counted, events: &[E; N], scope: Scope) -> Result<Self, String> {
        let processes = matches!(of, Counted::Below(_));
        let threads = || -> Result<_, String> {
            of.threads()
                .map_err(|e| format!("failed to list threads: {e}"))
        };
        let mut before = threads()?;
        for _ in 0..ATTEMPTS {
            let of_thread = |thread: &i32| -> io::Result<Vec<Counter>> {
                let each = events.iter().map(|e| open(*e, *thread, scope, processes));
                each.collect()
            };
            let opened: io::Result<_> = before.iter().map(of_thread).collect();
            let after = threads()?;
            match opened {
                Ok(threads) if before == after => return Ok(Self { threads }),
                Err(e) if before == after => return Err(format!("failed to open counters: {e}")),
                _ => before = after,
            }
        }
        Err(format!(
            "threads started or ended during each of {ATTEMPTS} attempts to open counters"
        ))
    }

    /// The counts since the counters were opened, including threads that have ended.
    fn read(&mut self) -> Result<[u64; N], String> {
        let mut sums = [0; N];
        for counters in &mut self.threads {
            for (sum, counter) in sums.iter_mut().zip(counters) {
                let read = counter.read_count_and_time();
                let read = read.map_err(|e| format!("failed to read a counter: {e}"))?;
                check_running(read.time_running, read.time_enabled)?;
                *sum += read.count;
            }
        }
        Ok(sums)
    }
}

fn check_running(running_ns: u64, enabled_ns: u64) -> Result<(), String> {
    let share = running_ns as f64 / enabled_ns as f64;
    if enabled_ns > 0 && share < RUNNING_MIN {
        return Err(format!(
            "a counter ran for {:.1} % of the time of its thread: others use counters, or the machine \
             has different kinds of cores",
            share * 100.0
        ));
    }
    Ok(())
}

/// The ids of all threads of a process.
fn threads(pid: u32) -> io::Result<BTreeSet<i32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))?;
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    Ok(ids.collect())
}

/// Hardware counters of the watched processes.
#[derive(Debug, Default)]
pub(crate) struct HardwareCounters {
    user_only: bool,
    /// By place; empty if this machine has no counters.
    processes: Vec<Option<Counters<2>>>,
    /// Places of processes whose counters cannot be read, and why.
    pub(crate) missing: Vec<(u32, String)>,
}

impl HardwareCounters {
    /// Opens the counters of these processes, if the machine has any. `None`: a container, whose
    /// counters are not read.
    pub(crate) fn open(all_of: impl Iterator<Item = Option<Counted>>) -> Self {
        let mut all = Self::default();
        let Ok(scope) = Scope::probe() else {
            return all;
        };
        all.user_only = scope == Scope::UserOnly;
        for (place, of) in (0..).zip(all_of) {
            let opened = of.map(|of| Counters::open(of, &EVENTS, scope));
            all.processes.push(opened.and_then(|opened| {
                opened
                    .map_err(|found| all.missing.push((place, found)))
                    .ok()
            }));
        }
        all
    }

    /// Reads the counters of a process; `None` if it has none, or if they are not exact.
    pub(crate) fn read(&mut self, place: usize) -> Option<HardwareCounts> {
        let process = self.processes.get_mut(place)?;
        match process.as_mut()?.read() {
            Ok([instructions, cycles]) => Some(HardwareCounts {
                instructions,
                cycles,
                user_only: self.user_only,
            }),
            Err(found) => {
                self.missing.push((place as u32, found));
                *process = None;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{ChildStdin, ChildStdout, Command, Stdio};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use nix::time::{ClockId, clock_gettime};
    use perf_event::events::Software;

    use super::*;
    use crate::proc::read::Process;

    const BURNER: &str = "proc::counters::tests::burner";

    /// Uses CPU time of this thread.
    fn burn(cpu: Duration) {
        let used = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
        let start = used();
        while used() - start < cpu {
            std::hint::black_box((0..1000_u64).sum::<u64>());
        }
    }

    /// In a process of its own: announces each step, and begins the next one after a line. One thread
    /// works at a time: one that started before the counters, one that starts and ends after them,
    /// and the one that starts it.
    #[test]
    #[ignore = "a child of other tests"]
    fn burner() {
        let (work, orders) = mpsc::channel();
        let (done, finished) = mpsc::channel();
        let early = thread::spawn(move || {
            for () in orders {
                burn(Duration::from_millis(60));
                done.send(()).unwrap();
            }
        });
        let next = |step: &str| {
            writeln!(io::stdout(), "\n{step}").unwrap();
            let mut line = String::new();
            assert!(io::stdin().read_line(&mut line).unwrap() > 0, "no parent");
        };
        next("ready");
        work.send(()).unwrap();
        finished.recv().unwrap();
        thread::spawn(|| burn(Duration::from_millis(60)))
            .join()
            .unwrap();
        burn(Duration::from_millis(30));
        next("burnt");
        drop(work);
        early.join().unwrap();
    }

    fn wait_for(step: &str, out: &mut BufReader<ChildStdout>) {
        let mut lines = out.lines();
        assert!(lines.any(|line| line.unwrap() == step), "no {step}");
    }

    /// Runs the burner. `before` is called with its process id, what it returns is called after the
    /// work. The burner waits meanwhile.
    fn with_burner<F: FnOnce()>(before: impl FnOnce(u32) -> F) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([BURNER, "--exact", "--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut input: ChildStdin = child.stdin.take().unwrap();
        wait_for("ready", &mut out);
        let after = before(child.id());
        writeln!(input).unwrap();
        wait_for("burnt", &mut out);
        after();
        writeln!(input).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// The software event needs no hardware, and is opened, inherited and read like hardware events.
    #[test]
    fn threads_before_and_after_the_counters_are_counted_once() {
        let clock = || Software::TASK_CLOCK;
        let own = std::process::id().cast_signed();
        let scopes = [Scope::UserAndKernel, Scope::UserOnly];
        let permitted = scopes
            .iter()
            .find(|s| open(clock(), own, **s, false).is_ok());
        let Some(scope) = permitted else {
            let error = open(clock(), own, Scope::UserOnly, false).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
            return;
        };
        with_burner(|pid| {
            let start = Instant::now();
            let mut process = Process::new(pid);
            let mut counters = Counters::open(Counted::Process(pid), &[clock()], *scope).unwrap();
            let mut readings = move || {
                let cpu_ns = process.usage().unwrap().cpu_ns;
                (cpu_ns, counters.read().unwrap()[0])
            };
            let before = readings();
            move || {
                let after = readings();
                let (cpu_ns, counted) = (after.0 - before.0, after.1 - before.1);
                assert!(cpu_ns >= 150_000_000, "{cpu_ns}");
                // The counter also runs while the hypervisor or an interrupt has the core, and stands
                // still during a switch, which is CPU time. Each of the three parts is at least a
                // fifth. Since one thread works at a time, it cannot exceed the elapsed time.
                let elapsed_ns = start.elapsed().as_nanos() as u64;
                assert!(counted >= cpu_ns / 100 * 90, "{counted} of {cpu_ns}");
                assert!(counted <= elapsed_ns, "{counted} in {elapsed_ns}");
            }
        });
    }

    /// Untried with hardware: where tests have run so far, the second branch did.
    #[test]
    fn hardware_counters_count_or_the_reason_is_known() {
        with_burner(|pid| {
            let mut counters =
                HardwareCounters::open([Some(Counted::Process(pid)), None].into_iter());
            let before = counters.read(0);
            move || match (before, counters.read(0)) {
                (Some(before), Some(after)) => {
                    assert!(after.instructions - before.instructions > 10_000_000);
                    assert!(after.cycles - before.cycles > 10_000_000);
                    assert_eq!(counters.read(1), None, "a container");
                }
                (_, after) => {
                    assert_eq!(after, None);
                    let none = availability().starts_with("none: ");
                    assert_ne!(none, !counters.missing.is_empty(), "{counters:?}");
                }
            }
        });
    }

    #[test]
    fn a_process_that_ended_has_no_counters() {
        let scope = Scope::UserOnly;
        let none = Counters::open(Counted::Process(u32::MAX), &[Software::TASK_CLOCK], scope);
        assert!(none.unwrap_err().starts_with("failed to list threads"));
    }

    #[test]
    fn a_counter_that_was_shared_gives_no_number() {
        assert_eq!(check_running(1_000, 1_000), Ok(()));
        assert_eq!(check_running(0, 0), Ok(()), "a thread that did not run");
        assert_eq!(check_running(999_500, 1_000_000), Ok(()));
        let found = check_running(500, 1_000).unwrap_err();
        assert!(
            found.starts_with("a counter ran for 50.0 % of the time"),
            "{found}"
        );
    }

    #[test]
    fn the_reason_without_counters_is_in_words() {
        let failed = |errno, paranoid| words(Err(io::Error::from_raw_os_error(errno)), paranoid);
        assert_eq!(
            failed(2, "2"),
            "none: No such file or directory (os error 2); usual in virtual machines"
        );
        assert_eq!(
            failed(13, "4"),
            "none: Permission denied (os error 13); kernel.perf_event_paranoid is 4, 1 or less \
             permits them (containers can forbid them as well)"
        );
        assert_eq!(
            words(Ok(Scope::UserOnly), "2"),
            "instructions and cycles in user space only, because kernel.perf_event_paranoid is 2; 1 or \
             less adds the kernel"
        );
        let all = words(Ok(Scope::UserAndKernel), "-1");
        assert_eq!(all, "instructions and cycles in user space and kernel");
    }
}
