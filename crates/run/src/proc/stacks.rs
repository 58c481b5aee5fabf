//! Samples of on-CPU stacks by perf_event_open(2): a clock event on each core, whose samples are kept for
//! the watched processes. It needs no hardware counter, so it works in virtual machines.
//!
//! The kernel walks the stacks: its own in any case, those of programs by their frame pointers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fs, io};

use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use tare_records::stacks::{Frame, ProcessStacks, SampledStack, StackSampling};
use tare_records::worker::WatchedProcess;

use super::container::Groups;
use super::symbols::{self, Mapping, Symbols};
use super::tree;

/// Buffer of each core: what the kernel permits every user by default (`perf_event_mlock_kb`).
const BUFFER_BYTES: usize = 512 << 10;
/// Interval between two reads of the buffers. A core writes at most 1 MB/s at a sample per millisecond.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Values of a call chain from here on are no addresses, but state to what the next ones belong.
const CONTEXT_MIN: u64 = -4095_i64 as u64;
/// The next addresses belong to the kernel.
const CONTEXT_KERNEL: u64 = -128_i64 as u64;

/// Why stacks cannot be sampled on this machine, and what permits it; `None` if they can.
pub fn prevented() -> Option<String> {
    let error = open_all(tare_records::stacks::PERIOD_NS).err()?;
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    Some(words(&error, paranoid.trim()))
}

fn words(error: &io::Error, paranoid: &str) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "kernel.perf_event_paranoid is {paranoid}; run tare as root, or permit perf events with \
             `sudo sysctl kernel.perf_event_paranoid=0`; a container also needs CAP_PERFMON and a \
             seccomp profile that permits perf_event_open"
        ),
        _ => "the kernel must support perf events".to_owned(),
    };
    format!("the kernel does not permit sampling of stacks ({error}): {remedy}")
}

/// Opens a disabled event on each core that is online.
fn open_all(period_ns: u64) -> io::Result<Vec<Sampler>> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let open = |core| {
        let mut builder = Builder::new(Software::CPU_CLOCK);
        builder.any_pid().one_cpu(core).exclude_idle(true);
        builder.include_kernel().sample_period(period_ns);
        builder.sample(SampleFlag::TID | SampleFlag::CALLCHAIN);
        builder.build()?.sampled(BUFFER_BYTES)
    };
    cores(&online).into_iter().map(open).collect()
}

/// Reads a list of cores such as `0-3,8`.
fn cores(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Call chains of a process, as the kernel wrote them, with the number of their samples.
type Chains = BTreeMap<Vec<u64>, u64>;

/// The events of all cores, and what was read from them.
struct Rings {
    samplers: Vec<Sampler>,
    processes: BTreeMap<u32, Chains>,
    totals: StackSampling,
}

impl Rings {
    fn read(&mut self) {
        for sampler in &mut self.samplers {
            while let Some(record) = sampler.next_record() {
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let chains = sample.pid().and_then(|pid| self.processes.get_mut(&pid));
                        match chains.zip(sample.callchain()) {
                            Some((chains, chain)) => {
                                *chains.entry(chain.to_vec()).or_default() += 1;
                            }
                            None => self.totals.other_processes += 1,
                        }
                    }
                    Ok(Record::Lost(lost)) => self.totals.lost += lost.lost,
                    Ok(Record::LostSamples(lost)) => self.totals.lost += lost.lost,
                    _ => {}
                }
            }
        }
    }
}

/// Samples stacks on a thread of its own, from its start until it is finished.
pub(crate) struct StackSampler {
    /// The processes of each watched process or container, and their code. A generator ends before its stacks are
    /// read.
    watched: Vec<(WatchedProcess, BTreeMap<u32, Vec<Mapping>>)>,
    stop: Arc<AtomicBool>,
    reader: JoinHandle<Rings>,
}

impl StackSampler {
    /// Starts sampling these processes, and those that run in the containers. `groups` has the containers.
    pub(crate) fn start(
        watched: &[WatchedProcess],
        groups: Option<&Groups>,
        period_ns: u64,
    ) -> io::Result<Self> {
        let processes = |watched: &WatchedProcess| match &watched.container {
            Some(id) => groups.map(|g| g.processes(id)).unwrap_or_default(),
            None if watched.only_below => tree::descendants(watched.pid),
            None => vec![watched.pid],
        };
        let all: Vec<Vec<u32>> = watched.iter().map(processes).collect();
        let mut rings = Rings {
            samplers: open_all(period_ns)?,
            processes: all
                .iter()
                .flatten()
                .map(|pid| (*pid, Chains::new()))
                .collect(),
            totals: StackSampling {
                period_ns,
                ..StackSampling::default()
            },
        };
        for sampler in &mut rings.samplers {
            sampler.enable()?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = thread::Builder::new().spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(READ_EVERY);
                rings.read();
            }
            rings
        })?;
        let code = |(watched, pids): (&WatchedProcess, &Vec<u32>)| {
            let in_container = watched.container.is_some();
            let code = |pid: &u32| (*pid, symbols::code_of(*pid, in_container));
            (watched.clone(), pids.iter().map(code).collect())
        };
        Ok(Self {
            watched: watched.iter().zip(&all).map(code).collect(),
            stop,
            reader,
        })
    }

    /// Ends the sampling, and finds the functions of the samples. Each process of a container has stacks of its own.
    pub(crate) fn finish(self) -> Result<(Vec<ProcessStacks>, StackSampling), String> {
        self.stop.store(true, Ordering::Relaxed);
        let joined = self.reader.join();
        let mut rings = joined.map_err(|_| "bug: the reader of the samples panicked")?;
        for sampler in &mut rings.samplers {
            let _ = sampler.disable();
        }
        rings.read();
        let symbols = Symbols::new();
        rings.totals.limits.extend(symbols::kernel_hidden());
        let mut all = Vec::new();
        let processes = self.watched.into_iter();
        let processes = processes.flat_map(|(watched, code)| {
            code.into_iter()
                .map(move |(pid, code)| (watched.clone(), pid, code))
        });
        for (process, pid, mut code) in processes {
            let chains = rings.processes.remove(&pid).unwrap_or_default();
            if chains.is_empty() {
                continue;
            }
            let (kernel, user): (Vec<_>, Vec<_>) =
                chains.keys().flat_map(|c| addresses(c)).partition(|a| a.0);
            // What was loaded since the start is known as long as the process runs.
            code.extend(symbols::code_of(pid, process.container.is_some()));
            let mut names = symbols.of_process(&code, &set(user));
            names.extend(symbols.of_kernel(&set(kernel)));
            all.push(named(&process, chains, &names));
        }
        Ok((all, rings.totals))
    }
}

fn set(addresses: Vec<(bool, u64)>) -> BTreeSet<u64> {
    addresses.into_iter().map(|(_, address)| address).collect()
}

/// The addresses of a call chain with whether they are the kernel's, from the function that ran outwards.
/// All but the first of a part are return addresses, which lie behind the call.
fn addresses(chain: &[u64]) -> impl Iterator<Item = (bool, u64)> {
    let (mut kernel, mut first) = (false, true);
    chain.iter().filter_map(move |value| {
        if *value >= CONTEXT_MIN {
            (kernel, first) = (*value == CONTEXT_KERNEL, true);
            return None;
        }
        let address = value.wrapping_sub(u64::from(!first));
        first = false;
        Some((kernel, address))
    })
}

/// Replaces addresses by functions. An address outside of all code is left out: programs without frame
/// pointers produce such addresses. Several unknown functions of a module in a row become one.
fn named(process: &WatchedProcess, chains: Chains, names: &BTreeMap<u64, Frame>) -> ProcessStacks {
    let mut indices: BTreeMap<&Frame, u32> = BTreeMap::new();
    let mut frames = Vec::new();
    let mut stacks: BTreeMap<Vec<u32>, u64> = BTreeMap::new();
    for (chain, samples) in chains {
        let mut stack = Vec::new();
        for (_, address) in addresses(&chain) {
            let Some(frame) = names.get(&address) else {
                continue;
            };
            let index = *indices.entry(frame).or_insert_with(|| {
                frames.push(frame.clone());
                frames.len() as u32 - 1
            });
            if frame.function.is_some() || stack.last() != Some(&index) {
                stack.push(index);
            }
        }
        stack.reverse();
        *stacks.entry(stack).or_default() += samples;
    }
    let stacks = stacks.into_iter();
    ProcessStacks {
        name: process.name.clone(),
        plane: process.plane,
        frames,
        stacks: stacks
            .map(|(frames, samples)| SampledStack { frames, samples })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tare_records::worker::Plane;

    fn frame(function: Option<&str>, module: Option<&str>) -> Frame {
        Frame {
            function: function.map(str::to_owned),
            module: module.map(str::to_owned),
        }
    }

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(cores("0-1\n"), [0, 1]);
        assert_eq!(cores("0,2-4,7"), [0, 2, 3, 4, 7]);
        assert!(cores("").is_empty());
    }

    #[test]
    fn return_addresses_are_those_of_the_call() {
        let user = -512_i64 as u64;
        let chain = [CONTEXT_KERNEL, 100, 200, user, 300, 400];
        let found: Vec<_> = addresses(&chain).collect();
        assert_eq!(
            found,
            [(true, 100), (true, 199), (false, 300), (false, 399)]
        );
    }

    #[test]
    fn stacks_have_names_from_the_outermost_function_inwards() {
        let user = -512_i64 as u64;
        let names = BTreeMap::from([
            (100, frame(Some("tcp_sendmsg"), None)),
            (300, frame(None, Some("envoy"))),
            (399, frame(None, Some("envoy"))),
            (499, frame(Some("main"), Some("envoy"))),
        ]);
        let chains = Chains::from([
            (vec![CONTEXT_KERNEL, 100, user, 300, 400, 500], 2),
            // The last address is outside of all code.
            (vec![CONTEXT_KERNEL, 100, user, 300, 500, 9_999], 3),
        ]);
        let process = WatchedProcess::process("web/sidecar", Plane::DataPlane, 7);
        let stacks = named(&process, chains, &names);
        let [stack] = &stacks.stacks[..] else {
            panic!("{stacks:?}");
        };
        assert_eq!(stack.samples, 5);
        let shown: Vec<&Frame> = stack
            .frames
            .iter()
            .map(|i| &stacks.frames[*i as usize])
            .collect();
        assert_eq!(
            shown,
            [
                &frame(Some("main"), Some("envoy")),
                &frame(None, Some("envoy")),
                &frame(Some("tcp_sendmsg"), None)
            ]
        );
    }

    #[test]
    fn a_refusal_names_what_permits_it() {
        let refused = words(&io::Error::from_raw_os_error(13), "2");
        assert!(
            refused.contains("kernel.perf_event_paranoid is 2"),
            "{refused}"
        );
        assert!(refused.contains("sudo sysctl kernel.perf_event_paranoid=0"));
        let absent = words(&io::Error::from_raw_os_error(38), "");
        assert!(
            absent.ends_with("the kernel must support perf events"),
            "{absent}"
        );
    }

    /// A function of its own, so that it has a name.
    #[inline(never)]
    fn planted(until: &AtomicBool) -> u64 {
        let mut sum = 0_u64;
        while !until.load(Ordering::Relaxed) {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        sum
    }

    #[test]
    fn a_busy_function_of_a_process_is_found_by_name() {
        let own = [WatchedProcess::process(
            "own",
            Plane::Tare,
            std::process::id(),
        )];
        if let Some(found) = prevented() {
            assert!(found.contains("not permit"), "{found}");
            return;
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        // On a busy machine the thread may not have run, or samples were lost.
        while !finds_planted(&own) {
            assert!(Instant::now() < deadline, "the function is not found");
        }
    }

    /// Runs the function for a short time. Returns whether the samples have its name.
    fn finds_planted(own: &[WatchedProcess]) -> bool {
        let sampler = StackSampler::start(own, None, 1_000_000).unwrap();
        let until = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&until);
        let busy = thread::spawn(move || planted(&stop));
        thread::sleep(Duration::from_millis(300));
        until.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        let (processes, totals) = sampler.finish().unwrap();
        assert_eq!(totals.period_ns, 1_000_000);
        assert!(processes.len() <= 1, "{processes:?}");
        let mut frames = processes.iter().flat_map(|p| &p.frames);
        frames.any(|f| f.function.as_deref().is_some_and(|n| n.contains("planted")))
    }
}
