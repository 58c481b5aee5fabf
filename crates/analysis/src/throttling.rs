//! Findings about CPU quotas. A quota stops all threads of a control group until its period ends, so
//! requests wait tens of milliseconds.

use tare_records::trial::{ProcessUse, Resources};
use tare_records::verdict::{Finding, Grade, Reason};

/// A trial is invalid if a quota stopped one of its containers for more than this share of the window, summed over
/// cores, and suspect if a quota stopped one at all.
const THROTTLED_INVALID: f64 = 0.01;

/// Adds findings if a quota stopped the control group of the whole trial, or containers.
pub(crate) fn findings(resources: &Resources, findings: &mut Vec<Finding>) {
    if let Some(ns) = resources.machine.throttled_ns.filter(|&ns| ns > 0) {
        let found = format!(
            "a CPU quota stopped the trial's control group for {:.3} ms",
            ns as f64 / 1e6
        );
        findings.push(Finding {
            remedy: "Remove the CPU quota of the control group or container that tare runs in."
                .to_owned(),
            ..Finding::new(Grade::Invalid, Reason::Throttled, found)
        });
    }
    findings.extend(of_containers(resources));
}

fn of_containers(resources: &Resources) -> Option<Finding> {
    let stopped = |p: &&ProcessUse| p.throttled_ns.is_some_and(|ns| ns > 0);
    let all: Vec<&ProcessUse> = resources.processes.iter().filter(stopped).collect();
    let most = all.iter().max_by_key(|p| p.throttled_ns)?;
    let ns = most.throttled_ns? as f64;
    let share = ns / resources.window_ns.max(1) as f64;
    let more = match all.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let grade = match share > THROTTLED_INVALID {
        true => Grade::Invalid,
        false => Grade::Suspect,
    };
    let found = format!(
        "a CPU limit stopped {} for {:.1} ms, summed over cores ({:.2} % of the window){more}",
        most.name,
        ns / 1e6,
        100.0 * share
    );
    Some(Finding {
        remedy: "Raise or remove the CPU limit of the container, or lower the rate.".to_owned(),
        ..Finding::new(grade, Reason::Throttled, found)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use tare_records::trial::{MachineUse, MemoryKind};
    use tare_records::worker::Plane;

    /// The findings in a window of 10 s.
    fn of(machine: Option<u64>, containers: &[(&str, Option<u64>)]) -> Vec<(Grade, String)> {
        let process = |(name, throttled_ns): &(&str, Option<u64>)| ProcessUse {
            name: (*name).to_owned(),
            plane: Plane::DataPlane,
            cpu_cores: 0.1,
            cpu_cores_max: 0.1,
            run_queue_delay_ns: None,
            counters: None,
            memory_mean_bytes: 1.0,
            memory_max_bytes: 1,
            memory_kind: MemoryKind::WorkingSet,
            rss_mean_bytes: None,
            throttled_ns: *throttled_ns,
            gone_at_ns: None,
        };
        let resources = Resources {
            window_ns: 10_000_000_000,
            processes: containers.iter().map(process).collect(),
            planes: BTreeMap::new(),
            machine: MachineUse {
                throttled_ns: machine,
                ..MachineUse::default()
            },
            sampling_cores: 0.0,
            kubelet_age_ns_max: None,
            whole_window_cores: None,
        };
        let mut found = Vec::new();
        findings(&resources, &mut found);
        assert!(found.iter().all(|f| f.reason == Reason::Throttled));
        found.into_iter().map(|f| (f.grade, f.found)).collect()
    }

    #[test]
    fn any_throttling_of_the_trial_is_invalid() {
        assert_eq!(of(None, &[]), []);
        assert_eq!(of(Some(0), &[]), []);
        let text = "a CPU quota stopped the trial's control group for 1.500 ms".to_owned();
        assert_eq!(of(Some(1_500_000), &[]), [(Grade::Invalid, text)]);
    }

    #[test]
    fn throttling_of_containers_is_judged_by_its_share_of_the_window() {
        assert_eq!(of(None, &[("a", None), ("b", Some(0))]), []);
        let text = "a CPU limit stopped b for 90.0 ms, summed over cores (0.90 % of the window)"
            .to_owned();
        let found = of(None, &[("a", None), ("b", Some(90_000_000))]);
        assert_eq!(found, [(Grade::Suspect, text)]);
        let text = "a CPU limit stopped a for 110.0 ms, summed over cores (1.10 % of the window), and 1 more";
        let found = of(None, &[("a", Some(110_000_000)), ("b", Some(1))]);
        assert_eq!(found, [(Grade::Invalid, text.to_owned())]);
    }
}
