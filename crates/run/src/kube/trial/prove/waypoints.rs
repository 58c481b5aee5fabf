//! Proves that every instance of the application has a ready waypoint, and that the waypoints counted the load.

use serde_json::Value;
use tare_model::trial::Proof;

use super::super::deployment::Deployment;
use super::counters::Statistics;
use crate::environment::proof;
use crate::kube::api::kinds::POD;
use crate::kube::api::{ApiClient, ApiError};
use crate::kube::objects::Pod;

/// Returns the pods of the waypoints of the instances.
pub(crate) async fn pods(api: &ApiClient, deployment: &Deployment) -> Result<Vec<Value>, ApiError> {
    let selector = deployment
        .section()
        .and_then(|s| s.parts.waypoints.as_ref());
    let Some(selector) = selector else {
        return Ok(Vec::new());
    };
    let mut pods = api.list(POD, None, selector).await?;
    pods.retain(|p| deployment.names.owns(Pod(p).namespace()) && !Pod(p).is_terminating());
    Ok(pods)
}

/// Returns the proof that every instance has a ready waypoint; `None` for a mesh without waypoints.
pub(crate) fn ready(deployment: &Deployment, waypoints: &[Value]) -> Option<Proof> {
    let selector = deployment.section()?.parts.waypoints.as_ref()?;
    let pods = || waypoints.iter().map(Pod);
    let has = |namespace: &str| pods().any(|p| p.namespace() == namespace && p.is_ready());
    let namespaces = deployment.instance_namespaces();
    let missing: Vec<&String> = namespaces.iter().filter(|n| !has(n)).collect();
    let (all, ready) = (namespaces.len(), namespaces.len() - missing.len());
    let mut seen = match ready {
        0 => format!("no waypoint is ready in {all} instances"),
        _ => format!("a waypoint is ready in {ready} of {all} instances"),
    };
    if let Some(first) = missing.first() {
        let pod = pods().find(|p| p.namespace() == first.as_str());
        seen += &match pod {
            Some(pod) => format!("; {}: {}", pod.key(), pod.not_ready_reason()),
            None => format!("; the namespace {first} has no pod with the label {selector}"),
        };
    }
    let claim = "every instance has a ready waypoint";
    Some(proof(claim, missing.is_empty(), seen))
}

/// Proves after the load that the counters of the waypoints grew; `None` without a source of them.
pub(super) fn grew(deployment: &Deployment, statistics: &Statistics, sent: f64) -> Option<Proof> {
    deployment.section()?.waypoint_proof.as_ref()?;
    let grown = statistics.growth(&deployment.counters);
    let requests = grown.iter().fold(0.0, |sum, (.., n)| sum + n);
    let answered = statistics.answered(&deployment.names);
    let with_tcp = deployment.tcp_request_bytes.is_some();
    Some(counted(requests, sent, with_tcp, &answered))
}

/// Proves that the waypoints counted every request of the load. Waypoints count no requests to TCP services, so with
/// such services in the load, it is enough that they counted some.
fn counted(requests: f64, sent: f64, with_tcp: bool, answered: &str) -> Proof {
    let seen = format!("{requests} requests counted, {sent} sent, {answered}");
    let (claim, holds) = match with_tcp {
        false => ("the waypoints counted every request", requests >= sent),
        true => ("the waypoints' counters grew", requests > 0.0),
    };
    proof(claim, holds && sent > 0.0, seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waypoints_must_count_every_request() {
        assert!(counted(10.0, 10.0, false, "").holds);
        assert!(!counted(9.0, 10.0, false, "").holds);
        assert!(counted(1.0, 10.0, true, "").holds);
        assert!(!counted(0.0, 10.0, true, "").holds);
        assert!(!counted(0.0, 0.0, false, "").holds, "nothing was sent");
    }
}
