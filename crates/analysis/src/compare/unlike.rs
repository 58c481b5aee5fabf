//! In what two runs differ besides what they measured.

use std::collections::BTreeSet;

use tare_model::layout::{Fingerprint, IdleCores, RunManifest};
use tare_model::plan::Plan;

use tare_stats::order::median;

/// Sentences without their full stop; none where the runs are alike.
pub(crate) fn warnings(before: &RunManifest, after: &RunManifest) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, b: String, a: String| {
        if a != b {
            found.push(format!("{what}: {b} before, {a} after"));
        }
    };
    let (b, a) = (&before.fingerprint, &after.fingerprint);
    let none = |x: &Option<String>| x.clone().unwrap_or_else(|| "none".to_owned());
    differ("processor", b.cpu_model.clone(), a.cpu_model.clone());
    differ("cores", b.cores.to_string(), a.cores.to_string());
    differ("memory", bytes(b), bytes(a));
    differ("kernel", b.kernel.clone(), a.kernel.clone());
    differ("clock source", b.clocksource.clone(), a.clocksource.clone());
    differ("frequency governor", none(&b.governor), none(&a.governor));
    let idle = |f: &Fingerprint| f.idle.as_ref().map_or("not known", IdleCores::state);
    differ("idle cores", idle(b).to_owned(), idle(a).to_owned());
    differ("hypervisor", none(&b.virtualised), none(&a.virtualised));
    differ(
        "tare",
        before.tare_version.clone(),
        after.tare_version.clone(),
    );
    differ(
        "build of tare",
        before.tare_build.clone(),
        after.tare_build.clone(),
    );
    let names: BTreeSet<&String> = b.programs.keys().chain(a.programs.keys()).collect();
    for name in names {
        let version = |f: &Fingerprint| none(&f.programs.get(name).cloned());
        differ(name, version(b), version(a));
    }
    plans(&before.plan, &after.plan, &mut found);
    found
}

/// The same of the cores' distance from each other, in nanoseconds, at each look.
pub(crate) fn cores(before: &[f64], after: &[f64]) -> Option<String> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let [b, a] = [before, after].map(median);
    crate::cores::moved(b, a).then(|| {
        let [b, a] = [b, a].map(crate::figures::nanoseconds);
        format!("a cache line between cores, which requests wait for: {b} before, {a} after")
    })
}

fn bytes(fingerprint: &Fingerprint) -> String {
    crate::figures::bytes(fingerprint.memory_bytes as f64)
}

fn plans(before: &Plan, after: &Plan, found: &mut Vec<String>) {
    let workload = |p: &Plan| {
        let w = &p.workload;
        format!("{} x {}, mix {}", w.graph.name, w.instances, w.mix)
    };
    if before.workload != after.workload {
        let (b, a) = (workload(before), workload(after));
        found.push(if a == b {
            format!("the graph of {a} is not the same")
        } else {
            format!("workload: {b} before, {a} after")
        });
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
    for mesh in &after.meshes {
        match before.meshes.iter().find(|m| m.name == mesh.name) {
            Some(other)
                if other.settings != mesh.settings || other.data_plane != mesh.data_plane =>
            {
                found.push(format!("{} has other settings", mesh.name));
            }
            Some(_) => {}
            None => found.push(format!("{} is in the later run only", mesh.name)),
        }
    }
    for load in &after.loads {
        match before.loads.iter().find(|l| l.name == load.name) {
            Some(other) if other != load => {
                found.push(format!("the load {} has other settings", load.name));
            }
            Some(_) => {}
            None => found.push(format!("the load {} is in the later run only", load.name)),
        }
    }
    let gone = |name: &str, there: bool, found: &mut Vec<String>| {
        if !there {
            found.push(format!("{name} is in the earlier run only"));
        }
    };
    for mesh in &before.meshes {
        gone(
            &mesh.name,
            after.meshes.iter().any(|m| m.name == mesh.name),
            found,
        );
    }
    for load in &before.loads {
        let there = after.loads.iter().any(|l| l.name == load.name);
        gone(&format!("the load {}", load.name), there, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_were_moved_between_the_runs_are_said() {
        let near = [38.0, 40.0, 190.0];
        assert_eq!(cores(&near, &[37.0]), None);
        assert_eq!(cores(&[], &near), None, "an earlier version did not look");
        let said =
            "a cache line between cores, which requests wait for: 40 ns before, 190 ns after";
        assert_eq!(cores(&near, &[190.0]).as_deref(), Some(said));
        assert!(cores(&[190.0], &near).is_some());
    }
}
