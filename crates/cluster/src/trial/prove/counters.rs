//! Reads the statistics of proxies through a probe, and proves after the load that their counters grew.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_plan::graph::ServiceProtocol;
use tare_plan::mesh::{InstanceProxy, ProofSource, sum_of_counters};
use tare_records::probe::{ProbeRequest, ProbeResult};
use tare_records::trial::Proof;

use super::super::deployment::Deployment;
use super::super::probe;
use crate::api::ApiClient;
use crate::api::kinds::POD;
use crate::objects::Pod;
use crate::objects::names::{PORT, ROLE, TrialNames};
use tare_run::environment::proof;

/// Time limit of a request for statistics.
pub(crate) const STATISTICS_WITHIN: Duration = Duration::from_secs(10);
/// Maximum size of the lines of the counters of one proxy.
const LINES_BYTES_MAX: usize = 512 << 10;

/// Where a message points if a probe reaches no pod.
pub(super) fn unreachable(names: &TrialNames) -> String {
    format!(
        "the probe pod reaches no other pod: check the network policies and the routes between its namespace {} and \
         the other pods",
        names.agents()
    )
}

/// The statistics to read from one proxy.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    /// Namespace and name of the pod.
    key: String,
    node: String,
    pub(super) request: ProbeRequest,
}

impl Reading {
    fn new(pod: &Pod, source: &ProofSource, counters: Vec<String>) -> Option<Self> {
        let address = pod.address(source.port)?;
        let path = &source.path;
        let request = probe::get(
            address.clone(),
            address,
            path,
            STATISTICS_WITHIN,
            LINES_BYTES_MAX,
        );
        Some(Self {
            key: pod.key(),
            node: pod.node().to_owned(),
            request: ProbeRequest {
                counters: Some(counters),
                ..request
            },
        })
    }
}

/// Returns the readings of the proxies that count the load: sidecars of the called services, or node proxies.
pub(super) async fn of_proxies(api: &ApiClient, deployment: &Deployment) -> Vec<Reading> {
    let Some(source) = deployment.section().and_then(|s| s.proof.as_ref()) else {
        return Vec::new();
    };
    if source.of_node_proxies {
        let pods = node_proxies(api, deployment).await;
        let pods = pods.iter();
        let read = |pod| Reading::new(pod, source, source.counters.clone());
        return pods.filter_map(read).collect();
    }
    let pods = deployment.pods.iter();
    let pods = pods.filter(|p| p.label(ROLE) == "application");
    let read = |pod: &Pod| {
        let front = deployment.front(pod)?;
        let counters = match front.protocol == ServiceProtocol::Tcp {
            true => &source.tcp_counters,
            false => &source.counters,
        };
        let port = front.port_of(pod).unwrap_or(PORT);
        Reading::new(pod, source, at_port(counters, port))
    };
    pods.filter_map(read).collect()
}

/// Returns the readings of the proxies of instances, for each kind that has a source of counters.
pub(super) fn of_instances(deployment: &Deployment) -> Vec<(InstanceProxy, Vec<Reading>)> {
    let of = |(kind, pods): (&InstanceProxy, &Vec<Pod>)| {
        let source = deployment.section()?.proof_of(*kind)?;
        let pods = pods.iter();
        let readings = pods.filter_map(|pod| Reading::new(pod, source, source.counters.clone()));
        Some((*kind, readings.collect()))
    };
    deployment.instance_proxies.iter().filter_map(of).collect()
}

async fn node_proxies(api: &ApiClient, deployment: &Deployment) -> Vec<Pod> {
    let mut all = Vec::new();
    let section = deployment.section();
    for selector in section.into_iter().flat_map(|s| &s.parts.node_proxies) {
        let namespace = Some(selector.namespace.as_str());
        let pods = api.list::<Pod>(POD, namespace, &selector.selector).await;
        all.extend(pods.unwrap_or_default());
    }
    all
}

/// Returns the names of counters with the port of the application in place of `${tare.port}`.
fn at_port(counters: &[String], port: u16) -> Vec<String> {
    let filled = counters
        .iter()
        .map(|c| c.replace("${tare.port}", &port.to_string()));
    filled.collect()
}

/// Statistics of proxies that one probe read.
#[derive(Debug)]
pub(super) struct Statistics(Vec<(Reading, ProbeResult)>);

impl Statistics {
    /// Takes the results of readings, in the same order.
    pub(super) fn new(
        readings: Vec<Reading>,
        results: &mut impl Iterator<Item = ProbeResult>,
    ) -> Self {
        Self(readings.into_iter().zip(results).collect())
    }

    /// The result of a pod, by its namespace and name.
    pub(super) fn of_pod(&self, key: &str) -> Option<&ProbeResult> {
        let found = self.0.iter().find(|(reading, _)| reading.key == key);
        found.map(|(_, result)| result)
    }

    /// The result of a proxy on a node.
    pub(super) fn on_node(&self, node: &str) -> Option<&ProbeResult> {
        let found = self.0.iter().find(|(reading, _)| reading.node == node);
        found.map(|(_, result)| result)
    }

    /// Whether no proxy answered, with any status.
    pub(super) fn none_answered(&self) -> bool {
        self.0.iter().all(|(_, result)| result.is_err())
    }

    /// Returns the sums of the counters, by the pod's namespace and name, of the proxies that answered.
    pub(super) fn sums(&self) -> BTreeMap<String, f64> {
        let sum = |(reading, result): &(Reading, ProbeResult)| {
            let counters = reading.request.counters.as_deref()?;
            let answer = result.as_ref().ok().filter(|_| is_complete(result))?;
            let sum = sum_of_counters(&answer.body, counters);
            Some((reading.key.clone(), sum))
        };
        self.0.iter().filter_map(sum).collect()
    }

    /// Returns how much the counters have grown since `before`, with the nodes of the proxies. A proxy without a sum
    /// from before is left out, because all that it has counted could be older.
    pub(super) fn growth(&self, before: &BTreeMap<String, f64>) -> Vec<(&str, &str, f64)> {
        let now = self.sums();
        let growth = |(reading, _): &'_ (Reading, ProbeResult)| {
            Some(now.get(&reading.key)? - before.get(&reading.key)?)
        };
        let all = self.0.iter();
        let grown = all.filter_map(|r| Some((r.0.key.as_str(), r.0.node.as_str(), growth(r)?)));
        grown.collect()
    }

    /// Returns how many proxies answered and why the first of the others did not.
    pub(super) fn answered(&self, names: &TrialNames) -> String {
        let missing: Vec<_> = self.0.iter().filter(|(_, r)| !is_complete(r)).collect();
        let (all, answered) = (self.0.len(), self.0.len() - missing.len());
        let mut text = format!("{answered} of {all} proxies responded");
        if let Some((reading, result)) = missing.first() {
            let words = match result {
                Ok(answer) if answer.is_cut => "too many lines of counters".to_owned(),
                result => probe::words(result),
            };
            text += &format!(" ({}: {words})", reading.key);
        }
        if all > 0 && self.none_answered() {
            text += &format!("; {}", unreachable(names));
        }
        text
    }
}

fn is_complete(result: &ProbeResult) -> bool {
    let answer = result.as_ref();
    answer.is_ok_and(|a| (200..300).contains(&a.status) && !a.is_cut)
}

/// Proves after the load that the counters of the proxies grew.
pub(super) fn grew(deployment: &Deployment, statistics: &Statistics, sent: f64) -> Option<Proof> {
    let source = deployment.section()?.proof.as_ref()?;
    let answered = statistics.answered(&deployment.names);
    let grown = statistics.growth(&deployment.counters);
    if source.of_node_proxies {
        let by_node = grown.iter().map(|(_, node, n)| (*node, *n));
        let generator_nodes = &deployment.generator_nodes;
        return Some(of_nodes(by_node.collect(), generator_nodes, &answered));
    }
    let tcp = |key: &str| {
        let mut pods = deployment.pods.iter();
        let front = pods
            .find(|p| p.key() == key)
            .and_then(|p| deployment.front(p));
        front.is_some_and(|f| f.protocol == ServiceProtocol::Tcp)
    };
    let of = |wanted: bool| -> f64 {
        let own = grown.iter().filter(|(key, ..)| tcp(key) == wanted);
        own.fold(0.0, |sum, (.., n)| sum + n)
    };
    let bytes = deployment.tcp_request_bytes.map(|min| (of(true), min));
    Some(counted(of(false), bytes, sent, &answered))
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

/// Proves that the counters of node proxies, by node, grew. They must also have grown on each node
/// of the generators: on other nodes, connections inside the application would be enough.
fn of_nodes(grown: Vec<(&str, f64)>, generator_nodes: &[String], answered: &str) -> Proof {
    let all: f64 = grown.iter().map(|(_, n)| n).sum();
    let mut seen = format!("{all} connections");
    let mut holds = all > 0.0;
    for node in generator_nodes {
        let there = grown.iter().filter(|(n, _)| n == node);
        let there: f64 = there.map(|(_, n)| n).sum();
        seen += &format!(", {there} of them on the generators' node {node}");
        holds &= there > 0.0;
    }
    let claim = "the node proxies' counters grew";
    proof(claim, holds, format!("{seen}, {answered}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tare_records::probe::{FailureKind, ProbeAnswer, ProbeFailure};

    fn reading(name: &str) -> Reading {
        let pod = json!({"metadata": {"namespace": "n", "name": name},
            "spec": {"nodeName": "node1"}, "status": {"podIP": "10.0.0.1"}});
        let source = ProofSource {
            port: 15020,
            path: "/metrics".into(),
            ..ProofSource::default()
        };
        Reading::new(
            &serde_json::from_value(pod).unwrap(),
            &source,
            vec!["requests".into()],
        )
        .unwrap()
    }

    fn answer(status: u16, body: &str, is_cut: bool) -> ProbeResult {
        let body = body.to_owned();
        Ok(ProbeAnswer {
            status,
            body,
            is_cut,
            unix_ns: 0,
        })
    }

    fn statistics(results: Vec<ProbeResult>) -> Statistics {
        let readings = (0..results.len()).map(|i| reading(&format!("p{i}")));
        Statistics::new(readings.collect(), &mut results.into_iter())
    }

    #[test]
    fn only_complete_statistics_from_before_and_after_the_load_count() {
        let late = Err(ProbeFailure {
            kind: FailureKind::Timeout,
            found: "no response within 10 s".into(),
        });
        let five = || answer(200, "requests 5\n", false);
        let before = statistics(vec![five(), late.clone(), five(), five()]).sums();
        let cut = answer(200, "requests 9\n", true);
        let after = statistics(vec![
            answer(200, "requests 9\n", false),
            five(),
            cut,
            answer(503, "", false),
        ]);
        assert_eq!(after.growth(&before), [("n/p0", "node1", 4.0)]);
        let names = crate::objects::names::Names::new("tare", "run").trial(0);
        let text = after.answered(&names);
        assert_eq!(
            text,
            "2 of 4 proxies responded (n/p2: too many lines of counters)"
        );
        let nothing = statistics(vec![late.clone(), late]).answered(&names);
        let start = "0 of 2 proxies responded (n/p0: no response within 10 s); the probe pod reaches no other pod: check";
        assert!(nothing.starts_with(start), "{nothing}");
        assert!(nothing.contains(&names.agents()), "{nothing}");
    }

    #[test]
    fn counters_must_grow_on_the_generators_node() {
        let of = |grown: &[(&str, f64)], nodes: &[&str]| {
            let nodes: Vec<String> = nodes.iter().map(|n| (*n).to_owned()).collect();
            of_nodes(grown.to_vec(), &nodes, "answered")
        };
        let both = of(&[("a", 16.0), ("g", 8.0)], &["g"]);
        assert!(both.holds);
        assert_eq!(
            both.seen,
            "24 connections, 8 of them on the generators' node g, answered"
        );
        assert!(!of(&[("a", 16.0), ("g", 0.0)], &["g"]).holds);
        assert!(!of(&[("g", 8.0), ("h", 0.0)], &["g", "h"]).holds);
        assert!(
            !of(&[("a", 16.0)], &["g"]).holds,
            "the proxy on the generators' node did not respond"
        );
        assert!(of(&[("a", 16.0), ("g", 0.0)], &[]).holds);
        assert!(!of(&[], &[]).holds);
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
}
