//! A pod on each node: whether it starts, what it reaches, and its clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tare_plan::{KubernetesSettings, SamplingSource};
use tare_records::node_check;
use tare_records::node_check::{NodeCheckSpec, NodeReport};
use tokio::time::{Instant, sleep};

use super::clock;
use super::{Check, failed, note, passed};
use crate::api::kinds::{CONFIG_MAP, POD};
use crate::api::{ApiClient, ApiError};
use crate::clock::{Offset, measure};
use crate::objects::names::{CONTAINER, ROLE, TrialNames};
use crate::objects::{Node, Pod, manifests};
use crate::trial::probe::records;
use crate::trial::{Events, PodLog};
use tare_files::unix_ns;
use tare_run::environment::EnvironmentError;

/// Most nodes on which a pod is placed.
pub(super) const NODES_MAX: usize = 50;
const POLL: Duration = Duration::from_millis(250);
/// Name of the ConfigMap with the specification.
const MAP: &str = "node-check";
/// A name that every DNS of a cluster resolves.
const DNS_NAME: &str = "kubernetes.default.svc";
/// Time limit of each connection of the worker.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long after the start of a pod its records may arrive.
const RECORDS_WITHIN: Duration = Duration::from_secs(30);

/// What the pods on the nodes have shown.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) checks: Vec<Check>,
    /// Addresses of the pods and of the API server's Service.
    pub(super) addresses: Vec<IpAddr>,
}

/// The pod of a node.
struct NodePod<'a> {
    node: &'a str,
    name: String,
    /// Time before it was created.
    created_ns: u64,
}

/// Places a pod on each node, in the namespace of the agents, and checks what it writes.
pub(super) async fn examine(
    api: &ApiClient,
    settings: &KubernetesSettings,
    names: &TrialNames,
    nodes: &[Node],
) -> Result<Found, EnvironmentError> {
    let mut found = Found::default();
    let nodes = match nodes.len() {
        0 => return Ok(found),
        n if n > NODES_MAX => {
            let text = format!("{n} nodes: only the first {NODES_MAX} were checked by a pod");
            found.checks.push(note("nodes", text));
            &nodes[..NODES_MAX]
        }
        _ => nodes,
    };
    let namespace = names.agents();
    let mut as_agent = settings.sampling == SamplingSource::Agents;
    let mut created = create(api, settings, names, nodes, as_agent).await;
    if let Err(error) = &created
        && as_agent
        && error.is_forbidden()
    {
        let text = format!(
            "agents are rejected: {}; set `kubernetes.sampling: kubelet` (less precise, and the role then has nodes/proxy), or \
             admit hostPath and hostPID in namespaces with the label app.kubernetes.io/managed-by=tare",
            error.found
        );
        found.checks.push(failed("agents", text));
        as_agent = false;
        created = create(api, settings, names, nodes, as_agent).await;
    }
    let pods = match created {
        Ok(pods) => pods,
        Err(error) => {
            let text = format!("the pod of a node was rejected: {}", error.found);
            found.checks.push(failed("nodes", text));
            return Ok(found);
        }
    };
    let each = read_all(api, settings, &namespace, &pods).await?;
    let mut offsets = Vec::new();
    let mut without_clock = None;
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for (pod, read) in pods.iter().zip(each) {
        let node = pod.node;
        let Reading {
            report,
            offset,
            no_port,
            ip,
        } = match read {
            Ok(read) => read,
            Err(why) => {
                found.checks.push(failed("nodes", not_started(node, &why)));
                continue;
            }
        };
        offsets.push((node.to_owned(), offset));
        without_clock = without_clock.or(no_port.map(|why| format!("{node}: {why}")));
        let checks = faults(node, &report);
        if checks.is_empty() {
            let kind = format!("{}, Linux {}", report.architecture, report.kernel);
            *kinds.entry(kind).or_default() += 1;
        }
        found.checks.extend(checks);
        found.addresses.extend(ip);
        let api_server = report.api_server.rsplit_once(':').map(|(host, _)| host);
        let host = api_server.map(|h| h.trim_matches(['[', ']']));
        found
            .addresses
            .extend(host.and_then(|h| h.parse::<IpAddr>().ok()));
    }
    let read = match as_agent {
        true => "reaches the API server and DNS, and reads the control groups",
        false => "reaches the API server and DNS",
    };
    let good = kinds.into_iter().map(|(kind, count)| {
        passed(
            "nodes",
            format!(
                "on {count} of {} nodes ({kind}), a pod of tare starts, {read}",
                nodes.len()
            ),
        )
    });
    found.checks.extend(good);
    found.checks.extend(clock::check(&offsets));
    if let Some(why) = without_clock {
        let text = format!(
            "measured only by the time between the creation of the pod and its first record, without a forwarded port: {why}"
        );
        found.checks.push(note("clocks", text));
    }
    Ok(found)
}

/// Creates the ConfigMap and the pods.
async fn create<'a>(
    api: &ApiClient,
    settings: &KubernetesSettings,
    names: &TrialNames,
    nodes: &'a [Node],
    as_agent: bool,
) -> Result<Vec<NodePod<'a>>, ApiError> {
    let spec = NodeCheckSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        name: DNS_NAME.to_owned(),
        timeout_ns: CONNECT_WITHIN.as_nanos() as u64,
        cgroups: as_agent,
    };
    let text = serde_json::to_string(&spec).unwrap_or_default();
    let files = [("0.json".to_owned(), text)];
    let map = manifests::config_map(names, &names.agents(), MAP, &files);
    api.apply(CONFIG_MAP, &map).await?;
    let mut pods = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let name = format!("node-{index}");
        let place = (node.name.as_str(), name.as_str(), MAP);
        let pod = manifests::node_check(names, settings, place, as_agent);
        let created_ns = unix_ns();
        api.apply(POD, &pod).await?;
        pods.push(NodePod {
            node: &node.name,
            name,
            created_ns,
        });
    }
    Ok(pods)
}

/// What is read from the pod of a node.
struct Reading {
    report: NodeReport,
    offset: Offset,
    /// Why the clock is that of the record, without a forwarded port.
    no_port: Option<String>,
    ip: Option<IpAddr>,
}

/// Reads each pod as soon as it runs. Returns the results in the order of the pods; for a pod that does not run in time,
/// the reason.
async fn read_all(
    api: &ApiClient,
    settings: &KubernetesSettings,
    namespace: &str,
    pods: &[NodePod<'_>],
) -> Result<Vec<Result<Reading, String>>, ApiError> {
    let until = Instant::now() + Duration::from_secs(u64::from(settings.ready_within_s));
    let selector = format!("{ROLE}=node-check");
    let mut results: Vec<Option<Result<Reading, String>>> = pods.iter().map(|_| None).collect();
    let mut started = BTreeSet::new();
    let mut reading = FuturesUnordered::new();
    while started.len() < pods.len() {
        let objects: Vec<Pod> = api.list(POD, Some(namespace), &selector).await?;
        let is_late = Instant::now() > until;
        for (index, pod) in pods.iter().enumerate() {
            let object = objects.iter().find(|o| o.name() == pod.name);
            let Some(object) = object.filter(|_| !started.contains(&index)) else {
                continue;
            };
            if has_run(object) {
                started.insert(index);
                let object = object.clone();
                reading.push(async move { (index, read(api, namespace, pod, &object).await) });
            } else if is_late || object.phase() == "Failed" {
                started.insert(index);
                results[index] = Some(Err(object.not_ready_reason()));
            }
        }
        if is_late {
            break;
        }
        tokio::select! {
            Some((index, read)) = reading.next() => results[index] = Some(read),
            () = sleep(POLL) => {}
        }
    }
    while let Some((index, read)) = reading.next().await {
        results[index] = Some(read);
    }
    let deleted = || Err("the pod was deleted".to_owned());
    Ok(results
        .into_iter()
        .map(|r| r.unwrap_or_else(deleted))
        .collect())
}

fn has_run(pod: &Pod) -> bool {
    let own = pod.status_of(CONTAINER);
    own.is_some_and(|c| c.id().is_some() || c.ended().is_some())
}

/// Reads the record and the clock of a pod that has run. The error says why there is no record.
async fn read(
    api: &ApiClient,
    namespace: &str,
    pod: &NodePod<'_>,
    object: &Pod,
) -> Result<Reading, String> {
    let log = PodLog {
        index: 0,
        worker: pod.name.clone(),
        namespace: namespace.to_owned(),
        pod: pod.name.clone(),
    };
    let lines = records(api, Events::default(), log, RECORDS_WITHIN).await;
    let read_ns = unix_ns();
    let report = node_check::read(&lines).map_err(|found| {
        let end = object.not_ready_reason();
        format!("{found}; {end}")
    })?;
    let (offset, no_port) = match measure(api, (namespace, &pod.name)).await {
        Ok(offset) => (offset, None),
        Err(why) => {
            let offset = Offset::between(pod.created_ns, report.unix_ns, read_ns);
            (offset, Some(why))
        }
    };
    Ok(Reading {
        report,
        offset,
        no_port,
        ip: object.ip(),
    })
}

/// Why a pod has no record, and what to do.
fn not_started(node: &str, why: &str) -> String {
    let has = |words: &[&str]| words.iter().any(|w| why.contains(w));
    let remedy = if has(&[
        "exec format error",
        "no match for platform",
        "no matching manifest",
    ]) {
        "; the image has no program for the architecture of this node: see `tare image --program`, or select other nodes with \
         `kubernetes.node_labels`"
    } else if has(&["ImagePull", "ErrImage", "pull image", "InvalidImageName"]) {
        "; the node cannot pull the image: see docs/kubernetes.md, `kubernetes.image` and \
         `kubernetes.image_pull_secrets`"
    } else {
        "; check that the image is of this version of tare, and see the events of the node: `kubectl describe node`"
    };
    format!("no record from a pod on {node}: {why}{remedy}")
}

/// The faults in a record.
fn faults(node: &str, report: &NodeReport) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(why) = &report.api_server_failure {
        let address = &report.api_server;
        let text = format!(
            "a pod on {node} does not reach the API server at {address}: {why}; control planes and their proxies would not \
             work there: check kube-proxy, the network plugin and network policies"
        );
        checks.push(failed("api server", text));
    }
    if let Some(why) = &report.dns_failure {
        let text = format!(
            "a pod on {node} does not resolve {DNS_NAME}: {why}; check the cluster's DNS and network policies. tare's own \
             requests need no DNS, but meshes and most applications do"
        );
        checks.push(failed("dns", text));
    }
    if let Some(why) = &report.cgroups_failure {
        let text = format!(
            "a pod on {node} does not read the control groups: {why}; set `kubernetes.sampling: kubelet`"
        );
        checks.push(failed("cgroups", text));
    }
    checks
}
