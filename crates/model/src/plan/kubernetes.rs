//! The settings of the environment `kubernetes`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mesh::{DataPlaneKind, Mesh};

/// Most generators of a trial.
const GENERATORS_MAX: u32 = 64;

/// How a plan runs on a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "the section `kubernetes`")]
pub struct KubernetesSettings {
    /// Path of a kubeconfig. Default: TARE_KUBECONFIG, then KUBECONFIG, then ~/.kube/config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// Context in it. Default: its current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Beginning of the names of all namespaces that a run makes.
    pub namespace_prefix: String,
    /// Image of tare for applications, generators and agents.
    pub image: String,
    /// When nodes pull it.
    pub image_pull_policy: PullPolicy,
    /// Names of pull secrets; they must be in the namespace `image_pull_secrets_from`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Namespace from which pull secrets are copied into those of the run.
    pub image_pull_secrets_from: String,
    /// Generators of a trial, 1 to 64; they share rate and connections.
    #[schemars(range(min = 1, max = GENERATORS_MAX))]
    pub generators: u32,
    /// Whether the generators get a node of their own.
    pub generator_node: GeneratorNode,
    /// Labels of the nodes that may be used. Default: all that can be scheduled on.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    /// How the application's pods lie on the nodes.
    pub placement: Placement,
    /// Who tells CPU and memory.
    pub sampling: SamplingSource,
    /// Overlays for meshes by name, or by the name before the slash: merged over `kubernetes` of the mesh.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub meshes: BTreeMap<String, Value>,
    /// The user's own commands.
    #[serde(skip_serializing_if = "Hooks::is_empty")]
    pub hooks: Hooks,
    /// Longest wait for pods and meshes to become ready, in seconds.
    pub ready_within_s: u32,
    /// A sentence about the cluster that every result carries.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            namespace_prefix: "tare".to_owned(),
            image: concat!("localhost/tare:", env!("CARGO_PKG_VERSION")).to_owned(),
            image_pull_policy: PullPolicy::default(),
            image_pull_secrets: Vec::new(),
            image_pull_secrets_from: "default".to_owned(),
            generators: 1,
            generator_node: GeneratorNode::default(),
            node_labels: BTreeMap::new(),
            placement: Placement::default(),
            sampling: SamplingSource::default(),
            meshes: BTreeMap::new(),
            hooks: Hooks::default(),
            ready_within_s: 180,
            note: String::new(),
        }
    }
}

impl KubernetesSettings {
    /// Whether everything is in its range.
    ///
    /// # Errors
    /// A sentence that says what is not.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=GENERATORS_MAX).contains(&self.generators) {
            return Err(format!(
                "found {} generators, expected 1 to {GENERATORS_MAX}",
                self.generators
            ));
        }
        let prefix = &self.namespace_prefix;
        let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let good = prefix.len() <= 20
            && prefix.starts_with(|c: char| c.is_ascii_lowercase())
            && !prefix.ends_with('-')
            && prefix.chars().all(label);
        if !good {
            return Err(format!(
                "found namespace_prefix `{prefix}`, expected 1 to 20 lower-case letters, digits and hyphens"
            ));
        }
        Ok(())
    }
}

impl KubernetesSettings {
    /// Makes of `mesh` what it is on this cluster: its section with the overlays for
    /// its name and for the name before the slash.
    ///
    /// # Errors
    /// When it does not run on Kubernetes, or an overlay does not fit.
    pub fn apply(&self, mesh: &mut Mesh) -> Result<(), String> {
        if mesh.data_plane == DataPlaneKind::None {
            return Ok(());
        }
        if !mesh.data_plane.is_on_kubernetes() {
            return Err("it does not run there".to_owned());
        }
        let mut section = mesh.kubernetes.take().unwrap_or_default();
        let family = mesh.name.split('/').next().unwrap_or_default().to_owned();
        let mut names = vec![family];
        if names[0] != mesh.name {
            names.push(mesh.name.clone());
        }
        for name in names {
            if let Some(overlay) = self.meshes.get(&name) {
                section = Box::new(section.overlaid(overlay)?);
            }
        }
        mesh.kubernetes = Some(section);
        Ok(())
    }
}

/// When nodes pull the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// When they have none of that name.
    #[default]
    IfNotPresent,
    /// For each pod.
    Always,
    /// Never: it was imported.
    Never,
}

impl PullPolicy {
    /// The word in a pod.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::IfNotPresent => "IfNotPresent",
            Self::Always => "Always",
            Self::Never => "Never",
        }
    }
}

/// Whether the generators get a node of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GeneratorNode {
    /// One node, drawn anew for each block from the plan's seed, tainted meanwhile.
    #[default]
    Reserved,
    /// Wherever the scheduler puts them, beside the application.
    Shared,
}

/// How the application's pods lie on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Evenly over the nodes.
    #[default]
    Spread,
    /// All pods of an instance on one node.
    Packed,
}

/// Who tells CPU and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SamplingSource {
    /// An agent on each node, each second; where agents may not run, the kubelets.
    #[default]
    Agents,
    /// The kubelets' summaries, through the API server, every few seconds.
    Kubelet,
}

/// The user's own commands, run on this machine by a shell; `TARE_CONTEXT`,
/// `TARE_KUBECONFIG`, `TARE_BLOCK` and `TARE_MESH` tell what is about to begin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "the hooks")]
pub struct Hooks {
    /// Before the first trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before_run: Vec<String>,
    /// Before the first trial of each block.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before_block: Vec<String>,
    /// Before each trial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before_trial: Vec<String>,
}

impl Hooks {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
