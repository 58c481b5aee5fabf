//! Proves that the proxies of instances (waypoints, gateways) are ready, and that they counted the load.

use std::collections::BTreeMap;

use tare_plan::mesh::InstanceProxy;
use tare_records::trial::Proof;

use super::super::deployment::Deployment;
use super::counters::Statistics;
use crate::api::kinds::POD;
use crate::api::{ApiClient, ApiError};
use crate::objects::Pod;
use tare_run::environment::proof;

/// Pods by kind of proxy, with an entry for each kind that the mesh has.
pub(crate) type Pods = BTreeMap<InstanceProxy, Vec<Pod>>;

/// The label selector of a kind and its namespaces: those of the instances, or one for all.
struct Place<'a> {
    selector: &'a str,
    common: Option<&'a str>,
    namespaces: Vec<String>,
}

fn place(deployment: &Deployment, kind: InstanceProxy) -> Option<Place<'_>> {
    let section = deployment.section()?;
    let common = section.namespace_of(kind);
    Some(Place {
        selector: section.selector_of(kind)?,
        common,
        namespaces: match common {
            Some(namespace) => vec![namespace.to_owned()],
            None => deployment.instance_namespaces(),
        },
    })
}

/// Returns the pods of the proxies.
pub(crate) async fn pods(api: &ApiClient, deployment: &Deployment) -> Result<Pods, ApiError> {
    let mut all = Pods::new();
    for kind in InstanceProxy::ALL {
        let Some(place) = place(deployment, kind) else {
            continue;
        };
        let mut pods: Vec<Pod> = api.list(POD, place.common, place.selector).await?;
        pods.retain(|pod| {
            let is_known = place.namespaces.iter().any(|n| n == pod.namespace());
            is_known && !pod.is_terminating()
        });
        all.insert(kind, pods);
    }
    Ok(all)
}

/// Returns the proofs that every namespace of a kind has a ready proxy.
pub(crate) fn ready(deployment: &Deployment, pods: &Pods) -> Vec<Proof> {
    let of = |(kind, pods): (&InstanceProxy, &Vec<Pod>)| {
        let place = place(deployment, *kind)?;
        Some(ready_in(&place, kind.name(), pods))
    };
    pods.iter().filter_map(of).collect()
}

fn ready_in(place: &Place<'_>, name: &str, pods: &[Pod]) -> Proof {
    let namespaces = &place.namespaces;
    let is_ready = |p: &Pod, namespace: &str| p.namespace() == namespace && p.is_ready();
    let has = |namespace: &str| pods.iter().any(|p| is_ready(p, namespace));
    let missing: Vec<&String> = namespaces.iter().filter(|n| !has(n)).collect();
    let (all, ready) = (namespaces.len(), namespaces.len() - missing.len());
    let mut seen = match (ready, place.common) {
        (0, Some(namespace)) => format!("no {name} is ready in the namespace {namespace}"),
        (_, Some(namespace)) => format!("a {name} is ready in the namespace {namespace}"),
        (0, None) => format!("no {name} is ready in {all} instances"),
        (_, None) => format!("a {name} is ready in {ready} of {all} instances"),
    };
    if let Some(first) = missing.first() {
        let pod = pods.iter().find(|p| p.namespace() == first.as_str());
        let selector = place.selector;
        seen += &match pod {
            Some(pod) => format!("; {}: {}", pod.key(), pod.not_ready_reason()),
            None => format!("; the namespace {first} has no pod with the label {selector}"),
        };
    }
    let claim = match place.common {
        Some(_) => format!("a {name} is ready"),
        None => format!("every instance has a ready {name}"),
    };
    proof(&claim, missing.is_empty(), seen)
}

/// Proves after the load that the counters of the proxies grew; `None` for a kind without a source of them.
pub(super) fn grew(
    deployment: &Deployment,
    kind: InstanceProxy,
    statistics: &Statistics,
    sent: f64,
) -> Option<Proof> {
    deployment.section()?.proof_of(kind)?;
    let grown = statistics.growth(&deployment.counters);
    let requests = grown.iter().fold(0.0, |sum, (.., n)| sum + n);
    let answered = statistics.answered(&deployment.names);
    let with_tcp = deployment.tcp_request_bytes.is_some();
    Some(counted(kind.name(), (requests, sent), with_tcp, &answered))
}

/// Proves that the proxies counted every request of the load. They count no requests to TCP services, so with such
/// services in the load, it is enough that they counted some.
fn counted(name: &str, (requests, sent): (f64, f64), with_tcp: bool, answered: &str) -> Proof {
    let seen = format!("{requests} requests counted, {sent} sent, {answered}");
    let (claim, holds) = match with_tcp {
        false => (
            format!("the {name}s counted every request"),
            requests >= sent,
        ),
        true => (format!("the {name}s' counters grew"), requests > 0.0),
    };
    proof(&claim, holds && sent > 0.0, seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_must_count_every_request() {
        let of = |requests, sent, with_tcp| counted("gateway", (requests, sent), with_tcp, "");
        let all = of(10.0, 10.0, false);
        assert!(all.holds);
        assert_eq!(all.claim, "the gateways counted every request");
        assert!(!of(9.0, 10.0, false).holds);
        assert!(of(1.0, 10.0, true).holds);
        assert!(!of(0.0, 10.0, true).holds);
        assert!(!of(0.0, 0.0, false).holds, "nothing was sent");
    }
}
