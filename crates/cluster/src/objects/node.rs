//! Nodes: finds those that a run may use, and reserves one for the generators.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tare_plan::mesh::Platform;
use tare_plan::{GeneratorNode, KubernetesSettings, Quantity};
use tare_stats::rng::Rng;

use super::manifests::OS;
use super::names::{GENERATOR, name_of};
use crate::api::kinds::NODE;
use crate::api::{ApiClient, ApiError};
use tare_run::environment::EnvironmentError;

/// Stream of random numbers for the choice of a node, separate from all other uses of the plan's
/// seed.
const SEED_STREAM: u64 = 0x6e6f_6465;

/// A node that accepts pods.
#[derive(Debug, Clone, PartialEq, Eq)]
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
}

/// Returns the nodes that a plan may use: Linux, ready, schedulable, with the plan's labels, and without taints that
/// neither tare has set nor the plan tolerates.
pub(crate) async fn usable(
    api: &ApiClient,
    settings: &KubernetesSettings,
) -> Result<Vec<Node>, ApiError> {
    let mut nodes = Vec::new();
    for node in api.list(NODE, None, "").await? {
        if is_usable(&node, settings) {
            nodes.push(read(&node, settings));
        }
    }
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

fn is_usable(node: &Value, settings: &KubernetesSettings) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True");
    let word = |taint: &Value, key: &str| taint[key].as_str().unwrap_or_default().to_owned();
    let tolerated = |t: &Value| {
        let (key, value, effect) = (word(t, "key"), word(t, "value"), word(t, "effect"));
        let mut tolerations = settings.pod.tolerations.iter();
        tolerations.any(|toleration| toleration.tolerates(&key, &value, &effect))
    };
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let closed = node["spec"]["unschedulable"] == true
        || taints
            .any(|t| t["key"] != GENERATOR && t["effect"] != "PreferNoSchedule" && !tolerated(t));
    let labels = &node["metadata"]["labels"];
    let linux = labels[OS].is_null() || labels[OS] == "linux";
    ready && !closed && linux && has_labels(labels, &settings.node_labels)
}

fn has_labels(labels: &Value, wanted: &BTreeMap<String, String>) -> bool {
    let mut wanted = wanted.iter();
    wanted.all(|(k, v)| labels[k.as_str()] == v.as_str())
}

pub(crate) fn read(node: &Value, settings: &KubernetesSettings) -> Node {
    let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let quantity = |pointer: &str| Quantity::read(text(pointer)).unwrap_or(0.0);
    let name = text("/metadata/name").to_owned();
    let machine = match text("/status/nodeInfo/bootID") {
        "" => name.clone(),
        id => id.to_owned(),
    };
    Node {
        machine,
        cores: quantity("/status/capacity/cpu") as u32,
        memory_bytes: quantity("/status/capacity/memory") as u64,
        architecture: text("/status/nodeInfo/architecture").to_owned(),
        is_for_generators: has_labels(&node["metadata"]["labels"], &settings.generator_node_labels),
        software: format!(
            "{} {}, {}, kubelet {}",
            text("/status/nodeInfo/osImage"),
            text("/status/nodeInfo/kernelVersion"),
            text("/status/nodeInfo/containerRuntimeVersion"),
            text("/status/nodeInfo/kubeletVersion")
        ),
        platform: Platform::of_node(node),
        pod_ranges: pod_ranges(node),
        name,
    }
}

fn pod_ranges(node: &Value) -> Vec<String> {
    let spec = &node["spec"];
    let all = spec["podCIDRs"].as_array().into_iter().flatten();
    let mut ranges: Vec<String> = all.filter_map(|r| r.as_str().map(str::to_owned)).collect();
    if ranges.is_empty() {
        ranges.extend(spec["podCIDR"].as_str().map(str::to_owned));
    }
    ranges
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
    for node in api.list(NODE, None, &format!("{GENERATOR}={run}")).await? {
        reserve(api, name_of(&node), None).await?;
    }
    Ok(())
}

/// Gives a node the taint and the label of `run`; `None` removes them.
pub(crate) async fn reserve(
    api: &ApiClient,
    name: &str,
    run: Option<&str>,
) -> Result<(), ApiError> {
    let node = api.get(NODE, "", name).await?;
    let patch = reservation_patch(&node, run);
    api.merge(NODE, name, &patch).await.map(drop)
}

/// Returns the patch that sets or removes the reservation. It replaces the whole list of taints, so
/// it contains the version that was read: a change by another client in between is a conflict.
fn reservation_patch(node: &Value, run: Option<&str>) -> Value {
    let taints = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut taints: Vec<Value> = taints
        .into_iter()
        .filter(|t| t["key"] != GENERATOR)
        .collect();
    if let Some(run) = run {
        taints.push(json!({"key": GENERATOR, "value": run, "effect": "NoSchedule"}));
    }
    let taints = if taints.is_empty() {
        Value::Null
    } else {
        taints.into()
    };
    json!({"metadata": {"resourceVersion": node["metadata"]["resourceVersion"],
            "labels": {GENERATOR: run}},
        "spec": {"taints": taints}})
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
            architecture: String::new(),
            is_for_generators: name != "c",
            memory_bytes: 4,
            software: String::new(),
            platform: None,
            pod_ranges: Vec::new(),
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
        let before = json!({"metadata": {"resourceVersion": "5"}, "spec": {"taints": [other]}});
        let on = reservation_patch(&before, Some("r"));
        assert_eq!(on["spec"]["taints"].as_array().unwrap().len(), 2);
        assert_eq!(on["metadata"]["labels"][GENERATOR], "r");
        let off = reservation_patch(&on, None);
        assert_eq!(off["spec"]["taints"], json!([other]));
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
        assert!(is_usable(&node(json!({})), &settings));
        assert!(!is_usable(&node(json!({"unschedulable": true})), &settings));
        let mut windows = node(json!({}));
        windows["metadata"]["labels"][OS] = "windows".into();
        assert!(!is_usable(&windows, &settings));
        let ours = json!({"taints": [{"key": GENERATOR, "effect": "NoSchedule"}]});
        assert!(is_usable(&node(ours), &settings));
        let taint = json!({"key": "dedicated", "value": "load", "effect": "NoSchedule"});
        let tainted = node(json!({"taints": [taint]}));
        assert!(!is_usable(&tainted, &settings));
        let toleration = json!({"key": "dedicated", "operator": "Exists"});
        settings.pod.tolerations = vec![serde_json::from_value(toleration).unwrap()];
        assert!(is_usable(&tainted, &settings));
        settings.node_labels = BTreeMap::from([("zone".to_owned(), "b".to_owned())]);
        assert!(!is_usable(&node(json!({})), &settings));
    }
}
