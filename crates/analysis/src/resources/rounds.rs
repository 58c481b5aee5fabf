//! The rounds of trials in slices that something outside the trials disturbed: CPU that the hypervisor took, or that
//! other processes used. Such a round is left out of the figures of all trials of its block. The rule sees neither
//! latencies nor what a mesh used, so that it cannot prefer a mesh.

use tare_plan::limits::SECOND_NS;
use tare_records::load::LoadResult;
use tare_records::record::{AgentRecord, Interval, ResourceSample};
use tare_records::trial::SliceUse;
use tare_records::verdict::{Finding, Grade, Reason};
use tare_records::worker::{AgentSpec, Plane, Slices};

use super::{Track, busy_cores, is_in_time, sampling_cores};
use crate::judge::{OTHERS_SUSPECT, STOLEN_SUSPECT};
use crate::streams::{StreamError, without};

/// Share of the rounds above which trials are suspect, if so many are left out.
const LEFT_OUT_SUSPECT: f64 = 0.25;
/// Largest share of the rounds that may be left out. If more are disturbed, that is the state of the machine, of which
/// the others are no sample, and none is left out.
const LEFT_OUT_MAX: f64 = 0.5;

/// What the agent of one trial saw.
#[derive(Debug, Clone, Copy)]
pub struct Sampled<'a> {
    /// What it was asked to watch.
    pub spec: &'a AgentSpec,
    /// Its records.
    pub records: &'a [AgentRecord],
}

/// The rounds of a block, and the machine in those that are not left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rounds {
    /// Number of rounds.
    all: u32,
    /// How long each takes; `None` if that is not a whole number of seconds. Generators count by second, so that none can
    /// be left out then.
    seconds: Option<u32>,
    /// Those that were disturbed, from 0, in order.
    disturbed: Vec<u32>,
    /// Cores that processes outside the trials used, mean.
    pub other_cores: f64,
    /// Cores that the hypervisor took, mean.
    pub stolen_cores: f64,
}

impl Rounds {
    /// The rounds to leave out, from 0.
    #[must_use]
    pub fn left_out(&self) -> &[u32] {
        let most = LEFT_OUT_MAX * f64::from(self.all);
        match self.seconds.is_none() || self.disturbed.len() as f64 > most {
            true => &[],
            false => &self.disturbed,
        }
    }

    /// A finding if many rounds are left out.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        let (count, all) = (self.left_out().len(), self.all);
        (count as f64 > LEFT_OUT_SUSPECT * f64::from(all)).then(|| {
            let found = format!(
                "{count} of {all} rounds are left out, because other processes or the hypervisor took CPU in them"
            );
            Finding::new(Grade::Suspect, Reason::NoisyNeighbour, found)
        })
    }

    /// The slices of a trial, with its result in the rounds that count.
    ///
    /// # Errors
    /// When a histogram of an interval is damaged.
    pub fn of_trial(
        &self,
        slices: Slices,
        whole: &LoadResult,
        intervals: &[Interval],
    ) -> Result<SliceUse, StreamError> {
        let left_out = self.left_out();
        let seconds = self.seconds.unwrap_or(1);
        let is_left_out = |second: u32| left_out.contains(&(second / seconds));
        let kept = match left_out.is_empty() {
            true => None,
            false => Some(Box::new(without(whole, intervals, is_left_out)?)),
        };
        Ok(SliceUse {
            slices,
            longer_than_gap: 0,
            left_out: left_out.to_vec(),
            kept,
        })
    }
}

/// How long each of `rounds` takes; `None` if that is not a whole number of seconds, but for so little that no request of a
/// round is in the second of another one: each begins after the lead of its slice.
fn seconds_per_round(window_ns: u64, slices: &Slices) -> Option<u32> {
    let rounds = slices.starts_ns.len() as u64;
    let seconds = (window_ns + rounds * SECOND_NS / 2) / (rounds * SECOND_NS).max(1);
    let drift_ns = window_ns.abs_diff(rounds * seconds * SECOND_NS);
    (seconds > 0 && drift_ns < slices.lead_ns).then_some(seconds as u32)
}

/// The machine in one round, in cores.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// What the trials used while they were loaded.
    own: f64,
    others: f64,
    stolen: f64,
}

impl Round {
    fn is_disturbed(&self, cores: f64) -> bool {
        self.stolen > STOLEN_SUSPECT * cores || self.others > OTHERS_SUSPECT * self.own.max(1.0)
    }
}

/// Finds the disturbed rounds of trials that were loaded in turns of one slice each. A round without samples at its
/// edges is not judged. `None` if the trials were not in slices, or if too little was sampled.
#[must_use]
pub fn find(trials: &[Sampled<'_>]) -> Option<Rounds> {
    let first = trials.first()?.spec;
    let slices = first.slices.as_ref()?;
    let all = slices.starts_ns.len() as u32;
    let round_ns = first.window_ns as f64 / f64::from(all.max(1));
    let seen: Vec<Seen> = trials.iter().map(Seen::of).collect::<Option<_>>()?;
    let idle_cores: f64 = seen.iter().map(|s| s.idle_cores).sum();
    let cores = seen.first()?.cores;
    let of = |round: usize| -> Option<Round> {
        let slices = seen.iter().map(|s| s.slices.get(round).copied().flatten());
        let slices: Vec<Slice> = slices.collect::<Option<_>>()?;
        let sum = |of: fn(&Slice) -> f64| slices.iter().map(of).sum::<f64>() / round_ns;
        let own = sum(|s| s.own_ns);
        Some(Round {
            own,
            others: (sum(|s| s.busy_ns) - own - idle_cores).max(0.0),
            stolen: sum(|s| s.stolen_ns),
        })
    };
    let rounds: Vec<Option<Round>> = (0..all as usize).map(of).collect();
    let is_disturbed = |r: &Option<Round>| r.is_some_and(|r| r.is_disturbed(cores));
    let disturbed = (0..).zip(&rounds).filter(|(_, r)| is_disturbed(r));
    let mut found = Rounds {
        all,
        seconds: seconds_per_round(first.window_ns, slices),
        disturbed: disturbed.map(|(i, _)| i).collect(),
        ..Rounds::default()
    };
    let kept = (0..)
        .zip(&rounds)
        .filter(|(i, _)| !found.left_out().contains(i));
    let kept: Vec<Round> = kept.filter_map(|(_, r)| *r).collect();
    let mean = |of: fn(&Round) -> f64| kept.iter().map(of).sum::<f64>() / kept.len().max(1) as f64;
    (found.other_cores, found.stolen_cores) = (mean(|r| r.others), mean(|r| r.stolen));
    (!kept.is_empty()).then_some(found)
}

/// CPU in a slice with its gap, in nanoseconds: of the trial that was loaded, and of the machine.
#[derive(Debug, Clone, Copy)]
struct Slice {
    own_ns: f64,
    busy_ns: f64,
    stolen_ns: f64,
}

/// What the agent of one trial saw: the slices of all trials fill the window.
struct Seen {
    cores: f64,
    /// Each of its slices; `None` where the edges were not sampled in time.
    slices: Vec<Option<Slice>>,
    /// What the trial used in the slices of the others, with the CPU of its agent, in cores of the whole window.
    idle_cores: f64,
}

impl Seen {
    fn of(trial: &Sampled<'_>) -> Option<Self> {
        let (spec, samples) = (trial.spec, super::samples(trial.records));
        let edges: Vec<i64> = samples.iter().map(|s| s.t_ns).collect();
        let window_ns = (edges.last()? - edges.first()?).max(1) as f64;
        let slices = spec.slices.as_ref()?;
        let spans: Vec<(i64, i64)> = slices.spans_ns().collect();
        let track = |i| Track::new(&samples, i, &edges, &spans);
        let tracks: Vec<Track> = (0..spec.processes.len()).map(track).collect();
        // Tare is a process of every trial: it is counted with the one that is loaded.
        let of_trial = tracks.iter().zip(&spec.processes);
        let of_trial = of_trial.filter(|(_, p)| p.plane != Plane::Tare);
        let idle_ns: f64 = of_trial.map(|(t, _)| t.whole_cpu_ns() - t.used_ns()).sum();
        let slice = |(i, span): (usize, &(i64, i64))| {
            let used = tracks.iter().filter_map(|t| t.used_each_ns.get(i));
            let (busy_ns, stolen_ns) = machine(&samples, *span);
            is_in_time(slices, &edges, *span).then(|| Slice {
                own_ns: used.sum(),
                busy_ns,
                stolen_ns,
            })
        };
        Some(Self {
            cores: f64::from(samples.first()?.machine.cpus.max(1)),
            slices: spans.iter().enumerate().map(slice).collect(),
            idle_cores: idle_ns.max(0.0) / window_ns
                + sampling_cores(trial.records, window_ns as u64),
        })
    }
}

/// Busy and stolen CPU of the machine in a part of the window, in nanoseconds.
fn machine(samples: &[&ResourceSample], (from_ns, to_ns): (i64, i64)) -> (f64, f64) {
    let at = |t_ns: i64| {
        let next = samples.partition_point(|s| s.t_ns < t_ns);
        samples[next.min(samples.len() - 1)]
    };
    let (from, to) = (at(from_ns), at(to_ns));
    let grown = |a: u64, b: u64| b.saturating_sub(a) as f64;
    let (a, b) = (&from.machine, &to.machine);
    let interrupts = a.interrupt_ns.zip(b.interrupt_ns);
    let interrupts_ns = interrupts.map_or(0.0, |(a, b)| grown(a, b));
    let elapsed_ns = to.t_ns - from.t_ns;
    let busy_ns = busy_cores(&a.into(), &b.into(), elapsed_ns) * elapsed_ns as f64;
    // As if the samples had been taken at the edges.
    let scale = (to_ns - from_ns) as f64 / elapsed_ns.max(1) as f64;
    (
        (busy_ns - interrupts_ns) * scale,
        grown(a.stolen_ns, b.stolen_ns) * scale,
    )
}

#[cfg(test)]
mod tests;
