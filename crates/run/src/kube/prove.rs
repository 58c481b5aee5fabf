//! Proof that what a trial names is in the path: pods carry their proxies, plain text
//! is refused where it must be, and the proxies' own counters grow with the load.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_model::mesh::{DataPlaneKind, Mtls, ProofSource};
use tare_model::trial::Proof;
use tare_model::worker::{Plane, WatchedProcess};

use super::api::{Api, ApiError};
use super::deploy::Deployment;
use super::keep;
use super::kinds::POD;
use super::names::{PORT, ROLE};
use super::pods::Pod;
use crate::environment::EnvironmentError;

/// Pods that are asked for plain text and for their configuration: one of each front is enough.
const ASKED_MAX: usize = 2;
/// The API server tries again for half a minute where a connection is reset.
const REFUSED_AFTER: Duration = Duration::from_secs(4);

fn proof(claim: &str, holds: bool, seen: String) -> Proof {
    Proof {
        claim: claim.to_owned(),
        holds,
        seen,
    }
}

/// Before the load.
pub(super) async fn before(
    api: &Api,
    deployment: &mut Deployment,
) -> Result<Vec<Proof>, EnvironmentError> {
    let mut proofs = vec![carried(deployment)];
    watch(api, deployment).await?;
    proofs.push(plaintext(api, deployment).await);
    keep::keep(api, deployment).await?;
    if let Some(of) = deployment.section().and_then(|s| s.proof.clone()) {
        let asked = asked(api, deployment, &of).await;
        deployment.counters = counters(api, &asked, &of).await;
    }
    Ok(proofs)
}

/// Every pod carries its proxy, or none does.
fn carried(deployment: &Deployment) -> Proof {
    let pods = || deployment.pods.iter().map(Pod);
    let total = deployment.pods.len();
    match deployment.sidecar() {
        Some(sidecar) => {
            let ready = |p: &Pod<'_>| {
                let all = p.containers();
                all.iter().any(|c| c.name() == sidecar && c.is_ready())
            };
            let missing: Vec<String> = pods().filter(|p| !ready(p)).map(Pod::title).collect();
            let with = total - missing.len();
            let mut seen = format!("{with} of {total} pods have {sidecar}, ready");
            if let Some(first) = missing.first() {
                seen += &format!("; the first without: {first}");
            }
            proof("every pod carries its proxy", missing.is_empty(), seen)
        }
        None => {
            let with: Vec<String> = pods()
                .filter(|p| !p.others().is_empty())
                .map(Pod::title)
                .collect();
            let seen = match pods().find(|p| !p.others().is_empty()) {
                None => format!("{total} pods with one container each"),
                Some(p) => format!("{} has {}", p.title(), p.others().join(", ")),
            };
            proof("no pod carries a proxy", with.is_empty(), seen)
        }
    }
}

/// Containers of application, proxies and control plane for the agents.
async fn watch(api: &Api, deployment: &mut Deployment) -> Result<(), ApiError> {
    let sidecar = deployment.sidecar().map(ToOwned::to_owned);
    let mut watched: Vec<WatchedProcess> = Vec::new();
    for pod in deployment.pods.iter().map(Pod) {
        watched.extend(pod.watched(sidecar.as_deref()));
    }
    if let Some(section) = deployment.section() {
        let parts = &section.parts;
        let control = parts.control_plane.iter().map(|s| (s, Plane::ControlPlane));
        let nodes = parts.node_proxies.iter().map(|s| (s, Plane::DataPlane));
        for (selector, plane) in control.chain(nodes) {
            let pods = api
                .list(POD, Some(&selector.namespace), &selector.selector)
                .await?;
            for pod in pods.iter().map(Pod) {
                let reserved = deployment.reserved.as_ref().map(|n| n.name.as_str());
                let plane = plane_of(plane, pod, reserved);
                let containers = pod.watched(None).into_iter();
                watched.extend(containers.map(|w| WatchedProcess { plane, ..w }));
            }
        }
        if let Some(selector) = &parts.waypoints {
            let pods = api.list(POD, None, selector).await?;
            let base = deployment.names.load().replace("-load", "");
            for pod in pods
                .iter()
                .map(Pod)
                .filter(|p| p.namespace().starts_with(&base))
            {
                let own = pod.watched(None).into_iter();
                watched.extend(own.map(|w| WatchedProcess {
                    plane: Plane::DataPlane,
                    ..w
                }));
            }
        }
    }
    deployment.watched = watched;
    Ok(())
}

/// A node proxy on the node that is the generators' alone carries their side only, as a
/// generator's sidecar does.
fn plane_of(plane: Plane, pod: Pod<'_>, reserved: Option<&str>) -> Plane {
    match plane {
        Plane::DataPlane if reserved == Some(pod.node()) => Plane::GeneratorProxy,
        plane => plane,
    }
}

/// The API server calls a pod's application port: it is in no mesh. Where plain text
/// is not refused it must be answered, or this check would prove nothing.
async fn plaintext(api: &Api, deployment: &Deployment) -> Proof {
    let strict = deployment.mesh.settings.mtls == Mtls::Strict
        && deployment.mesh.data_plane != DataPlaneKind::None;
    let fronts = &deployment.fronts;
    let asked = deployment
        .pods
        .iter()
        .map(Pod)
        .filter(|p| fronts.contains(p.label("app")));
    let (mut refused, mut answered) = (Vec::new(), Vec::new());
    for pod in asked.take(ASKED_MAX) {
        let path = Api::pod_proxy(pod.namespace(), pod.name(), PORT, "/tare/ready");
        match tokio::time::timeout(REFUSED_AFTER, api.text(&path)).await {
            Ok(Ok(_)) => answered.push(pod.title()),
            Ok(Err(error)) => refused.push(format!("{}: {}", pod.title(), error.found)),
            Err(_) => refused.push(format!("{}: no answer", pod.title())),
        }
    }
    let seen = format!(
        "{} answered, {} refused{}",
        answered.len(),
        refused.len(),
        refused
            .first()
            .map(|r| format!(" ({r})"))
            .unwrap_or_default()
    );
    if strict {
        let holds = answered.is_empty() && !refused.is_empty();
        return proof("plain text from outside the mesh is refused", holds, seen);
    }
    let holds = refused.is_empty() && !answered.is_empty();
    proof("plain text from outside the mesh is answered", holds, seen)
}

/// After the load: the proxies' own counters have grown.
pub(super) async fn after(api: &Api, deployment: &Deployment, load_sent: u64) -> Vec<Proof> {
    let Some(of) = deployment.section().and_then(|s| s.proof.clone()) else {
        return Vec::new();
    };
    let asked = asked(api, deployment, &of).await;
    let now = counters(api, &asked, &of).await;
    let growth = |pod: &String, n: &f64| n - deployment.counters.get(pod).copied().unwrap_or(0.0);
    let grown: f64 = now.iter().map(|(pod, n)| growth(pod, n)).sum();
    let told = format!("{} of {} proxies told", now.len(), asked.len());
    if of.of_node_proxies {
        let reserved = deployment.reserved.as_ref().map(|n| n.name.as_str());
        let by_node = asked.iter().filter_map(|a| {
            let pod = a.key();
            Some((a.node.as_str(), growth(&pod, now.get(&pod)?)))
        });
        return vec![by_node_proxies(by_node.collect(), reserved, &told)];
    }
    let seen = format!("{grown} requests counted, {load_sent} sent, {told}");
    let holds = grown >= load_sent as f64 && load_sent > 0;
    vec![proof(
        "the proxies of the fronts counted every request",
        holds,
        seen,
    )]
}

/// What node proxies counted, by node. Those of the generators' own node must be among
/// them: else the application's connections alone would be the proof.
fn by_node_proxies(grown: Vec<(&str, f64)>, reserved: Option<&str>, told: &str) -> Proof {
    let all: f64 = grown.iter().map(|(_, n)| n).sum();
    let of = |node: &str| -> f64 {
        let there = grown.iter().filter(|(n, _)| *n == node);
        there.map(|(_, n)| n).sum()
    };
    let generators = reserved.map(of);
    let there = generators.map(|n| format!(", {n} of them on the generators' node"));
    proof(
        "the node proxies' counters grew",
        all > 0.0 && generators.is_none_or(|n| n > 0.0),
        format!("{all} connections{}, {told}", there.unwrap_or_default()),
    )
}

/// A pod whose counters are asked for.
struct Asked {
    namespace: String,
    name: String,
    node: String,
}

impl Asked {
    fn new(pod: Pod<'_>) -> Self {
        Self {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            node: pod.node().to_owned(),
        }
    }

    fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

async fn asked(api: &Api, deployment: &Deployment, of: &ProofSource) -> Vec<Asked> {
    if !of.of_node_proxies {
        let fronts = &deployment.fronts;
        let pods = deployment.pods.iter().map(Pod);
        return pods
            .filter(|p| p.label(ROLE) == "application" && fronts.contains(p.label("app")))
            .map(Asked::new)
            .collect();
    }
    let mut all = Vec::new();
    let selectors = deployment
        .section()
        .map(|s| s.parts.node_proxies.as_slice());
    for selector in selectors.unwrap_or_default() {
        let found = api
            .list(POD, Some(&selector.namespace), &selector.selector)
            .await;
        all.extend(found.unwrap_or_default().iter().map(Pod).map(Asked::new));
    }
    all
}

async fn counters(api: &Api, asked: &[Asked], of: &ProofSource) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for pod in asked {
        let path = Api::pod_proxy(&pod.namespace, &pod.name, of.port, &of.path);
        if let Ok(text) = api.text(&path).await {
            sums.insert(pod.key(), sum(&text, &of.counters));
        }
    }
    sums
}

/// The sum of the first of `counters` that the text has; 0 with none.
fn sum(text: &str, counters: &[String]) -> f64 {
    for counter in counters {
        let (name, labels) = counter.split_once('{').unwrap_or((counter, ""));
        let labels: Vec<&str> = labels
            .trim_end_matches('}')
            .split(',')
            .filter(|l| !l.is_empty())
            .collect();
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            if !rest.starts_with(['{', ' ']) || !labels.iter().all(|l| rest.contains(l)) {
                return None;
            }
            rest.rsplit(' ').next()?.parse::<f64>().ok()
        });
        let values: Vec<f64> = values.collect();
        if !values.is_empty() {
            return values.iter().sum();
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generators_node_must_be_among_those_that_counted() {
        let of =
            |grown: &[(&str, f64)], reserved| by_node_proxies(grown.to_vec(), reserved, "told");
        let both = of(&[("a", 16.0), ("g", 8.0)], Some("g"));
        assert!(both.holds);
        assert_eq!(
            both.seen,
            "24 connections, 8 of them on the generators' node, told"
        );
        assert!(!of(&[("a", 16.0), ("g", 0.0)], Some("g")).holds);
        assert!(!of(&[("a", 16.0)], Some("g")).holds, "it did not tell");
        assert!(of(&[("a", 16.0), ("g", 0.0)], None).holds);
        assert!(!of(&[], None).holds);
    }

    #[test]
    fn a_node_proxy_of_the_generators_alone_is_theirs() {
        let pod = serde_json::json!({"spec": {"nodeName": "node2"}});
        let plane = |plane, reserved| plane_of(plane, Pod(&pod), reserved);
        assert_eq!(
            plane(Plane::DataPlane, Some("node2")),
            Plane::GeneratorProxy
        );
        assert_eq!(plane(Plane::DataPlane, Some("node1")), Plane::DataPlane);
        assert_eq!(plane(Plane::DataPlane, None), Plane::DataPlane);
        let control = plane(Plane::ControlPlane, Some("node2"));
        assert_eq!(control, Plane::ControlPlane);
    }

    #[test]
    fn counters_are_summed_by_name_and_labels() {
        let text = "# TYPE request_total counter\n\
            request_total{direction=\"inbound\",tls=\"true\",a=\"1\"} 3\n\
            request_total{direction=\"outbound\",tls=\"true\"} 50\n\
            request_total{tls=\"true\",direction=\"inbound\"} 4\n\
            request_total_other{direction=\"inbound\",tls=\"true\"} 9\n\
            plain 7\n";
        let of = |c: &[&str]| sum(text, &c.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            of(&["request_total{direction=\"inbound\",tls=\"true\""]),
            7.0
        );
        assert_eq!(of(&["absent", "plain"]), 7.0);
        assert_eq!(of(&["absent"]), 0.0);
    }
}
