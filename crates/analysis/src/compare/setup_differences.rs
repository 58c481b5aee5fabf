//! Differences between the setups of two runs: machine, versions, plan and core-to-core latency.

use tare_model::layout::{PlatformDifference, RunManifest};
use tare_model::mesh::Mesh;
use tare_model::plan::{Load, Plan};

use tare_stats::order::median;

use crate::compare::figures::Side;
use crate::trials::StoredTrial;

/// Describes each difference in machine, versions and plan, without a full stop.
pub(crate) fn warnings(before: &RunManifest, after: &RunManifest) -> Vec<String> {
    let differences = before.platform().differences(after.platform());
    let words =
        |d: &PlatformDifference| format!("{}: {} before, {} after", d.what, d.before, d.after);
    let mut found: Vec<String> = differences.iter().map(words).collect();
    plans(&before.plan, &after.plan, &mut found);
    found
}

/// Describes a change of the core-to-core latencies, in nanoseconds, if the host moved the cores.
pub(crate) fn cores(before: &[f64], after: &[f64]) -> Option<String> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let [b, a] = [before, after].map(median);
    crate::cores::moved(b, a).then(|| {
        let [b, a] = [b, a].map(crate::figures::nanoseconds);
        format!("core-to-core latency, which affects every request: {b} before, {a} after")
    })
}

/// What a run may measure or not, and what measuring it costs the trials.
struct Optional {
    what: &'static str,
    costs: &'static str,
    has: fn(&StoredTrial) -> bool,
}

const OPTIONAL: [Optional; 2] = [
    Optional {
        what: "run-queue delay",
        costs: "reading it takes CPU time",
        has: |t| {
            let mut samples = t.result.resources.iter().flat_map(|r| &r.processes);
            samples.any(|p| p.run_queue_delay_ns.is_some())
        },
    },
    Optional {
        what: "time of the calls between services",
        costs: "timing adds to each call",
        has: |t| t.calls.is_some(),
    },
];

/// Describes what only one of two runs measured.
pub(crate) fn measured(before: &[StoredTrial], after: &[StoredTrial]) -> Vec<String> {
    let words = |o: &Optional| {
        let [b, a] = [before, after].map(|trials| trials.iter().any(o.has));
        let word = |measured| if measured { "measured" } else { "not measured" };
        (b != a).then(|| {
            format!(
                "{}: {} before, {} after; {}",
                o.what,
                word(b),
                word(a),
                o.costs
            )
        })
    };
    OPTIONAL.iter().filter_map(words).collect()
}

/// Describes what only some of several clusters measured.
pub(crate) fn measured_in_part(clusters: &[(&str, Side<'_>)]) -> Vec<String> {
    let words = |o: &Optional| {
        let measured = clusters
            .iter()
            .filter(|(_, side)| side.trials.iter().any(o.has));
        let names: Vec<&str> = measured.map(|(context, _)| *context).collect();
        let part = !names.is_empty() && names.len() < clusters.len();
        part.then(|| {
            format!(
                "{}: measured on {} only; {}",
                o.what,
                names.join(" and "),
                o.costs
            )
        })
    };
    OPTIONAL.iter().filter_map(words).collect()
}

fn plans(before: &Plan, after: &Plan, found: &mut Vec<String>) {
    let workload = |p: &Plan| {
        let w = &p.workload;
        format!("{} x {}, mix {}", w.graph.name, w.instances, w.mix)
    };
    if before.workload != after.workload {
        let (b, a) = (workload(before), workload(after));
        found.push(if a == b {
            format!("workload {a}: the service graph is different")
        } else {
            format!("workload: {b} before, {a} after")
        });
    }
    let own = |p: &Plan| p.sweep.as_ref().map(|s| s.workloads.clone());
    if before.workload == after.workload && own(before) != own(after) {
        found.push("what varies from load to load is different".to_owned());
    }
    if before.environment != after.environment {
        found.push("the runs are from different environments".to_owned());
    }
    if before.baseline != after.baseline {
        found.push(format!(
            "baseline: {} before, {} after",
            before.baseline, after.baseline
        ));
    }
    let other = |a: &Mesh, b: &Mesh| a.settings != b.settings || a.data_plane != b.data_plane;
    let name = |mesh: &Mesh| mesh.name.clone();
    found.extend(lists(&before.meshes, &after.meshes, name, other));
    let name = |load: &Load| format!("the load {}", load.name);
    found.extend(lists(&before.loads, &after.loads, name, Load::ne));
}

/// The items that only one of two runs has, and those whose settings differ.
fn lists<T>(
    before: &[T],
    after: &[T],
    name: impl Fn(&T) -> String,
    other: impl Fn(&T, &T) -> bool,
) -> Vec<String> {
    let twin = |of: &T, all: &[T]| all.iter().position(|one| name(one) == name(of));
    let later = after.iter().filter_map(|a| match twin(a, before) {
        Some(i) if other(&before[i], a) => Some(format!("{} has different settings", name(a))),
        Some(_) => None,
        None => Some(format!("{} is in the later run only", name(a))),
    });
    let earlier = before.iter().filter(|b| twin(b, after).is_none());
    let earlier = earlier.map(|b| format!("{} is in the earlier run only", name(b)));
    later.chain(earlier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_core_to_core_latency_is_a_warning() {
        let near = [38.0, 40.0, 190.0];
        assert_eq!(cores(&near, &[37.0]), None);
        assert_eq!(cores(&[], &near), None, "not measured before");
        let warning =
            "core-to-core latency, which affects every request: 40 ns before, 190 ns after";
        assert_eq!(cores(&near, &[190.0]).as_deref(), Some(warning));
        assert!(cores(&[190.0], &near).is_some());
    }
}
