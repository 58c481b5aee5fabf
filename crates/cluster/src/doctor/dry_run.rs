//! Server-side dry runs of the objects of a run: the API server asks admission, and stores nothing.

use std::collections::BTreeSet;

use super::planned::{Planned, PlannedRun};
use super::{Check, failed, note, passed};
use crate::api::{ApiClient, ApiError};
use crate::objects::names::name_of;

/// Most refusals that are listed.
const SHOWN_MAX: usize = 8;
/// Part of the messages of the API server.
const POD_SECURITY: &str = "violates PodSecurity";

/// Objects that are refused for the same reason.
struct Refusal {
    /// The words of the message without the name and the namespace of the object.
    key: String,
    message: String,
    titles: Vec<String>,
}

/// Tries all objects, and names each refusal.
pub(super) async fn check(api: &ApiClient, run: &PlannedRun) -> Vec<Check> {
    let requests = run.objects.iter().map(|p| (p.path.clone(), &p.object));
    let results = api.dry_run_all(requests).await;
    let mut refusals: Vec<Refusal> = Vec::new();
    let mut skipped = run.unserved;
    let mut untried = BTreeSet::new();
    let mut admitted = 0;
    let mut pods_admitted = 0;
    for (planned, result) in run.objects.iter().zip(results) {
        match result {
            Ok(()) => {
                admitted += 1;
                pods_admitted += usize::from(planned.object["kind"] == "Pod");
            }
            // What it refers to does not exist before the run, such as the Role of a RoleBinding.
            Err(error) if error.is_not_found() => skipped += 1,
            Err(error) if error.found.contains("does not support dry run") => {
                untried.insert(error.found);
            }
            Err(error) => add(&mut refusals, planned, error),
        }
    }
    let mut checks: Vec<Check> = refusals.iter().take(SHOWN_MAX).map(line).collect();
    if let Some(more) = refusals.len().checked_sub(SHOWN_MAX).filter(|n| *n > 0) {
        checks.push(failed("dry run", format!("{more} more refusals")));
    }
    for found in untried {
        let text = format!("objects that this webhook decides on were not tried: {found}");
        checks.push(note("dry run", text));
    }
    for found in &run.unknown {
        checks.push(note("dry run", format!("charts were not tried: {found}")));
    }
    if checks
        .iter()
        .all(|c| c.good != Some(false) || c.what != "dry run")
    {
        let text = format!(
            "{admitted} objects of a run are admitted; {skipped} were not tried, because their kind, or what they refer to, \
             does not exist before the run"
        );
        checks.push(passed("dry run", text));
    }
    if checks.iter().all(|c| c.what != "podsecurity") {
        checks.push(match pods_admitted {
            0 => note("podsecurity", "not decided: no pod was admitted"),
            _ => passed("podsecurity", "no namespace of a run refuses its pods"),
        });
    }
    checks
}

fn add(refusals: &mut Vec<Refusal>, planned: &Planned, error: ApiError) {
    let namespace = planned.object["metadata"]["namespace"].as_str();
    let own = [Some(name_of(&planned.object)), namespace];
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    let words = error.found.split(|c| !is_part(c));
    let key: Vec<&str> = words.filter(|word| !own.contains(&Some(word))).collect();
    let key = key.join(" ");
    let title = planned.title.clone();
    match refusals.iter_mut().find(|r| r.key == key) {
        Some(refusal) => refusal.titles.push(title),
        None => refusals.push(Refusal {
            key,
            message: error.found,
            titles: vec![title],
        }),
    }
}

fn line(refusal: &Refusal) -> Check {
    let (first, more) = (&refusal.titles[0], refusal.titles.len() - 1);
    let more = match more {
        0 => String::new(),
        n => format!(" and {n} more objects"),
    };
    let message = refusal.message.trim();
    let (what, remedy) = remedy(message);
    failed(what, format!("{first}{more}: {message}; {remedy}"))
}

/// The subject of a refusal, and what to do about it.
fn remedy(message: &str) -> (&'static str, &'static str) {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&[POD_SECURITY]) {
        let remedy = "set `kubernetes.namespace_labels: {pod-security.kubernetes.io/enforce: privileged}`, or use the mesh \
                      with its CNI plugin";
        ("podsecurity", remedy)
    } else if has(&[
        "exceeded quota",
        "failed quota",
        "maximum cpu",
        "maximum memory",
        "minimum cpu",
        "minimum memory",
    ]) {
        let remedy = "set `kubernetes.pod.resources` to what the quota or the LimitRange allows, or raise it";
        ("dry run", remedy)
    } else if has(&["failed calling webhook"]) {
        let remedy = "the webhook does not respond: repair the program behind its Service, or delete the webhook \
                      configuration if the program is gone";
        ("dry run", remedy)
    } else if has(&["denied the request", "ValidatingAdmissionPolicy"]) {
        let remedy = "set what the policy requires in `kubernetes.pod` (labels, annotations, resources, tolerations) or \
                      `kubernetes.namespace_labels`, or exempt namespaces with the label \
                      app.kubernetes.io/managed-by=tare from it";
        ("dry run", remedy)
    } else if has(&["PriorityClass"]) {
        (
            "dry run",
            "set `kubernetes.pod.priority_class` to a class of this cluster",
        )
    } else if has(&[
        "cannot create resource",
        "cannot patch resource",
        "attempting to grant RBAC",
    ]) {
        (
            "dry run",
            "`tare doctor --rbac --plan PLAN` prints the role",
        )
    } else {
        ("dry run", "a run would fail with the same message")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_refusal_has_a_remedy() {
        let messages = [
            (
                "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": x",
                "namespace_labels",
            ),
            (
                "pods \"a\" is forbidden: exceeded quota: q, requested: cpu=1",
                "resources",
            ),
            (
                "Internal error occurred: failed calling webhook \"a.b\": no endpoints",
                "repair",
            ),
            (
                "admission webhook \"a.b\" denied the request: no label",
                "exempt",
            ),
            (
                "no PriorityClass with name high was found",
                "priority_class",
            ),
            ("User \"u\" cannot create resource \"pods\"", "--rbac"),
            ("anything else", "same message"),
        ];
        for (message, part) in messages {
            let (what, remedy) = remedy(message);
            assert!(remedy.contains(part), "{message}: {remedy}");
            assert_eq!(what == "podsecurity", message.contains(POD_SECURITY));
        }
    }
}
