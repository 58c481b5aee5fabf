//! What the host, and whoever else runs on this machine, take of it while it measures.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Stolen time up to which a measurement passes for undisturbed: one step of the count.
pub const UNDISTURBED_MS: f64 = 10.0;

/// What the host has given to others since it started, in milliseconds over both cores;
/// in steps of 10.
pub fn stolen_ms() -> f64 {
    cores_ms()[7]
}

/// What each kind of work took of both cores since the start, in milliseconds, in the order of
/// /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
fn cores_ms() -> [f64; 8] {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = text.lines().next().unwrap_or_default();
    let mut ticks = all.split_whitespace().skip(1);
    [(); 8].map(|()| 10.0 * ticks.next().and_then(|t| t.parse().ok()).unwrap_or(0.0))
}

/// What was taken of a measurement, in milliseconds over both cores.
#[derive(Clone, Copy)]
pub struct Taken {
    pub by_host_ms: f64,
    /// By processes of this machine that are not the measurement's, and by the kernel for them.
    pub by_others_ms: f64,
}

impl Taken {
    /// Does `work`, which starts and awaits all processes that belong to it.
    pub fn during<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let own_ms = || -> f64 {
            [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN]
                .map(|who| getrusage(who).unwrap())
                .map(|u| (u.user_time() + u.system_time()).num_microseconds() as f64 / 1e3)
                .iter()
                .sum()
        };
        let cores = std::thread::available_parallelism().unwrap().get() as f64;
        let (began, before, own) = (Instant::now(), cores_ms(), own_ms());
        let done = work();
        let elapsed_ms = began.elapsed().as_secs_f64() * 1e3;
        let [_, _, _, idle, waiting, _, _, by_host_ms] = {
            let after = cores_ms();
            std::array::from_fn(|k| after[k] - before[k])
        };
        // Not from the busy columns, which count what each tick finds running.
        let rest = elapsed_ms * cores - idle - waiting - by_host_ms - (own_ms() - own);
        let taken = Self {
            by_host_ms,
            by_others_ms: rest.max(0.0),
        };
        (done, taken)
    }

    pub fn is_undisturbed(self) -> bool {
        self.by_host_ms <= UNDISTURBED_MS
    }
}

/// In words: the milliseconds that the host took of measurements that count.
pub fn disturbance(stolen_ms: &[f64]) -> String {
    let disturbed = stolen_ms.iter().filter(|ms| **ms > UNDISTURBED_MS).count();
    match disturbed {
        0 => "undisturbed".to_owned(),
        n => format!(
            "disturbed: the host took up to {:.0} ms of {n} of {}",
            stolen_ms.iter().copied().fold(0.0, f64::max),
            stolen_ms.len()
        ),
    }
}

/// In words: what the host and others took, each at most.
pub fn disturbances(taken: &[Taken]) -> String {
    let by_host: Vec<f64> = taken.iter().map(|t| t.by_host_ms).collect();
    let by_others = taken.iter().map(|t| t.by_others_ms).fold(0.0, f64::max);
    format!(
        "{}; others here up to {by_others:.0} ms",
        disturbance(&by_host)
    )
}
