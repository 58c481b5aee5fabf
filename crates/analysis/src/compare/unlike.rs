//! In what two runs differ besides what they measured.

use tare_model::layout::{PlatformDifference, RunManifest};
use tare_model::mesh::Mesh;
use tare_model::plan::{Load, Plan};

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
        Some(i) if other(&before[i], a) => Some(format!("{} has other settings", name(a))),
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
