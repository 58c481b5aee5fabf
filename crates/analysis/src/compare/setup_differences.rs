//! Differences between the setups of two runs: machine, versions, plan and core-to-core latency.

use tare_model::layout::{PlatformDifference, RunManifest};
use tare_model::mesh::Mesh;
use tare_model::plan::{EnvironmentKind, Load, Plan};

use tare_stats::order::median;

use crate::compare::figures::Side;
use crate::compare::settings;
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

/// Settings of a load that change how long and with what it is measured, and not what the application
/// receives.
const MEASURING: [&str; 4] = ["duration_ns", "warmup_ns", "threads", "pace"];

/// Describes differences in what the applications are and receive: with them, a figure of both runs is
/// not the same figure.
pub(crate) fn workloads(before: &Plan, after: &Plan) -> Vec<String> {
    let mut found = Vec::new();
    let workload = settings::differences(&before.workload, &after.workload, &[]);
    if !workload.is_empty() {
        found.push(format!("workload: {}", settings::listed(&workload)));
    }
    let own = |p: &Plan| p.sweep.as_ref().map(|s| s.workloads.clone());
    if workload.is_empty() && own(before) != own(after) {
        found.push("what varies from load to load is different".to_owned());
    }
    let pairs = after.loads.iter().filter_map(|a| {
        let b = before.loads.iter().find(|b| b.name == a.name)?;
        let found = settings::differences(b, a, &MEASURING);
        (!found.is_empty()).then(|| format!("the load {}: {}", a.name, settings::listed(&found)))
    });
    found.extend(pairs);
    found
}

fn plans(before: &Plan, after: &Plan, found: &mut Vec<String>) {
    found.extend(workloads(before, after));
    if before.environment != after.environment {
        let word = |environment| match environment {
            EnvironmentKind::Local => "local",
            EnvironmentKind::Kubernetes => "kubernetes",
            EnvironmentKind::Fake => "virtual time",
        };
        let [b, a] = [before, after].map(|p| word(p.environment));
        found.push(format!("environment: {b} before, {a} after"));
    }
    if before.baseline != after.baseline {
        found.push(format!(
            "baseline: {} before, {} after",
            before.baseline, after.baseline
        ));
    }
    let name = |mesh: &Mesh| mesh.name.clone();
    found.extend(lists(&before.meshes, &after.meshes, name, |b, a| {
        let found = settings::differences(b, a, &["title"]).into_iter();
        found
            .map(|d| d.trim_start_matches("settings.").to_owned())
            .collect()
    }));
    let name = |load: &Load| format!("the load {}", load.name);
    found.extend(lists(&before.loads, &after.loads, name, |b, a| {
        let all = settings::differences(b, a, &[]);
        let offered = settings::differences(b, a, &MEASURING);
        // The others are listed with the workload.
        all.into_iter().filter(|d| !offered.contains(d)).collect()
    }));
}

/// The items that only one of two runs has, and the settings that differ in the others.
fn lists<T>(
    before: &[T],
    after: &[T],
    name: impl Fn(&T) -> String,
    differences: impl Fn(&T, &T) -> Vec<String>,
) -> Vec<String> {
    let twin = |of: &T, all: &[T]| all.iter().position(|one| name(one) == name(of));
    let later = after.iter().filter_map(|a| match twin(a, before) {
        Some(i) => {
            let found = differences(&before[i], a);
            (!found.is_empty()).then(|| format!("{}: {}", name(a), settings::listed(&found)))
        }
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
