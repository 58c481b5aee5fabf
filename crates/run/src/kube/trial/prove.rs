//! Proofs that the mesh of a trial is in the path: pods have their proxies, plain text is refused
//! where it must be, and the proxies' own counters grow with the load.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tare_model::graph::ServiceProtocol;
use tare_model::mesh::ProofSource;
use tare_model::trial::Proof;
use tare_model::worker::{Plane, WatchedProcess};

use super::artifacts;
use super::deployment::Deployment;
use crate::environment::{EnvironmentError, proof};
use crate::kube::api::kinds::POD;
use crate::kube::api::{ApiClient, ApiError};
use crate::kube::objects::names::{PORT, ROLE};
use crate::kube::objects::{Container, Pod};

/// Maximum number of pods of the called services that receive a request in plain text.
const PLAINTEXT_PODS_MAX: usize = 2;
/// A request to a server of tare without a response in this time counts as refused.
const PLAINTEXT_ANSWER_WITHIN: Duration = Duration::from_secs(4);

/// Proofs before the load. Also finds the containers to sample, saves the artifacts of the trial,
/// and reads the proxies' counters.
pub(crate) async fn before(
    api: &ApiClient,
    deployment: &mut Deployment,
) -> Result<Vec<Proof>, EnvironmentError> {
    let proxies = proxies(deployment);
    deployment.watched = watched(api, deployment).await?;
    let plaintext = plaintext(api, deployment).await;
    artifacts::save(api, deployment).await?;
    if let Some(source) = deployment.section().and_then(|s| s.proof.clone()) {
        let pods = counting_pods(api, deployment, &source).await;
        deployment.counters = counters(api, deployment, &pods, &source).await;
    }
    Ok(vec![proxies, plaintext])
}

/// Proves that every pod has a ready sidecar or, for a mesh without sidecars, that no pod has an
/// injected container.
fn proxies(deployment: &Deployment) -> Proof {
    let pods = || deployment.pods.iter().map(Pod);
    let total = deployment.pods.len();
    let Some(sidecar) = deployment.sidecar() else {
        let claim = "no pod has a proxy";
        let own = match deployment.application.is_some() {
            true => "the containers of the application only",
            false => "one container each",
        };
        return match pods().find(|p| !p.injected().is_empty()) {
            None => proof(claim, true, format!("{total} pods with {own}")),
            Some(pod) => {
                let injected = pod.injected().join(", ");
                proof(claim, false, format!("{} has {injected}", pod.title()))
            }
        };
    };
    let is_ready = |pod: &Pod<'_>| {
        !pod.is_own(sidecar) && pod.status_of(sidecar).is_some_and(Container::is_ready)
    };
    let missing: Vec<String> = pods().filter(|p| !is_ready(p)).map(Pod::title).collect();
    let ready = total - missing.len();
    let mut seen = format!("{sidecar} is ready in {ready} of {total} pods");
    if let Some(first) = missing.first() {
        seen += &format!("; not in {first}");
    }
    proof("every pod has a ready proxy", missing.is_empty(), seen)
}

/// Containers of the application, the proxies and the control plane, for the agents.
async fn watched(
    api: &ApiClient,
    deployment: &Deployment,
) -> Result<Vec<WatchedProcess>, ApiError> {
    let sidecar = deployment.sidecar();
    let pods = deployment.pods.iter().map(Pod);
    let mut watched: Vec<WatchedProcess> = pods.flat_map(|p| p.watched(sidecar)).collect();
    let Some(section) = deployment.section() else {
        return Ok(watched);
    };
    let mut add = |pod: Pod<'_>, plane: Plane| {
        let containers = pod.watched(None).into_iter();
        watched.extend(containers.map(|w| WatchedProcess { plane, ..w }));
    };
    let parts = &section.parts;
    let control_plane = parts.control_plane.iter().map(|s| (s, Plane::ControlPlane));
    let node_proxies = parts.node_proxies.iter().map(|s| (s, Plane::DataPlane));
    for (selector, plane) in control_plane.chain(node_proxies) {
        let namespace = Some(selector.namespace.as_str());
        let pods = api.list(POD, namespace, &selector.selector).await?;
        for pod in pods.iter().map(Pod) {
            add(
                pod,
                plane_of(plane, pod, deployment.generator_node.as_deref()),
            );
        }
    }
    if let Some(selector) = &parts.waypoints {
        let pods = api.list(POD, None, selector).await?;
        let pods = pods.iter().map(Pod);
        for pod in pods.filter(|p| deployment.names.owns(p.namespace())) {
            add(pod, Plane::DataPlane);
        }
    }
    Ok(watched)
}

/// Returns the plane of a mesh's pod. A node proxy on the generators' own node carries only their
/// side of a connection, as a generator's sidecar does.
fn plane_of(plane: Plane, pod: Pod<'_>, generator_node: Option<&str>) -> Plane {
    match plane {
        Plane::DataPlane if generator_node == Some(pod.node()) => Plane::GeneratorProxy,
        plane => plane,
    }
}

/// Proves how the application treats plain text: the API server, which is outside the mesh, sends a
/// request to the application's port. Strict mTLS must refuse it. Without strict mTLS it must be
/// answered; otherwise a refusal would prove nothing.
async fn plaintext(api: &ApiClient, deployment: &Deployment) -> Proof {
    let pods = deployment.pods.iter().map(Pod);
    let pods = pods.filter_map(|pod| {
        let front = deployment.front(pod)?;
        Some((pod, front, front.port_of(pod)?))
    });
    let mut answered = 0;
    let mut refused = Vec::new();
    for (pod, front, port) in pods.take(PLAINTEXT_PODS_MAX) {
        let request = api.pod_text((pod.namespace(), pod.name()), port, &front.path);
        let answer = match front.of_user {
            // The application of the user may be slow. The client's own limit applies.
            true => Ok(request.await),
            false => tokio::time::timeout(PLAINTEXT_ANSWER_WITHIN, request).await,
        };
        match answer {
            Ok(Ok(_)) => answered += 1,
            Ok(Err(error)) if front.of_user && is_answer(&error, deployment.is_strict()) => {
                answered += 1;
            }
            Ok(Err(error)) => refused.push(format!("{}: {}", pod.title(), error.found)),
            Err(_) => refused.push(format!("{}: no response", pod.title())),
        }
    }
    let mut seen = format!("{answered} answered, {} refused", refused.len());
    if let Some(first) = refused.first() {
        seen += &format!(" ({first})");
    }
    if deployment.is_strict() {
        let holds = answered == 0 && !refused.is_empty();
        return proof("plain text from outside the mesh is refused", holds, seen);
    }
    let holds = refused.is_empty() && answered > 0;
    proof("plain text from outside the mesh is answered", holds, seen)
}

/// Whether an error is the answer of the user's application. A proxy with strict mutual TLS refuses with the status 403,
/// or closes the connection. The API server refuses with 403 as well, if the role lacks `pods/proxy`.
fn is_answer(error: &ApiError, is_strict: bool) -> bool {
    let of_server = [
        "error trying to reach service",
        "cannot get resource \"pods/proxy\"",
    ];
    let is_of_server = of_server.iter().any(|text| error.found.contains(text));
    let is_of_proxy = is_strict && error.status == Some(403);
    error.status.is_some() && !is_of_server && !is_of_proxy
}

/// Proves after the load that the proxies' own counters grew.
pub(crate) async fn after(api: &ApiClient, deployment: &Deployment, load_sent: u64) -> Vec<Proof> {
    let Some(source) = deployment.section().and_then(|s| s.proof.clone()) else {
        return Vec::new();
    };
    let pods = counting_pods(api, deployment, &source).await;
    let now = counters(api, deployment, &pods, &source).await;
    let growth = |pod: &String, n: &f64| n - deployment.counters.get(pod).copied().unwrap_or(0.0);
    let answered = format!("{} of {} proxies responded", now.len(), pods.len());
    if source.of_node_proxies {
        let by_node = pods.iter().map(Pod).filter_map(|pod| {
            let key = pod.key();
            Some((pod.node(), growth(&key, now.get(&key)?)))
        });
        let generator_node = deployment.generator_node.as_deref();
        return vec![node_proxies(by_node.collect(), generator_node, &answered)];
    }
    let of = |tcp: bool| -> f64 {
        let own = pods.iter().filter(|p| is_tcp(deployment, Pod(p)) == tcp);
        let grown = own.filter_map(|p| Some(growth(&Pod(p).key(), now.get(&Pod(p).key())?)));
        grown.fold(0.0, |sum, n| sum + n)
    };
    let load_sent = load_sent as f64;
    let bytes = deployment.tcp_request_bytes.map(|min| (of(true), min));
    vec![counted(of(false), bytes, load_sent, &answered)]
}

/// Proves that the sidecars counted every request, or the bytes of those to TCP services: bytes that they
/// received, with a lower bound of the size of a request.
fn counted(requests: f64, bytes: Option<(f64, u64)>, sent: f64, answered: &str) -> Proof {
    let Some((bytes, min)) = bytes else {
        let seen = format!("{requests} requests counted, {sent} sent, {answered}");
        let claim = "the proxies of the called services counted every request";
        return proof(claim, requests >= sent && sent > 0.0, seen);
    };
    let seen = format!(
        "{bytes} bytes of TCP and {requests} requests of HTTP counted, {sent} requests sent, those to TCP \
         services of at least {min} bytes, {answered}"
    );
    let claim =
        "the proxies of the called services counted the bytes of every request to a TCP service";
    let carried = requests + (bytes / min as f64).floor();
    proof(claim, carried >= sent && sent > 0.0, seen)
}

fn is_tcp(deployment: &Deployment, pod: Pod<'_>) -> bool {
    let front = deployment.front(pod);
    front.is_some_and(|f| f.protocol == ServiceProtocol::Tcp)
}

/// Proves that the counters of node proxies, by node, grew. They must also have grown on the
/// generators' own node: on other nodes, connections inside the application would be enough.
fn node_proxies(grown: Vec<(&str, f64)>, generator_node: Option<&str>, answered: &str) -> Proof {
    let all: f64 = grown.iter().map(|(_, n)| n).sum();
    let of_generators = generator_node.map(|node| -> f64 {
        let there = grown.iter().filter(|(n, _)| *n == node);
        there.map(|(_, n)| n).sum()
    });
    let mut seen = format!("{all} connections");
    if let Some(n) = of_generators {
        seen += &format!(", {n} of them on the generators' node");
    }
    proof(
        "the node proxies' counters grew",
        all > 0.0 && of_generators.is_none_or(|n| n > 0.0),
        format!("{seen}, {answered}"),
    )
}

/// Pods whose proxies have counters.
async fn counting_pods(
    api: &ApiClient,
    deployment: &Deployment,
    source: &ProofSource,
) -> Vec<Value> {
    if !source.of_node_proxies {
        let is_front =
            |p: &&Value| Pod(p).label(ROLE) == "application" && deployment.front(Pod(p)).is_some();
        return deployment.pods.iter().filter(is_front).cloned().collect();
    }
    let section = deployment.section();
    let mut all = Vec::new();
    for selector in section.into_iter().flat_map(|s| &s.parts.node_proxies) {
        let namespace = Some(selector.namespace.as_str());
        let pods = api.list(POD, namespace, &selector.selector).await;
        all.extend(pods.unwrap_or_default());
    }
    all
}

/// Returns the sums of counters by the pod's namespace and name, for the pods that respond.
async fn counters(
    api: &ApiClient,
    deployment: &Deployment,
    pods: &[Value],
    source: &ProofSource,
) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for pod in pods.iter().map(Pod) {
        let address = (pod.namespace(), pod.name());
        let counters = match is_tcp(deployment, pod) && !source.of_node_proxies {
            true => &source.tcp_counters,
            false => &source.counters,
        };
        if let Ok(text) = api.pod_text(address, source.port, &source.path).await {
            let port = deployment.front(pod).and_then(|f| f.port_of(pod));
            let counters = at_port(counters, port.unwrap_or(PORT));
            sums.insert(pod.key(), sum(&text, &counters));
        }
    }
    sums
}

/// Returns the names of counters with the port of the application in place of `${tare.port}`.
fn at_port(counters: &[String], port: u16) -> Vec<String> {
    let filled = counters
        .iter()
        .map(|c| c.replace("${tare.port}", &port.to_string()));
    filled.collect()
}

/// Returns the sum of the first of `counters` that a Prometheus text contains; 0 if it contains
/// none.
fn sum(text: &str, counters: &[String]) -> f64 {
    for counter in counters {
        let (name, labels) = counter.split_once('{').unwrap_or((counter, ""));
        let labels = labels.trim_end_matches('}').split(',');
        let labels: Vec<&str> = labels.filter(|l| !l.is_empty()).collect();
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
    fn an_error_of_the_application_is_an_answer_in_plain_text() {
        let error = |status, found: &str| ApiError {
            request: "GET /".into(),
            status,
            found: found.into(),
        };
        let closed = error(Some(503), "error trying to reach service: EOF");
        let refused = "pods \"web:80\" is forbidden: User \"u\" cannot get resource \"pods/proxy\" in API group \"\"";
        for is_strict in [false, true] {
            let is_answer = |error: &ApiError| is_answer(error, is_strict);
            assert!(is_answer(&error(Some(404), "404 Not Found: no page")));
            assert!(is_answer(&error(
                Some(503),
                "503 Service Unavailable: later"
            )));
            assert!(!is_answer(&closed));
            assert!(!is_answer(&error(Some(403), refused)));
            assert!(!is_answer(&error(None, "no response within 30 s")));
        }
        let forbidden = error(Some(403), "403 Forbidden: ");
        assert!(is_answer(&forbidden, false), "no proxy refuses");
        assert!(!is_answer(&forbidden, true));
    }

    #[test]
    fn counters_must_grow_on_the_generators_node() {
        let of = |grown: &[(&str, f64)], node| node_proxies(grown.to_vec(), node, "answered");
        let both = of(&[("a", 16.0), ("g", 8.0)], Some("g"));
        assert!(both.holds);
        assert_eq!(
            both.seen,
            "24 connections, 8 of them on the generators' node, answered"
        );
        assert!(!of(&[("a", 16.0), ("g", 0.0)], Some("g")).holds);
        assert!(
            !of(&[("a", 16.0)], Some("g")).holds,
            "the proxy on the generators' node did not respond"
        );
        assert!(of(&[("a", 16.0), ("g", 0.0)], None).holds);
        assert!(!of(&[], None).holds);
    }

    #[test]
    fn a_node_proxy_on_the_generators_node_is_a_generator_proxy() {
        let pod = serde_json::json!({"spec": {"nodeName": "node2"}});
        let plane = |plane, node| plane_of(plane, Pod(&pod), node);
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
    fn bytes_of_tcp_count_as_requests_of_the_least_size() {
        let of = |requests, bytes, sent| counted(requests, Some((bytes, 50)), sent, "answered");
        let all = of(0.0, 500.0, 10.0);
        assert!(all.holds && all.claim.contains("the bytes of every request"));
        assert_eq!(
            all.seen,
            "500 bytes of TCP and 0 requests of HTTP counted, 10 requests sent, those to TCP services of \
             at least 50 bytes, answered"
        );
        assert!(!of(0.0, 499.0, 10.0).holds, "a byte is missing");
        assert!(of(4.0, 300.0, 10.0).holds, "a mix of both");
        assert!(!of(0.0, 0.0, 0.0).holds, "nothing was sent");
        assert!(counted(10.0, None, 10.0, "answered").holds);
        assert!(!counted(9.0, None, 10.0, "answered").holds);
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
