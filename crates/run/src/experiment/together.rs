//! The generators and agents of trials that are deployed together: their windows are the same, and noise of the machine
//! affects all of them.

use std::cell::RefCell;

use futures_util::future::try_join_all;
use tare_analysis::resources::rounds::{self, Rounds, Sampled};
use tare_plan::load::{Arrivals, LoadSpec, Mode, Trace};
use tare_records::trial::Resources;
use tare_records::worker::Plane;
use tare_stats::rng::Rng;

use super::error::RunError;
use super::group::{RunningTrial, TrialContext};
use super::measurement::Measurement;
use super::request::load_spec;
use super::slices::{self, Schedule};
use super::updates::{Observer, Update};
use crate::environment::{Environment, EnvironmentError};
use tare_files::unix_ns;

/// Stream of the random arrivals of a block.
const ARRIVALS: u64 = 1 << 63;

/// One observer for the trials of a block.
struct Shared<'a, 'b, 'c>(&'a RefCell<&'b mut (dyn Observer + 'c)>);

impl Observer for Shared<'_, '_, '_> {
    fn update(&mut self, update: Update<'_>) {
        self.0.borrow_mut().update(update);
    }
}

impl TrialContext<'_> {
    /// Runs the generators and agents of all trials that have not failed: all at once, or in the slices of a schedule.
    pub(super) async fn load_together<E: Environment>(
        &mut self,
        environment: &mut E,
        trials: &mut [RunningTrial<'_, E::Deployment>],
        schedule: Option<&Schedule>,
    ) -> Result<(), RunError> {
        let count = trials.len() as u32;
        let start_unix_ns = unix_ns() + environment.start_lead(count).as_nanos() as u64;
        let mut loads = Vec::new();
        for (i, trial) in trials.iter_mut().enumerate() {
            let Some(trial) = trial.ready() else {
                continue;
            };
            let mut spec = LoadSpec {
                start_unix_ns: Some(start_unix_ns),
                ..load_spec(self.plan, trial.spec, trial.deployment)
            };
            let slices = schedule.map(|schedule| schedule.of(i));
            match schedule.zip(slices.as_ref()) {
                None => move_arrivals(&mut spec, i as u64, u64::from(count)),
                Some((schedule, slices)) => {
                    if let Err(error) = schedule.arrange(&mut spec, slices) {
                        trial.findings.failure = Some(format!("no load in slices: {error}"));
                        continue;
                    }
                }
            }
            let (observer, deployment) = (&mut *self.observer, &mut *trial.deployment);
            let started = Measurement::start(spec, observer, environment, deployment, trial.writer);
            let mut measurement = match started.await {
                Ok(measurement) => measurement,
                // A load that begins without its generator.
                Err(RunError::Environment(error @ EnvironmentError::Start { .. })) => {
                    trial.findings.failed(&error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(slices) = slices {
                measurement.in_slices(slices);
            }
            loads.push((measurement, trial));
        }
        for (measurement, t) in &mut loads {
            let (observer, stop) = (&mut *self.observer, &mut *self.stop);
            measurement
                .until_armed(
                    observer,
                    stop,
                    environment,
                    t.deployment,
                    t.writer,
                    t.findings,
                )
                .await?;
        }
        let observer = RefCell::new(&mut *self.observer);
        let follow = loads.iter_mut().map(|(measurement, t)| {
            let (mut shared, mut stop) = (Shared(&observer), self.stop.clone());
            async move {
                measurement
                    .follow(&mut shared, &mut stop, t.deployment, t.writer, t.findings)
                    .await
            }
        });
        try_join_all(follow).await?;
        let cores = self.cores();
        let sampled: Option<Vec<Sampled<'_>>> = loads.iter().map(|(m, _)| m.sampled()).collect();
        let rounds = sampled.and_then(|sampled| rounds::find(&sampled));
        let none = Rounds::default();
        let mut overlaps = Vec::new();
        for (measurement, t) in loads {
            if !t.findings.interrupted {
                measurement
                    .keep(
                        environment,
                        t.deployment,
                        t.writer,
                        cores,
                        rounds.as_ref().unwrap_or(&none),
                        t.findings,
                    )
                    .await?;
                overlaps.extend(slices::overlap(&t.spec.mesh.name, t.findings));
            }
        }
        let mut all: Vec<_> = trials.iter_mut().filter_map(RunningTrial::ready).collect();
        for trial in &mut all {
            slices::mark_overlap(&overlaps, trial.findings);
            if let Some(rounds) = &rounds {
                slices::machine(rounds, trial.findings);
            }
        }
        if rounds.is_none() {
            let resources = all
                .into_iter()
                .filter_map(|t| t.findings.resources.as_mut());
            leave_out_each_other(resources);
        }
        Ok(())
    }
}

/// Moves the arrivals of trial `i` of `count`. The trials have the same arrivals, but requests at the same
/// instant would wait for each other. So random arrivals are moved around the window by `i / count` of its length,
/// and constant ones by `i / count` of the time between two of them.
fn move_arrivals(spec: &mut LoadSpec, i: u64, count: u64) {
    let Mode::Open { rate_rps, arrivals } = &mut spec.mode else {
        return;
    };
    if *arrivals != Arrivals::Poisson {
        let gap_ns = (1e9 / *rate_rps) as u64;
        spec.start_unix_ns = spec.start_unix_ns.map(|start| start + gap_ns * i / count);
        return;
    }
    let window_ns = spec.duration_ns;
    let random = random_instants(spec.seed, *rate_rps, window_ns).into_iter();
    let moved = random.map(|ns| (ns + window_ns * i / count) % window_ns);
    let instants = moved.collect();
    // A window without arrivals keeps its process.
    if let Ok(trace) = Trace::new(instants) {
        *arrivals = Arrivals::Trace(trace);
        *rate_rps = arrivals.own_rate_rps(spec.duration_ns).unwrap_or(*rate_rps);
    }
}

/// Instants of a Poisson process in a window, in nanoseconds: the same for the trials of a block, which have one seed.
pub(super) fn random_instants(seed: u64, rate_rps: f64, window_ns: u64) -> Vec<u64> {
    let mut rng = Rng::stream(seed, ARRIVALS);
    let mut at_ns = 0.0;
    let next = || {
        at_ns += rng.exponential() * 1e9 / rate_rps;
        (at_ns < window_ns as f64).then_some(at_ns as u64)
    };
    std::iter::from_fn(next).collect()
}

/// Removes the CPU time of the other trials of a group from that of foreign processes. Tare itself is a process of
/// every trial.
fn leave_out_each_other<'a>(resources: impl Iterator<Item = &'a mut Resources>) {
    let all: Vec<&mut Resources> = resources.collect();
    let own = |r: &Resources| {
        let processes = r.processes.iter().filter(|p| p.plane != Plane::Tare);
        let of_window = || processes.map(|p| p.cpu_cores).sum::<f64>() + r.sampling_cores;
        r.whole_window_cores.unwrap_or_else(of_window)
    };
    let together: f64 = all.iter().map(|r| own(r)).sum();
    for resources in all {
        let others = together - own(resources);
        let machine = &mut resources.machine;
        machine.other_cores = (machine.other_cores - others).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tare_records::trial::{MachineUse, MemoryKind, ProcessUse};

    use super::*;

    fn instants(i: u64, arrivals: Arrivals) -> (Vec<u64>, Option<u64>) {
        let mode = Mode::Open {
            rate_rps: 50.0,
            arrivals,
        };
        let mut spec = LoadSpec {
            seed: 7,
            start_unix_ns: Some(1_000),
            ..LoadSpec::new(Vec::new(), mode, 10_000_000_000)
        };
        move_arrivals(&mut spec, i, 4);
        let instants = match spec.mode {
            Mode::Open {
                arrivals: Arrivals::Trace(trace),
                ..
            } => trace.instants_ns().to_vec(),
            _ => Vec::new(),
        };
        (instants, spec.start_unix_ns)
    }

    #[test]
    fn random_arrivals_are_those_of_the_first_trial_moved_around_the_window() {
        let (first, _) = instants(0, Arrivals::Poisson);
        assert!((400..600).contains(&first.len()), "{}", first.len());
        let (second, start) = instants(1, Arrivals::Poisson);
        let mut moved: Vec<u64> = first
            .iter()
            .map(|ns| (ns + 2_500_000_000) % 10_000_000_000)
            .collect();
        moved.sort_unstable();
        assert_eq!((second, start), (moved, Some(1_000)));
    }

    #[test]
    fn even_arrivals_are_moved_within_the_time_between_two() {
        assert_eq!(
            instants(3, Arrivals::Constant),
            (Vec::new(), Some(15_001_000))
        );
    }

    #[test]
    fn the_other_trials_of_a_block_are_not_foreign() {
        let process = |plane, cpu_cores| ProcessUse {
            name: String::new(),
            plane,
            cpu_cores,
            cpu_cores_max: cpu_cores,
            run_queue_delay_ns: None,
            counters: None,
            memory_mean_bytes: 0.0,
            memory_max_bytes: 0,
            memory_kind: MemoryKind::Pss,
            rss_mean_bytes: None,
            throttled_ns: None,
            gone_at_ns: None,
        };
        // Two trials, 0.3 and 0.5 cores with their agents, beside tare with 0.1 and foreign processes with 0.2.
        let trial = |own: f64, others: f64| Resources {
            window_ns: 1,
            processes: vec![
                process(Plane::Application, own - 0.01),
                process(Plane::Tare, 0.1),
            ],
            planes: BTreeMap::new(),
            machine: MachineUse {
                other_cores: others + 0.2,
                ..MachineUse::default()
            },
            sampling_cores: 0.01,
            kubelet_age_ns_max: None,
            whole_window_cores: None,
        };
        let mut both = [trial(0.3, 0.5), trial(0.5, 0.3)];
        leave_out_each_other(both.iter_mut());
        let foreign = both.map(|r| r.machine.other_cores);
        assert!(
            foreign.iter().all(|cores| (cores - 0.2).abs() < 1e-12),
            "{foreign:?}"
        );
    }
}
