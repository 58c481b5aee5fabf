//! Run-queue delay: the time for which processes of a trial were runnable and waited for a core. It is
//! the evidence that other processes or the hypervisor, which took CPU time, slowed the trial down.

use tare_plan::Plan;
use tare_records::summary::TrialStatus;
use tare_records::trial::Resources;
use tare_records::verdict::{Cause, Finding, Grade, Reason, Verdict};
use tare_stats::order::median;

use crate::figures;
use crate::trials::Trial;

/// Fewest other trials of a mesh and load with which a trial is compared: of three, one that was
/// disturbed as well does not move the median.
const OTHERS_MIN: usize = 3;

/// A trial waited far longer than the others from this multiple of their median on. On a machine with 2
/// cores, undisturbed trials differed from their median by 4 %, and trials with the same steady
/// neighbours by a factor of 1.4; bursts of two busy loops made the delay three times as long.
const FAR: f64 = 1.5;

/// Smallest excess over that median that counts, per CPU time. Less than 5 % of the time of the work
/// itself is hidden by the differences between trials.
const EXCESS_MIN: f64 = 0.05;

/// Others explain an excess if the additional CPU time that they took is at least this share of it. While
/// others hold a core, every thread that waits for it waits as long: on 2 cores, of which the trial used
/// one and builds of other programs the other, each second that they took added 2.3 s of delay. With
/// more than four threads in a queue, most of it is the trial's own.
const EXPLAINED_MIN: f64 = 0.25;

/// Run-queue delay of all processes of a trial, as a share of the CPU time that they used; `None` if
/// it is unknown of one of them.
#[must_use]
pub fn per_cpu_time(resources: &Resources) -> Option<f64> {
    let cpu_ns = own_cores(resources) * resources.window_ns as f64;
    Some(delay_ns(resources)? as f64 / cpu_ns).filter(|share| share.is_finite())
}

/// `its processes waited for a core for 12.0 ms per second of their CPU time`.
pub(crate) fn words(share: f64) -> String {
    let time = figures::duration(share * 1e9);
    format!("its processes waited for a core for {time} per second of their CPU time")
}

/// Run-queue delay of all processes of a trial, in nanoseconds; `None` if it is unknown of one of them.
pub(crate) fn delay_ns(resources: &Resources) -> Option<u64> {
    let all = resources.processes.iter().map(|p| p.run_queue_delay_ns);
    all.sum()
}

fn own_cores(resources: &Resources) -> f64 {
    resources.processes.iter().map(|p| p.cpu_cores).sum()
}

/// Compares the run-queue delay of each trial with those of the other trials of its mesh and load. Adds
/// the comparison to the findings about other processes and the hypervisor, and a suspect finding where
/// they explain a far longer delay without such a finding. Saturation of the trial itself makes its
/// processes wait as well: it is never a reason for this finding.
pub(crate) fn compare(plan: &Plan, trials: &mut [Trial<'_>]) {
    for mesh in &plan.meshes {
        for load in &plan.loads {
            let cell: Vec<(usize, Waits)> = trials
                .iter()
                .enumerate()
                .filter(|(_, t)| {
                    let spec = &t.result.trial;
                    spec.mesh.name == mesh.name && spec.load.name == load.name
                })
                .filter(|(_, t)| is_comparable(t.status))
                .filter_map(|(i, t)| Some((i, Waits::new(t.resources()?)?)))
                .collect();
            for (i, waits) in &cell {
                let others = cell.iter().filter(|(j, _)| j != i).map(|(_, w)| *w);
                let others: Vec<Waits> = others.collect();
                if others.len() >= OTHERS_MIN {
                    let trial = &mut trials[*i];
                    let pressure = trial.resources().and_then(|r| r.machine.pressure);
                    add(&mut trial.verdict, *waits, &others, pressure);
                }
            }
        }
    }
}

fn is_comparable(status: TrialStatus) -> bool {
    use TrialStatus::{LeftOut, RunAgain, Used};
    matches!(status, Used | RunAgain | LeftOut)
}

/// Times per CPU time of the trial.
#[derive(Clone, Copy)]
struct Waits {
    /// Run-queue delay.
    delay: f64,
    /// CPU time that other processes and the hypervisor took.
    taken: f64,
}

impl Waits {
    fn new(resources: &Resources) -> Option<Self> {
        let machine = &resources.machine;
        Some(Self {
            delay: per_cpu_time(resources)?,
            taken: (machine.other_cores + machine.stolen_cores) / own_cores(resources),
        })
    }
}

fn add(verdict: &mut Verdict, waits: Waits, others: &[Waits], pressure: Option<f64>) {
    let usual = |of: fn(&Waits) -> f64| median(&others.iter().map(of).collect::<Vec<_>>());
    let (delay, taken) = (usual(|w| w.delay), usual(|w| w.taken));
    let excess = waits.delay - delay;
    let beside = if delay > 0.0 {
        let times = figures::significant(waits.delay / delay);
        format!("{times} times the median of its other trials at this load")
    } else {
        "and those of its other trials at this load did not wait".to_owned()
    };
    let waited = words(waits.delay);
    let mut known = false;
    for finding in &mut verdict.reasons {
        known |= finding.reason.cause() == Cause::Exogenous;
        if finding.reason == Reason::NoisyNeighbour {
            if !finding.found.contains(&waited) {
                finding.found += &format!("; {waited}");
            }
            finding.found += &format!(", {beside}");
        }
    }
    let far = excess >= EXCESS_MIN && waits.delay >= FAR * delay;
    let explained = waits.taken - taken >= EXPLAINED_MIN * excess;
    let saturated = verdict.reasons.iter().any(|f| f.reason.is_saturation());
    if known || saturated || !far || !explained {
        return;
    }
    let more = figures::duration((waits.taken - taken) * 1e9);
    let mut found = format!(
        "{waited}, {beside}; per second, other processes and the hypervisor took {more} more",
    );
    if let Some(share) = pressure {
        found += &format!(
            "; some process of the machine waited in {:.0} % of the window",
            share * 100.0
        );
    }
    let finding = Finding::new(Grade::Suspect, Reason::NoisyNeighbour, found);
    *verdict = std::mem::take(verdict).and(Verdict::from_findings(vec![finding]));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tare_records::trial::{MachineUse, MemoryKind, ProcessUse};
    use tare_records::worker::Plane;

    use super::*;
    use crate::judge::{Evidence, judge};

    const QUIET: Waits = Waits {
        delay: 0.10,
        taken: 0.01,
    };

    fn added(delay: f64, taken: f64, others: &[Waits], before: &Verdict) -> Vec<String> {
        let mut verdict = before.clone();
        add(&mut verdict, Waits { delay, taken }, others, Some(0.34));
        assert_ne!(verdict.grade, Grade::Invalid);
        verdict.reasons.into_iter().map(|f| f.found).collect()
    }

    #[test]
    fn a_longer_delay_is_a_finding_only_if_others_took_the_time() {
        let found = |delay, taken| added(delay, taken, &[QUIET; 3], &Verdict::default());
        assert!(found(0.11, 0.01).is_empty(), "quiet");
        assert!(found(0.11, 0.30).is_empty(), "it did not wait for them");
        assert_eq!(
            found(0.40, 0.20),
            [
                "its processes waited for a core for 400 ms per second of their CPU time, 4.00 times the \
              median of its other trials at this load; per second, other processes and the \
              hypervisor took 190 ms more; some process of the machine waited in 34 % of the window"
            ]
        );
        assert!(found(0.40, 0.02).is_empty(), "its own queue");
        let slow = [Waits {
            delay: 0.40,
            ..QUIET
        }; 3];
        let found = |delay| added(delay, 0.20, &slow, &Verdict::default()).len();
        assert_eq!((found(0.59), found(0.61)), (0, 1), "1.5 times as long");
        let short = [Waits {
            delay: 0.01,
            ..QUIET
        }; 3];
        let found = added(0.05, 0.20, &short, &Verdict::default());
        assert!(found.is_empty(), "too little");
    }

    #[test]
    fn a_saturated_trial_waits_because_of_itself() {
        let reason = Finding::new(Grade::Suspect, Reason::MachineSaturated, "busy");
        let saturated = Verdict::from_findings(vec![reason]);
        assert_eq!(added(0.40, 0.20, &[QUIET; 3], &saturated), ["busy"]);
    }

    #[test]
    fn a_known_neighbour_gets_the_comparison_and_no_second_finding() {
        let others = format!("others used 0.2; {}", words(0.40));
        let reason = |found| Finding::new(Grade::Suspect, Reason::NoisyNeighbour, found);
        let known = Verdict::from_findings(vec![reason(others.as_str())]);
        assert_eq!(
            added(0.40, 0.20, &[QUIET; 3], &known),
            [format!(
                "{others}, 4.00 times the median of its other trials at this load"
            )]
        );
        let older = Verdict::from_findings(vec![reason("others used 0.2")]);
        let found = added(0.40, 0.20, &[QUIET; 3], &older);
        assert!(found[0].starts_with(&others), "without evidence: {found:?}");
        let never = [Waits {
            delay: 0.0,
            taken: 0.0,
        }; 3];
        assert_eq!(
            added(0.40, 0.20, &never, &known),
            [format!(
                "{others}, and those of its other trials at this load did not wait"
            )]
        );
    }

    #[test]
    fn a_neighbour_is_named_with_what_the_trial_suffered() {
        let waited = |run_queue_delay_ns, stolen_cores| {
            let resources = Resources {
                window_ns: 1_000_000_000,
                processes: vec![ProcessUse {
                    name: "web".into(),
                    plane: Plane::Application,
                    cpu_cores: 0.5,
                    cpu_cores_max: 0.5,
                    run_queue_delay_ns,
                    counters: None,
                    memory_mean_bytes: 0.0,
                    memory_max_bytes: 0,
                    memory_kind: MemoryKind::Rss,
                    rss_mean_bytes: None,
                    throttled_ns: None,
                    gone_at_ns: None,
                }],
                planes: BTreeMap::new(),
                machine: MachineUse {
                    cores: 2,
                    cores_allowed: 2,
                    busy_cores: 1.0,
                    other_cores: 0.1 - stolen_cores / 2.0,
                    stolen_cores,
                    interrupt_cores: Some(0.4),
                    ..MachineUse::default()
                },
                sampling_cores: 0.0,
                kubelet_age_ns_max: None,
                whole_window_cores: None,
            };
            let verdict = judge(&Evidence {
                resources: Some(&resources),
                load: None,
                proofs: &[],
                events: &[],
                incomplete: &[],
                debug_build: false,
            });
            assert_eq!((verdict.grade, verdict.reasons.len()), (Grade::Suspect, 1));
            verdict.reasons[0].found.clone()
        };
        let others = "processes outside the trial used 0.10 of 2 cores, the trial itself 0.50, \
                      interrupts 0.40";
        let wait = "; its processes waited for a core for 12.0 ms per second of their CPU time";
        assert_eq!(waited(Some(6_000_000), 0.0), format!("{others}{wait}"));
        assert_eq!(waited(None, 0.0), others);
        let stolen = format!("the hypervisor took 0.20 of 2 cores{wait}");
        assert_eq!(waited(Some(6_000_000), 0.2), stolen);
    }
}
