//! Differences between the setups of two runs: machine, versions, plan and core-to-core latency.

use tare_plan::graph::Chart;
use tare_plan::mesh::Mesh;
use tare_plan::{EnvironmentKind, Load, Plan, Workload};
use tare_records::layout::{PlatformDifference, RunManifest};

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
const MEASURING: [&str; 10] = [
    "duration_ns",
    "warmup_ns",
    "threads",
    "pace",
    "capacity.samples",
    "capacity.min_rps",
    "capacity.max_rps",
    "capacity.start_rps",
    "capacity.tolerance",
    "capacity.budget_ns",
];

/// Settings of a workload that only describe it, or name files of this machine: the folder of a
/// plan is part of their paths.
const DESCRIBING: [&str; 4] = [
    "graph.description",
    "graph.application.manifests[",
    "graph.application.kustomize",
    "graph.application.chart.values_files[",
];

/// [`DESCRIBING`], with the place of the chart if both are on this machine.
fn describing(before: &Workload, after: &Workload) -> Vec<&'static str> {
    let is_local = |w: &Workload| {
        let chart = w.graph.application.as_ref().and_then(|a| a.chart.as_ref());
        chart.is_some_and(Chart::is_local)
    };
    let mut paths = DESCRIBING.to_vec();
    if is_local(before) && is_local(after) {
        paths.push("graph.application.chart.chart");
    }
    paths
}

/// Describes differences in what the applications are and receive: with them, a figure of both runs is
/// not the same figure.
pub(crate) fn workloads(before: &Plan, after: &Plan) -> Vec<String> {
    workloads_except(before, after, describing)
}

/// The same without the settings at the paths that `ignored` returns.
fn workloads_except(
    before: &Plan,
    after: &Plan,
    ignored: impl Fn(&Workload, &Workload) -> Vec<&'static str>,
) -> Vec<String> {
    let mut found = Vec::new();
    let differences = |b: &Workload, a: &Workload| settings::differences(b, a, &ignored(b, a));
    let workload = differences(&before.workload, &after.workload);
    if !workload.is_empty() {
        found.push(format!("workload: {}", settings::listed(&workload)));
    }
    let own = |p: &Plan| p.sweep.clone().map(|s| s.workloads).unwrap_or_default();
    let (b, a) = (own(before), own(after));
    let is_same = b.keys().eq(a.keys())
        && b.values()
            .zip(a.values())
            .all(|(b, a)| differences(b, a).is_empty());
    if workload.is_empty() && !is_same {
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
    found.extend(workloads_except(before, after, |_, _| Vec::new()));
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
    use tare_plan::LoadKind;

    use super::*;

    #[test]
    fn what_only_describes_or_measures_a_workload_is_a_warning() {
        let text = "meshes: [bare, envoy]\nload: {rate: 100}\nrepeats: 2";
        let resolved = tare_plan::resolve("p.yaml", text, &[], &|_| Err(String::new()));
        let plan = |folder: &str, chart: &str| {
            let mut plan = resolved.clone().unwrap();
            plan.workload.graph.description = format!("from {folder}");
            let path = |name: &str| format!("{folder}/{name}");
            plan.workload.graph.application = serde_json::from_value(serde_json::json!({
                "manifests": [path("app.yaml")],
                "kustomize": path("kustomize"),
                "chart": {"chart": chart, "values_files": [path("values.yaml")]},
            }))
            .unwrap();
            plan.loads[0].kind =
                serde_json::from_value(serde_json::json!({"rate_rps": 0.0, "capacity": {
                    "objectives": ["p99<20ms"], "samples": 300 + folder.len(), "min_rps": 1.0,
                    "max_rps": 1e6, "start_rps": 100.0, "tolerance": 0.05, "budget_ns": folder.len()
                }}))
                .unwrap();
            plan
        };
        let both = |b: &Plan, a: &Plan| {
            let mut warnings = Vec::new();
            plans(b, a, &mut warnings);
            (workloads(b, a), warnings)
        };
        let (before, mut after) = (plan("/a", "/a/chart"), plan("/a/b", "/a/b/chart"));
        assert_eq!(both(&before, &before), (Vec::new(), Vec::new()));
        let (refused, warnings) = both(&before, &after);
        assert_eq!(refused, Vec::<String>::new());
        let all = warnings.join("; ");
        for path in [
            "kustomize: ",
            "and 1 more",
            "capacity.budget: ",
            "samples: ",
        ] {
            assert!(all.contains(path), "{path}: {all}");
        }
        let mut described = before.clone();
        described.workload.graph.description.clear();
        let (refused, warnings) = both(&before, &described);
        assert_eq!(refused, Vec::<String>::new());
        assert!(warnings[0].contains("graph.description: "), "{warnings:?}");
        // The chart of a repository is another one.
        let (refused, _) = both(&before, &plan("/a", "shop"));
        assert!(
            refused[0].contains("graph.application.chart.chart: "),
            "{refused:?}"
        );
        // So are other objectives, and more files.
        if let LoadKind::Capacity(search) = &mut after.loads[0].kind {
            search.objectives.clear();
        }
        let manifests = |p: &mut Plan| {
            p.workload
                .graph
                .application
                .as_mut()
                .unwrap()
                .manifests
                .clear()
        };
        manifests(&mut after);
        let (refused, _) = both(&before, &after);
        assert!(
            refused[0].contains("graph.application.manifests: "),
            "{refused:?}"
        );
        assert!(refused[1].contains("capacity.objectives: "), "{refused:?}");
    }

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
