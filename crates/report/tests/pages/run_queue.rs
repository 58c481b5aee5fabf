//! Trials that waited for a core longer than the other trials of their mesh and load.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use crate::support::analysed;
use tare_plan::Plan;
use tare_records::summary::{Summary, TrialRow, TrialStatus};
use tare_records::trial::TrialResult;
use tare_records::verdict::{Grade, Reason};

/// The plan with this number of blocks.
fn plan(repeats: u32) -> Plan {
    Plan {
        repeats,
        ..support::quick()
    }
}

/// The processes of this trial wait six times as long, and other processes take this many seconds for
/// each second of CPU time of the trial.
fn disturb(result: &mut TrialResult, taken: f64) {
    let resources = result.resources.as_mut().unwrap();
    for process in &mut resources.processes {
        process.run_queue_delay_ns = process.run_queue_delay_ns.map(|ns| 6 * ns);
    }
    let own: f64 = resources.processes.iter().map(|p| p.cpu_cores).sum();
    resources.machine.other_cores += taken * own;
}

fn is_third_of_envoy(result: &TrialResult) -> bool {
    result.trial.mesh.name == "envoy" && result.trial.block == 2
}

/// The trials that the analysis found disturbed.
fn disturbed(summary: &Summary) -> Vec<&TrialRow> {
    let noisy = |t: &&TrialRow| {
        let mut reasons = t.verdict.reasons.iter();
        reasons.any(|f| f.reason == Reason::NoisyNeighbour)
    };
    summary.trials.iter().filter(noisy).collect()
}

#[test]
fn a_burst_of_other_processes_makes_its_trial_suspect_and_the_trial_is_used() {
    let burst = analysed(&plan(5), |r| {
        if is_third_of_envoy(r) {
            disturb(r, 0.04);
        }
    });
    let found = disturbed(&burst);
    assert!(!found.is_empty());
    for trial in found {
        assert_eq!((trial.mesh.as_str(), trial.block), ("envoy", 2));
        assert_eq!(trial.verdict.grade, Grade::Suspect);
        assert_eq!(trial.status, TrialStatus::Used);
        let sentence = &trial.verdict.reasons[0].found;
        let expected = "its processes waited for a core for 120 ms per second of their CPU time, 6.00 times \
                        the median of its other trials at this load; per second, other processes \
                        and the hypervisor took";
        assert!(sentence.starts_with(expected), "{sentence}");
    }
}

#[test]
fn a_trial_waits_without_a_finding_if_nobody_else_took_the_time() {
    assert!(disturbed(&analysed(&plan(5), |_| ())).is_empty(), "quiet");
    let own = analysed(&plan(5), |r| {
        if is_third_of_envoy(r) {
            disturb(r, 0.0);
        }
    });
    assert!(disturbed(&own).is_empty(), "its own saturation");
    let few = analysed(&plan(3), |r| {
        if is_third_of_envoy(r) {
            disturb(r, 0.04);
        }
    });
    assert!(disturbed(&few).is_empty(), "two others are too few");
}

#[test]
fn runs_without_the_counter_have_no_figure_and_no_finding() {
    let old = analysed(&plan(5), |r| {
        if is_third_of_envoy(r) {
            disturb(r, 0.04);
        }
        for process in &mut r.resources.as_mut().unwrap().processes {
            process.run_queue_delay_ns = None;
        }
    });
    assert!(disturbed(&old).is_empty());
    let unknown = |t: &TrialRow| {
        t.run_queue_delay_per_cpu_time.is_none() && t.run_queue_delay_per_request_ns.is_none()
    };
    assert!(old.trials.iter().all(unknown));
    let new = analysed(&plan(1), |_| ());
    for trial in &new.trials {
        assert!((trial.run_queue_delay_per_cpu_time.unwrap() - 0.02).abs() < 1e-6);
        let cores = 0.02 * trial.data_plane_cores.unwrap();
        let of_proxies_ns = cores / trial.achieved_rps.unwrap() * 1e9;
        assert!(trial.run_queue_delay_per_request_ns.unwrap() > of_proxies_ns);
    }
}
