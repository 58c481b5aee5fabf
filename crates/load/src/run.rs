//! A complete generator: resolves names, runs one loop per thread, collects the statistics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{SystemTime, UNIX_EPOCH};

use tare_plan::load::LoadSpec;
use tare_plan::load::schedule::SchedulePlan;
use tare_records::load::LoadResult;
use tare_records::record::LoadRecord;

use crate::driver::{Driver, DriverReport, EpollDriver, KernelReport, TlsDriver};
use crate::engine::{Engine, Flush, LoopPlan, OpenLoop};
use crate::machine::{Awake, NotAwake, core_to_core_ns, pin, throttled_ns};
use crate::record::{Collector, RunInfo};
use crate::target::tls::{TlsError, TlsPeer, own_sessions, peers};
use crate::target::{SpecError, Targets, connections_of, opened_by_address, resolve};

/// How long the connections may take to open. The schedule then starts without the missing
/// ones.
const OPEN_NS_MAX: u64 = 5_000_000_000;
/// Time between the opening of the last connection and the first slot.
const LEAD_NS: u64 = 5_000_000;
/// Number of open files that are reserved for other purposes than connections.
const FILES_RESERVED: u64 = 64;
/// Nice value of the collecting thread, which must never delay a loop on a shared core.
const COLLECTOR_NICE: i32 = 19;

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// An invalid specification.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Invalid TLS settings.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The kernel cannot create an event loop.
    #[error(
        "failed to create the event loop: {0}; it needs epoll_pwait2 or timerfd_create: allow one of them in the seccomp profile"
    )]
    Driver(std::io::Error),
    /// Too few file descriptors.
    #[error(
        "the connections need {wanted} open files, but the limit is {limit}: raise the limit (ulimit -n) or use fewer connections"
    )]
    Files {
        /// Open files of the connections, and reserved ones.
        wanted: u64,
        /// The hard limit.
        limit: u64,
    },
    /// Fewer cores than threads.
    #[error("cannot pin {threads} threads to {cores} cores: use fewer threads, or omit --pin")]
    Cores {
        /// Event loops.
        threads: u32,
        /// Cores that this process may use.
        cores: usize,
    },
    /// A thread could not be pinned.
    #[error("failed to pin a thread to core {core}: {source}")]
    Pin {
        /// Which core.
        core: usize,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The cores cannot be kept awake.
    #[error(
        "failed to keep the cores awake: {0}; omit --awake (`awake` in a specification) to run with the kernel's idle states"
    )]
    Awake(#[from] NotAwake),
    /// A thread panicked or could not be started.
    #[error("a thread of the generator ended early: {0}")]
    Thread(String),
}

/// A message from a loop to the collector.
enum Message {
    Opened,
    Failed(LoadError),
    Flush(usize, Box<Flush>),
    /// The last message of a loop.
    Ended(Box<DriverReport>),
    Panicked,
}

/// Notifies the collector when a loop panics, so that the collector does not wait for the loop.
struct PanicNotifier<'a>(&'a Sender<Message>);

impl Drop for PanicNotifier<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.send(Message::Panicked).ok();
        }
    }
}

/// Runs `spec` to its end, or until `stop` is set; the result of an interrupted run is valid
/// and marked as interrupted. (`run` sets `stop` itself when one of its threads panics.)
/// `observe` receives every record except `hello` and `final` on another thread, and
/// interval records only with `intervals`.
///
/// # Errors
/// [`LoadError`] when the specification cannot run on this machine. Failures of the target are
/// results, not errors.
pub fn run(
    spec: &LoadSpec,
    stop: &AtomicBool,
    intervals: bool,
    observe: &mut (dyn FnMut(LoadRecord) + Send),
) -> Result<LoadResult, LoadError> {
    let targets = Arc::new(Targets::new(spec)?);
    let tls = spec.tls.clone().unwrap_or_default();
    let peers = &peers(&tls, &targets.origins)?;
    let plans = &plans(spec, &targets);
    raise_file_limit(plans)?;
    let cores = cores(spec)?;
    let (sender, receiver) = channel();
    let awake = spec.awake.then(Awake::hold).transpose()?;
    let before = core_to_core_ns();
    let mut result = std::thread::scope(|scope| {
        let mut releases = Vec::new();
        let mut loops = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let core = cores.get(index).copied();
            let (release, start) = channel();
            releases.push(release);
            let sender = sender.clone();
            let spawned = std::thread::Builder::new()
                .name(format!("tare-loop-{index}"))
                .spawn_scoped(scope, move || {
                    run_loop(index, (plan, peers, core), spec, &sender, &start, stop)
                });
            loops.push(spawned.map_err(|e| LoadError::Thread(e.to_string()))?);
        }
        drop(sender);
        let collector = std::thread::Builder::new()
            .name("tare-collect".to_owned())
            .spawn_scoped(scope, move || {
                collect(spec, plans, &receiver, releases, (intervals, stop), observe)
            })
            .map_err(|e| LoadError::Thread(e.to_string()))?;
        let panicked = |_| LoadError::Thread("it panicked".to_owned());
        let result = collector.join().map_err(|panic| {
            // Otherwise the loops would run to the end of their window.
            stop.store(true, Ordering::Relaxed);
            panicked(panic)
        })?;
        for l in loops {
            l.join().map_err(panicked)?;
        }
        result
    })?;
    // Measured here instead of in the collector, whose priority is low.
    let latencies = before.zip(core_to_core_ns());
    result.generator.awake = awake.is_some();
    result.generator.core_to_core_ns = latencies.map(|(b, a)| [b, a]).into_iter().collect();
    Ok(result)
}

/// Runs one loop on the calling thread.
fn run_loop(
    index: usize,
    (plan, peers, core): (&LoopPlan, &[Option<TlsPeer>], Option<usize>),
    spec: &LoadSpec,
    sender: &Sender<Message>,
    start: &Receiver<u64>,
    stop: &AtomicBool,
) {
    let _notifier = PanicNotifier(sender);
    // If the collector has failed, the receiver is dropped and messages are no longer needed.
    let send = |m| drop(sender.send(m));
    let one_at_a_time = plan.targets.origins.iter().all(|o| !o.multiplexed);
    // Pinned before the driver is calibrated, because how late a thread wakes depends on its core.
    if let Some(core) = core
        && let Err(source) = pin::pin_to(core)
    {
        return send(Message::Failed(LoadError::Pin { core, source }));
    }
    let mut driver = match EpollDriver::new(spec.pace) {
        Ok(driver) => driver.with_kernel_timestamps(match one_at_a_time {
            true => spec.kernel_timestamps_every,
            false => 0,
        }),
        Err(e) => return send(Message::Failed(LoadError::Driver(e))),
    };
    let mut report = if peers.iter().any(Option::is_some) {
        let own = own_sessions(peers);
        let of_connections = plan.origins_of_connections().map(|o| own[o].clone());
        let mut driver = TlsDriver::new(driver, of_connections.collect());
        drive(&mut driver, index, plan, &send, start, stop)
    } else {
        drive(&mut driver, index, plan, &send, start, stop)
    };
    if spec.kernel_timestamps_every > 0 && !one_at_a_time {
        report.kernel = Some(KernelReport {
            every: spec.kernel_timestamps_every,
            absent: Some(
                "kernel timestamps cannot be assigned to HTTP/2 requests, which share a connection"
                    .into(),
            ),
            ..KernelReport::default()
        });
    }
    send(Message::Ended(Box::new(report)));
}

fn drive<D: Driver>(
    driver: &mut D,
    index: usize,
    plan: &LoopPlan,
    send: &dyn Fn(Message),
    start: &Receiver<u64>,
    stop: &AtomicBool,
) -> DriverReport {
    let mut sink = |flush| send(Message::Flush(index, Box::new(flush)));
    let mut engine = Engine::new(driver, plan, &mut sink);
    engine.open_all(OPEN_NS_MAX, stop);
    send(Message::Opened);
    if let Ok(start) = start.recv() {
        engine.run(start, stop);
    }
    driver.driver_report()
}

fn collect(
    spec: &LoadSpec,
    plans: &[LoopPlan],
    receiver: &Receiver<Message>,
    releases: Vec<Sender<u64>>,
    (intervals, stop): (bool, &AtomicBool),
    observe: &mut dyn FnMut(LoadRecord),
) -> Result<LoadResult, LoadError> {
    let ended_early = || LoadError::Thread("it stopped reporting".to_owned());
    let LoopPlan { targets, addrs, .. } = plans.first().ok_or_else(ended_early)?;
    let mut collector = Collector::new(&targets.names, releases.len(), spec, intervals);
    let mut unopened = releases.len();
    while unopened > 0 {
        match receiver.recv().map_err(|_| ended_early())? {
            Message::Opened => unopened -= 1,
            Message::Failed(e) => return Err(e),
            Message::Panicked => return Err(ended_early()),
            Message::Flush(..) | Message::Ended(_) => {}
        }
    }
    let throttled_before = throttled_ns();
    let start = choose_start(spec).map_err(LoadError::Driver)?;
    for release in &releases {
        release.send(start.mono_ns).map_err(|_| ended_early())?;
    }
    // The priority is lowered only now, because it must not delay the start.
    let own = rustix::thread::gettid();
    rustix::process::setpriority_process(Some(own), COLLECTOR_NICE).ok();
    let window_start_unix_ns = start.unix_ns.saturating_add(spec.warmup_ns);
    observe(LoadRecord::Armed {
        start_unix_ns: start.unix_ns,
        window_start_unix_ns,
        window_ns: spec.duration_ns,
    });
    let mut driver = DriverReport::default();
    let mut ended = 0;
    while !collector.is_complete() || ended < releases.len() {
        match receiver.recv().map_err(|_| ended_early())? {
            Message::Flush(index, flush) => collector.take(index, *flush, observe),
            Message::Panicked => {
                // Otherwise the other loops would run to the end of their window.
                stop.store(true, Ordering::Relaxed);
                return Err(ended_early());
            }
            Message::Ended(report) => {
                driver.merge(*report);
                ended += 1;
            }
            Message::Opened | Message::Failed(_) => {}
        }
    }
    let throttled = throttled_ns()
        .zip(throttled_before)
        .map(|(after, before)| after.saturating_sub(before));
    let addresses = opened_by_address(&targets.origins, addrs, collector.opened());
    let info = RunInfo {
        window_start_unix_ns,
        throttled_ns: throttled,
        driver,
    };
    let mut result = collector.result(spec, &info);
    result.generator.addresses = addresses;
    Ok(result)
}

struct Start {
    mono_ns: u64,
    unix_ns: u64,
}

/// The start of the schedule on both clocks. A start in the past is not changed: the slots since
/// then are late, and are counted as late.
fn choose_start(spec: &LoadSpec) -> Result<Start, std::io::Error> {
    let mono = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let mono_ns = mono.tv_sec as u64 * 1_000_000_000 + mono.tv_nsec as u64;
    let unix = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(std::io::Error::other)?;
    let unix_now_ns = unix.as_nanos() as u64;
    let unix_ns = spec.start_unix_ns.unwrap_or(unix_now_ns + LEAD_NS);
    Ok(Start {
        mono_ns: mono_ns.saturating_add(unix_ns).saturating_sub(unix_now_ns),
        unix_ns,
    })
}

/// One plan per thread.
fn plans(spec: &LoadSpec, targets: &Arc<Targets>) -> Vec<LoopPlan> {
    let addrs = Arc::new(resolve(&targets.origins));
    let origins = targets.origins.len() as u32;
    let of = |o, thread| connections_of(spec.connections, o, origins, thread, spec.threads);
    // Every generator has about the same number of connections.
    let of_generator = |o| (0..spec.threads).map(|t| of(o, t)).sum::<u32>();
    let before = |o, thread| {
        let own = (0..thread).map(|t| of(o, t)).sum::<u32>();
        own.wrapping_add(of_generator(o).wrapping_mul(spec.shard.index))
    };
    (0..spec.threads)
        .map(|thread| LoopPlan {
            targets: Arc::clone(targets),
            addrs: Arc::clone(&addrs),
            connections: (0..origins).map(|o| of(o, thread)).collect(),
            before: (0..origins).map(|o| before(o, thread)).collect(),
            streams: spec.streams,
            think_ns: spec.think_ns,
            open_loop: SchedulePlan::of(spec).map(|schedule| OpenLoop {
                schedule,
                // The slots of all threads together are those of this generator.
                shard: u64::from(thread) * u64::from(spec.shard.count)
                    + u64::from(spec.shard.index),
                shards: u64::from(spec.shard.count) * u64::from(spec.threads),
            }),
            window_ns: spec.duration_ns,
            warmup_ns: spec.warmup_ns,
            timeout_ns: spec.timeout_ns,
            drain_ns: spec.drain_ns.unwrap_or(spec.timeout_ns),
            requests_per_connection: spec.requests_per_connection,
        })
        .collect()
}

/// The cores to pin the loops to; empty without pinning.
fn cores(spec: &LoadSpec) -> Result<Vec<usize>, LoadError> {
    if !spec.pin {
        return Ok(Vec::new());
    }
    let mut cores = pin::allowed().map_err(LoadError::Driver)?;
    if cores.len() < spec.threads as usize {
        return Err(LoadError::Cores {
            threads: spec.threads,
            cores: cores.len(),
        });
    }
    cores.truncate(spec.threads as usize);
    Ok(cores)
}

/// Raises the soft limit of open files to what the connections need.
fn raise_file_limit(plans: &[LoopPlan]) -> Result<(), LoadError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let connections: u64 = plans
        .iter()
        .flat_map(|p| &p.connections)
        .map(|&n| u64::from(n))
        .sum();
    let wanted = connections + FILES_RESERVED;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|c| c >= wanted) {
        return Ok(());
    }
    let limit = maximum.unwrap_or(u64::MAX);
    let raised = Rlimit {
        current: Some(wanted),
        maximum,
    };
    if limit < wanted || setrlimit(Resource::Nofile, raised).is_err() {
        return Err(LoadError::Files { wanted, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::load::Shard;
    use tare_plan::load::schedule::Schedule;

    #[test]
    fn the_slots_of_all_threads_are_those_of_their_generator() {
        let mut spec = crate::simulated::support::spec(&["http://127.0.0.1:1/"]);
        spec.threads = 2;
        spec.shard = Shard { index: 1, count: 3 };
        let targets = Arc::new(Targets::new(&spec).unwrap());
        let mut indices: Vec<u64> = Vec::new();
        for plan in plans(&spec, &targets) {
            let o = plan.open_loop.unwrap();
            let schedule = Schedule::new(&o.schedule, o.shard, o.shards);
            indices.extend(schedule.take(10).map(|slot| slot.index));
        }
        indices.sort_unstable();
        let every_third: Vec<u64> = (0..20).map(|i| 1 + 3 * i).collect();
        assert_eq!(indices, every_third);
    }
}
