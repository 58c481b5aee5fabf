//! Nodes: finds those that a run may use, and reserves one for the generators.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;
use serde_json::{Value, json};
use tare_plan::mesh::Platform;
use tare_plan::{GeneratorNode, KubernetesSettings, Quantity};
use tare_stats::rng::Rng;

use super::Object;
use super::names::{GENERATOR, has_labels};
use super::pod_parts::OS;
use crate::api::kinds::NODE;
use crate::api::{self, ApiClient, ApiError};
use tare_run::environment::EnvironmentError;

/// Stream of random numbers for the choice of a node, separate from all other uses of the plan's
/// seed.
const SEED_STREAM: u64 = 0x6e6f_6465;

/// A node that accepts pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Boot id of its machine; several nodes may share one machine and its cores.
    pub(crate) machine: String,
    pub(crate) cores: u32,
    pub(crate) memory_bytes: u64,
    /// Architecture as Kubernetes names it, such as `amd64`; empty if unknown.
    pub(crate) architecture: String,
    /// Whether the plan lets generators have it.
    pub(crate) is_for_generators: bool,
    /// Versions of the operating system, kernel, container runtime and kubelet.
    pub(crate) software: String,
    /// Platform by its marks; `None` if unknown.
    pub(crate) platform: Option<&'static Platform>,
    /// Ranges of the addresses of its pods.
    pub(crate) pod_ranges: Vec<String>,
    /// What all its pods together may request, as quantities; empty if unknown.
    pub(crate) allocatable: BTreeMap<String, String>,
}

/// Returns the nodes that a plan may use: Linux, ready, schedulable, with the plan's labels, and without taints that
/// neither tare has set nor the plan tolerates.
pub(crate) async fn usable(
    api: &ApiClient,
    settings: &KubernetesSettings,
) -> Result<Vec<Node>, ApiError> {
    let nodes: Vec<v1::Node> = api.list(NODE, None, "").await?;
    let usable = nodes.iter().filter(|node| is_usable(node, settings));
    let mut nodes: Vec<Node> = usable.map(|node| read(node, settings)).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

fn is_usable(node: &v1::Node, settings: &KubernetesSettings) -> bool {
    let status = node.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.any(|c| c.type_ == "Ready" && c.status == "True");
    let tolerated = |t: &v1::Taint| {
        let value = t.value.as_deref().unwrap_or_default();
        let mut tolerations = settings.pod.tolerations.iter();
        tolerations.any(|toleration| toleration.tolerates(&t.key, value, &t.effect))
    };
    let is_open =
        |t: &v1::Taint| t.key == GENERATOR || t.effect == "PreferNoSchedule" || tolerated(t);
    let spec = node.spec.as_ref();
    let unschedulable = spec.and_then(|s| s.unschedulable).unwrap_or_default();
    let closed = unschedulable || !taints(node).iter().all(is_open);
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let linux = labels.get(OS).is_none_or(|os| os == "linux");
    ready && !closed && linux && has_labels(&labels, &settings.node_labels)
}

fn taints(node: &v1::Node) -> Vec<v1::Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone());
    taints.unwrap_or_default()
}

pub(crate) fn read(node: &v1::Node, settings: &KubernetesSettings) -> Node {
    let status = node.status.clone().unwrap_or_default();
    let capacity = status.capacity.unwrap_or_default();
    let quantity = |name: &str| {
        let quantity = capacity.get(name);
        quantity.and_then(|q| Quantity::read(&q.0)).unwrap_or(0.0)
    };
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let name = node.metadata.name.clone().unwrap_or_default();
    let info = status.node_info.unwrap_or_default();
    let machine = match info.boot_id.as_str() {
        "" => name.clone(),
        id => id.to_owned(),
    };
    let allocatable = status.allocatable.unwrap_or_default().into_iter();
    Node {
        machine,
        cores: quantity("cpu") as u32,
        memory_bytes: quantity("memory") as u64,
        is_for_generators: has_labels(&labels, &settings.generator_node_labels),
        software: format!(
            "{} {}, {}, kubelet {}",
            info.os_image,
            info.kernel_version,
            info.container_runtime_version,
            info.kubelet_version
        ),
        platform: Platform::of_node(&json!({"metadata": {"name": name, "labels": labels},
            "status": {"nodeInfo": info}})),
        architecture: info.architecture,
        pod_ranges: pod_ranges(node),
        allocatable: allocatable.map(|(name, q)| (name, q.0)).collect(),
        name,
    }
}

fn pod_ranges(node: &v1::Node) -> Vec<String> {
    let spec = node.spec.clone().unwrap_or_default();
    let ranges = spec.pod_cidrs.filter(|ranges| !ranges.is_empty());
    ranges.unwrap_or_else(|| spec.pod_cidr.into_iter().collect())
}

/// Totals of the machines of some nodes; nodes of one machine count once.
pub(crate) struct Machines {
    pub(crate) count: usize,
    pub(crate) cores: u32,
    pub(crate) memory_bytes: u64,
}

pub(crate) fn machines(nodes: &[Node]) -> Machines {
    let machines: BTreeMap<&str, &Node> = nodes.iter().map(|n| (n.machine.as_str(), n)).collect();
    Machines {
        count: machines.len(),
        cores: machines.values().map(|n| n.cores).sum(),
        memory_bytes: machines.values().map(|n| n.memory_bytes).sum(),
    }
}

/// Chooses the generators' nodes for a block from the plan's seed; none when generators share nodes with the application.
///
/// # Errors
/// If there are too few nodes: what was found and what to do.
pub(crate) fn choose<'a>(
    nodes: &'a [Node],
    settings: &KubernetesSettings,
    seed: u64,
    block: u32,
) -> Result<Vec<&'a Node>, EnvironmentError> {
    let count = settings.generator_nodes as usize;
    let is_default = count == 1 && settings.generator_node_labels.is_empty();
    if settings.generator_node == GeneratorNode::Shared || (nodes.len() < 2 && is_default) {
        return Ok(Vec::new());
    }
    let mut order: Vec<&Node> = nodes.iter().filter(|n| n.is_for_generators).collect();
    if order.len() < count || nodes.len() <= count {
        let found = format!(
            "{} nodes accept pods, {} of them have the labels for generators; the plan reserves {count}, and the \
             application needs another",
            nodes.len(),
            order.len()
        );
        let remedy = "change `kubernetes.generator_nodes` or `kubernetes.generator_node_labels`";
        return Err(EnvironmentError::missing(found, remedy));
    }
    Rng::stream(seed ^ SEED_STREAM, u64::from(block)).shuffle(&mut order);
    order.truncate(count);
    Ok(order)
}

/// Removes the taint and the label of `run` from all nodes.
pub(crate) async fn release(api: &ApiClient, run: &str) -> Result<(), ApiError> {
    let selector = format!("{GENERATOR}={run}");
    for node in api.list::<Object>(NODE, None, &selector).await? {
        reserve(api, node.name(), None).await?;
    }
    Ok(())
}

/// Gives a node the taint and the label of `run`; `None` removes them.
pub(crate) async fn reserve(
    api: &ApiClient,
    name: &str,
    run: Option<&str>,
) -> Result<(), ApiError> {
    let node: Value = api.get(NODE, "", name).await?;
    let patch = reservation_patch(&node, run);
    api.merge(NODE, name, &patch).await
}

/// Returns the patch that sets or removes the reservation. It replaces the whole list of taints, so
/// it contains the version that was read: a change by another client in between is a conflict. The taints of others keep
/// fields that tare does not know, so they have no type here.
fn reservation_patch(node: &Value, run: Option<&str>) -> Value {
    let taints = node["spec"]["taints"].as_array().cloned();
    let mut taints = taints.unwrap_or_default();
    taints.retain(|t| t["key"] != GENERATOR);
    taints.extend(run.map(|run| api::json(&reservation(run))));
    let taints = Some(taints).filter(|taints| !taints.is_empty());
    json!({"metadata": {"resourceVersion": node["metadata"]["resourceVersion"],
            "labels": {GENERATOR: run}},
        "spec": {"taints": taints}})
}

/// The taint of a node that is reserved for the generators of a run.
pub(crate) fn reservation(run: &str) -> v1::Taint {
    v1::Taint {
        key: GENERATOR.to_owned(),
        value: Some(run.to_owned()),
        effect: "NoSchedule".to_owned(),
        ..v1::Taint::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            machine: "one".into(),
            cores: 2,
            is_for_generators: name != "c",
            memory_bytes: 4,
            ..Node::default()
        }
    }

    fn chosen(nodes: &[Node], settings: &KubernetesSettings, block: u32) -> Vec<String> {
        let nodes = choose(nodes, settings, 1, block).unwrap();
        nodes.iter().map(|n| n.name.clone()).collect()
    }

    #[test]
    fn the_seed_chooses_nodes_for_each_block() {
        let mut nodes: Vec<Node> = ["a", "b", "d"].map(node).into();
        let mut settings = KubernetesSettings::default();
        let blocks = || (0..20).map(|b| chosen(&nodes, &settings, b));
        let once: Vec<Vec<String>> = blocks().collect();
        assert_eq!(once, blocks().collect::<Vec<_>>());
        assert_eq!(once.iter().collect::<BTreeSet<_>>().len(), 3);
        assert!(once.iter().all(|nodes| nodes.len() == 1));
        let alone = chosen(&nodes[..1], &settings, 0);
        assert!(alone.is_empty(), "a single node is shared");
        let machines = machines(&nodes);
        assert_eq!((machines.count, machines.cores), (1, 2));

        nodes.push(node("c"));
        settings.generator_nodes = 2;
        let two: BTreeSet<String> = (0..20).flat_map(|b| chosen(&nodes, &settings, b)).collect();
        assert_eq!(two.into_iter().collect::<Vec<_>>(), ["a", "b", "d"]);
        settings.generator_nodes = 4;
        let refused = choose(&nodes, &settings, 1, 0).unwrap_err().to_string();
        let expected =
            "4 nodes accept pods, 3 of them have the labels for generators; the plan reserves 4";
        assert!(refused.contains(expected), "{refused}");
    }

    #[test]
    fn only_the_taint_of_the_run_is_added_and_removed() {
        let other = json!({"key": "gpu", "effect": "NoSchedule"});
        let newer = json!({"key": "new", "effect": "NoExecute", "fieldOfALaterVersion": {"a": 1}});
        let before =
            json!({"metadata": {"resourceVersion": "5"}, "spec": {"taints": [other, newer]}});
        let on = reservation_patch(&before, Some("r"));
        assert_eq!(on["metadata"]["resourceVersion"], "5");
        let own = json!({"key": GENERATOR, "value": "r", "effect": "NoSchedule"});
        assert_eq!(on["spec"]["taints"], json!([other, newer, own]));
        assert_eq!(on["metadata"]["labels"][GENERATOR], "r");
        let off = reservation_patch(&on, None);
        assert_eq!(off["spec"]["taints"], json!([other, newer]));
        assert!(off["metadata"]["labels"][GENERATOR].is_null());
        let bare = reservation_patch(&json!({"metadata": {}, "spec": {}}), None);
        assert!(
            bare["spec"]["taints"].is_null(),
            "no list remains without taints"
        );
    }

    #[test]
    fn only_open_linux_nodes_with_the_labels_of_the_plan_are_used() {
        let node = |spec: Value| {
            json!({"metadata": {"name": "n", "labels": {"zone": "a", OS: "linux"}}, "spec": spec,
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        };
        let mut settings = KubernetesSettings::default();
        let is_usable = |node: Value, settings: &KubernetesSettings| {
            is_usable(&serde_json::from_value(node).unwrap(), settings)
        };
        assert!(is_usable(node(json!({})), &settings));
        assert!(!is_usable(node(json!({"unschedulable": true})), &settings));
        let mut windows = node(json!({}));
        windows["metadata"]["labels"][OS] = "windows".into();
        assert!(!is_usable(windows, &settings));
        let ours = json!({"taints": [{"key": GENERATOR, "effect": "NoSchedule"}]});
        assert!(is_usable(node(ours), &settings));
        let taint = json!({"key": "dedicated", "value": "load", "effect": "NoSchedule"});
        let tainted = node(json!({"taints": [taint]}));
        assert!(!is_usable(tainted.clone(), &settings));
        let toleration = json!({"key": "dedicated", "operator": "Exists"});
        settings.pod.tolerations = vec![serde_json::from_value(toleration).unwrap()];
        assert!(is_usable(tainted, &settings));
        settings.node_labels = BTreeMap::from([("zone".to_owned(), "b".to_owned())]);
        assert!(!is_usable(node(json!({})), &settings));
    }
}
