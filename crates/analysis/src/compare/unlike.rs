//! In what two runs differ besides what they measured.

use tare_model::layout::{PlatformDifference, RunManifest};
use tare_model::plan::Plan;

use tare_stats::order::median;

/// Sentences without their full stop; none where the runs are alike.
pub(crate) fn warnings(before: &RunManifest, after: &RunManifest) -> Vec<String> {
    let differences = before.platform().differences(after.platform());
    let words =
        |d: &PlatformDifference| format!("{}: {} before, {} after", d.what, d.before, d.after);
    let mut found: Vec<String> = differences.iter().map(words).collect();
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
