//! Nodes: which may be used, and one reserved for the generators.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tare_model::plan::{GeneratorNode, KubernetesSettings};
use tare_model::rng::Rng;

use super::api::{Api, ApiError};
use super::kinds::NODE;
use super::names::GENERATOR;

/// Tells the draw of a node from all other streams of the plan's seed.
const DRAW: u64 = 0x6e6f_6465;

/// A node that pods may go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    /// The same for nodes of one machine: they share its cores.
    pub(super) machine: String,
    pub(super) cores: u32,
    pub(super) memory_bytes: u64,
    /// Kernel, container runtime, kubelet.
    pub(super) software: String,
}

/// The nodes that a plan may use: ready, not closed, not tainted by others.
pub(super) async fn usable(
    api: &Api,
    settings: &KubernetesSettings,
) -> Result<Vec<Node>, ApiError> {
    let mut nodes = Vec::new();
    for node in api.list(NODE, None, "").await? {
        if is_usable(&node, &settings.node_labels) {
            nodes.push(read(&node));
        }
    }
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

fn is_usable(node: &Value, wanted: &BTreeMap<String, String>) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True");
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let closed = node["spec"]["unschedulable"] == true
        || taints.any(|t| t["key"] != GENERATOR && t["effect"] != "PreferNoSchedule");
    let labels = &node["metadata"]["labels"];
    ready && !closed && wanted.iter().all(|(k, v)| labels[k.as_str()] == v.as_str())
}

fn read(node: &Value) -> Node {
    let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let name = text("/metadata/name").to_owned();
    let machine = match text("/status/nodeInfo/bootID") {
        "" => name.clone(),
        id => id.to_owned(),
    };
    Node {
        machine,
        cores: text("/status/capacity/cpu").parse().unwrap_or(0),
        memory_bytes: kibibytes(text("/status/capacity/memory")),
        software: format!(
            "{} {}, {}, kubelet {}",
            text("/status/nodeInfo/osImage"),
            text("/status/nodeInfo/kernelVersion"),
            text("/status/nodeInfo/containerRuntimeVersion"),
            text("/status/nodeInfo/kubeletVersion")
        ),
        name,
    }
}

/// `16384Ki`, as nodes write it.
fn kibibytes(text: &str) -> u64 {
    let number = text.trim_end_matches("Ki");
    number
        .parse::<u64>()
        .map_or(0, |n| if number == text { n } else { n << 10 })
}

/// Cores of all machines: nodes of one machine count once.
pub(super) fn cores(nodes: &[Node]) -> u32 {
    let machines: BTreeMap<&str, u32> = nodes
        .iter()
        .map(|n| (n.machine.as_str(), n.cores))
        .collect();
    machines.values().sum()
}

/// Memory of all machines.
pub(super) fn memory_bytes(nodes: &[Node]) -> u64 {
    let machines: BTreeMap<&str, u64> = nodes
        .iter()
        .map(|n| (n.machine.as_str(), n.memory_bytes))
        .collect();
    machines.values().sum()
}

/// Number of machines.
pub(super) fn machines(nodes: &[Node]) -> usize {
    nodes
        .iter()
        .map(|n| n.machine.as_str())
        .collect::<BTreeSet<_>>()
        .len()
}

/// The node for the generators of a block, drawn from the plan's seed; `None` when
/// they get none of their own.
pub(super) fn draw<'a>(
    nodes: &'a [Node],
    settings: &KubernetesSettings,
    seed: u64,
    block: u32,
) -> Option<&'a Node> {
    if settings.generator_node == GeneratorNode::Shared || nodes.len() < 2 {
        return None;
    }
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    Rng::stream(seed ^ DRAW, u64::from(block)).shuffle(&mut order);
    nodes.get(order[0])
}

/// Puts taint and label of `run` on a node.
pub(super) async fn reserve(api: &Api, node: &str, run: &str) -> Result<(), ApiError> {
    change(api, node, Some(run)).await
}

/// Takes tare's taint and label off every node that has those of `run`.
pub(super) async fn release(api: &Api, run: &str) -> Result<Vec<String>, ApiError> {
    let mut released = Vec::new();
    for node in api.list(NODE, None, &format!("{GENERATOR}={run}")).await? {
        let name = node["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        change(api, &name, None).await?;
        released.push(name);
    }
    Ok(released)
}

async fn change(api: &Api, name: &str, run: Option<&str>) -> Result<(), ApiError> {
    let node = api.get(NODE, "", name).await?;
    api.change(NODE, name, &changed(&node, run)).await.map(drop)
}

/// The list of taints can only be changed as a whole: the version that was read guards
/// those of others.
fn changed(node: &Value, run: Option<&str>) -> Value {
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

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            machine: "one".into(),
            cores: 2,
            memory_bytes: 4,
            software: String::new(),
        }
    }

    #[test]
    fn the_draw_is_the_seeds_and_changes_over_blocks() {
        let nodes: Vec<Node> = ["a", "b", "c"].map(node).into();
        let settings = KubernetesSettings::default();
        let name = |seed, block| draw(&nodes, &settings, seed, block).unwrap().name.clone();
        let drawn: Vec<String> = (0..20).map(|b| name(1, b)).collect();
        assert_eq!(drawn, (0..20).map(|b| name(1, b)).collect::<Vec<_>>());
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 3);
        assert!(
            draw(&nodes[..1], &settings, 1, 0).is_none(),
            "one node is for all"
        );
        assert_eq!(cores(&nodes), 2, "nodes of one machine share its cores");
    }

    #[test]
    fn a_taint_comes_and_goes_and_those_of_others_stay() {
        let other = json!({"key": "gpu", "effect": "NoSchedule"});
        let before = json!({"metadata": {"resourceVersion": "5"}, "spec": {"taints": [other]}});
        let on = changed(&before, Some("r"));
        assert_eq!(on["spec"]["taints"].as_array().unwrap().len(), 2);
        assert_eq!(on["metadata"]["labels"][GENERATOR], "r");
        let off = changed(&on, None);
        assert_eq!(off["spec"]["taints"], json!([other]));
        assert!(off["metadata"]["labels"][GENERATOR].is_null());
        let bare = changed(&json!({"metadata": {}, "spec": {}}), None);
        assert!(
            bare["spec"]["taints"].is_null(),
            "as before: no list at all"
        );
    }

    #[test]
    fn nodes_that_others_have_closed_are_not_used() {
        let node = |spec: Value| {
            json!({"metadata": {"name": "n", "labels": {"zone": "a"}}, "spec": spec,
                "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
        };
        let any = BTreeMap::new();
        assert!(is_usable(&node(json!({})), &any));
        assert!(!is_usable(&node(json!({"unschedulable": true})), &any));
        let tainted = json!({"taints": [{"key": "control-plane", "effect": "NoSchedule"}]});
        assert!(!is_usable(&node(tainted), &any));
        let ours = json!({"taints": [{"key": GENERATOR, "effect": "NoSchedule"}]});
        assert!(is_usable(&node(ours), &any));
        let wanted = BTreeMap::from([("zone".to_owned(), "b".to_owned())]);
        assert!(!is_usable(&node(json!({})), &wanted));
    }
}
