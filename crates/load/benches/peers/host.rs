//! CPU time that the host and other processes take during a measurement.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Stolen time up to which a measurement counts as undisturbed: one step of the counter.
pub const UNDISTURBED_MS: f64 = 10.0;

/// Time stolen by the host since the start of this machine, in milliseconds over all cores, in
/// steps of 10.
pub fn stolen_ms() -> f64 {
    cores_ms()[7]
}

/// Time of all cores by kind since the start of this machine, in milliseconds, in the order of
/// /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
fn cores_ms() -> [f64; 8] {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = text.lines().next().unwrap_or_default();
    let mut ticks = all.split_whitespace().skip(1);
    [(); 8].map(|()| 10.0 * ticks.next().and_then(|t| t.parse().ok()).unwrap_or(0.0))
}

/// CPU time that was not available to a measurement, in milliseconds over all cores.
#[derive(Clone, Copy)]
pub struct LostCpu {
    /// Taken by the host.
    pub by_host_ms: f64,
    /// Taken by other processes of this machine, and by the kernel for them.
    pub by_others_ms: f64,
}

impl LostCpu {
    /// Runs `work` and measures the CPU time that it lost. `work` must itself start all of its
    /// processes and wait for them.
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
        // Computed from the idle columns, because the busy columns are sampled at each tick.
        let rest = elapsed_ms * cores - idle - waiting - by_host_ms - (own_ms() - own);
        let lost = Self {
            by_host_ms,
            by_others_ms: rest.max(0.0),
        };
        (done, lost)
    }

    pub fn is_undisturbed(self) -> bool {
        self.by_host_ms <= UNDISTURBED_MS
    }
}

/// A description of the time stolen from the measurements.
pub fn disturbance(stolen_ms: &[f64]) -> String {
    let disturbed = stolen_ms.iter().filter(|ms| **ms > UNDISTURBED_MS).count();
    match disturbed {
        0 => "undisturbed".to_owned(),
        n => format!(
            "disturbed: the host took up to {:.0} ms in {n} of {} measurements",
            stolen_ms.iter().copied().fold(0.0, f64::max),
            stolen_ms.len()
        ),
    }
}

/// A description of the largest times that the host and other processes took.
pub fn disturbances(lost: &[LostCpu]) -> String {
    let by_host: Vec<f64> = lost.iter().map(|l| l.by_host_ms).collect();
    let by_others = lost.iter().map(|l| l.by_others_ms).fold(0.0, f64::max);
    format!(
        "{}; other processes took up to {by_others:.0} ms",
        disturbance(&by_host)
    )
}
