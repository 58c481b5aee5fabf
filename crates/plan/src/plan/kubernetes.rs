//! The settings of the environment `kubernetes`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::pod::{PodSettings, check_namespace_labels, check_service_annotations};
use crate::mesh::{DataPlaneKind, Mesh, check_platform, name_and_version};
use crate::source::Problem;

/// Most generators of a trial.
const GENERATORS_MAX: u32 = 64;

/// Settings of the environment `kubernetes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "the section `kubernetes`")]
pub struct KubernetesSettings {
    /// Path of a kubeconfig. Default: TARE_KUBECONFIG, then KUBECONFIG, then ~/.kube/config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// Context in the kubeconfig. Default: its current context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The platform, whose Helm values meshes get: `auto` (recognised from the nodes), `none`, or a name such as `k3s`.
    pub platform: String,
    /// Prefix of the names of all namespaces that a run creates.
    pub namespace_prefix: String,
    /// Image of tare for applications, generators and agents.
    pub image: String,
    /// When nodes pull the image.
    pub image_pull_policy: PullPolicy,
    /// Names of pull secrets; they must be in the namespace `image_pull_secrets_from`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Namespace from which pull secrets are copied into those of the run.
    pub image_pull_secrets_from: String,
    /// Generators of a trial, 1 to 64; rate and connections are divided among them.
    #[schemars(range(min = 1, max = GENERATORS_MAX))]
    pub generators: u32,
    /// Whether the generators get a node of their own.
    pub generator_node: GeneratorNode,
    /// Nodes that are reserved for the generators, at most one for each generator.
    #[schemars(range(min = 1, max = GENERATORS_MAX))]
    pub generator_nodes: u32,
    /// Labels of the nodes of which these are chosen. Default: all that may be used.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub generator_node_labels: BTreeMap<String, String>,
    /// Labels of the nodes that may be used. Default: all schedulable nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub node_labels: BTreeMap<String, String>,
    /// How the application's pods are distributed over the nodes.
    pub placement: Placement,
    /// Settings of the pods that a run creates.
    #[serde(skip_serializing_if = "PodSettings::is_empty")]
    pub pod: PodSettings,
    /// Labels of the namespaces of applications, generators and agents, such as `pod-security.kubernetes.io/enforce`;
    /// that of agents remains `privileged`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub namespace_labels: BTreeMap<String, String>,
    /// Annotations of the Services of the applications, with every mesh, such as `networking.istio.io/exportTo`.
    /// `${tare.namespaces}` is replaced by the two namespaces in which a Service is used, with a comma between them:
    /// its own, and that of the generators.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub service_annotations: BTreeMap<String, String>,
    /// Source of the CPU and memory samples.
    pub sampling: SamplingSource,
    /// Overlays for meshes by name, or by the name before the slash: merged over `kubernetes` of the mesh.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub meshes: BTreeMap<String, Value>,
    /// Commands of the user, run before trials.
    #[serde(skip_serializing_if = "Hooks::is_empty")]
    pub hooks: Hooks,
    /// Longest wait for pods and meshes to become ready, in seconds.
    pub ready_within_s: u32,
    /// Note about the cluster, included in every result.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Whether the plan has churn, which needs more rights. It follows from the loads; what a file says is replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub has_churn: bool,
}

impl Default for KubernetesSettings {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            context: None,
            platform: "auto".to_owned(),
            namespace_prefix: "tare".to_owned(),
            image: concat!("localhost/tare:", env!("CARGO_PKG_VERSION")).to_owned(),
            image_pull_policy: PullPolicy::default(),
            image_pull_secrets: Vec::new(),
            image_pull_secrets_from: "default".to_owned(),
            generators: 1,
            generator_node: GeneratorNode::default(),
            generator_nodes: 1,
            generator_node_labels: BTreeMap::new(),
            node_labels: BTreeMap::new(),
            placement: Placement::default(),
            pod: PodSettings::default(),
            namespace_labels: BTreeMap::new(),
            service_annotations: BTreeMap::new(),
            sampling: SamplingSource::default(),
            meshes: BTreeMap::new(),
            hooks: Hooks::default(),
            ready_within_s: 180,
            note: String::new(),
            has_churn: false,
        }
    }
}

impl KubernetesSettings {
    /// Checks the ranges of all values.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn check(&self) -> Result<(), Problem> {
        if !(1..=GENERATORS_MAX).contains(&self.generators) {
            let found = format!("found {} generators", self.generators);
            return Err(Problem::new(found, format!("1 to {GENERATORS_MAX}")));
        }
        if !(1..=self.generators).contains(&self.generator_nodes) {
            return Err(Problem::new(
                format!("found {} generator_nodes", self.generator_nodes),
                format!("1 to {}: at most one for each generator", self.generators),
            ));
        }
        if self.generator_node == GeneratorNode::Shared
            && (self.generator_nodes > 1 || !self.generator_node_labels.is_empty())
        {
            return Err(Problem::of(
                "found `generator_node: shared` with generator_nodes or generator_node_labels, which are for `reserved`",
            ));
        }
        let prefix = &self.namespace_prefix;
        let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let good = prefix.len() <= 20
            && prefix.starts_with(|c: char| c.is_ascii_lowercase())
            && !prefix.ends_with('-')
            && prefix.chars().all(label);
        if !good {
            return Err(Problem::new(
                format!("found namespace_prefix `{prefix}`"),
                "1 to 20 lower-case letters, digits and hyphens",
            ));
        }
        check_platform(&self.platform)?;
        check_namespace_labels(&self.namespace_labels)?;
        check_service_annotations(&self.service_annotations)?;
        self.pod.check()
    }
}

impl KubernetesSettings {
    /// Applies the overlays of this cluster to `mesh`: first that of the name before the slash, then that of the
    /// name with its variant, then that of the name with its version.
    ///
    /// # Errors
    /// If the mesh does not run on Kubernetes, the result of an overlay is invalid, or its version has no place.
    pub fn apply(&self, mesh: &mut Mesh) -> Result<(), Problem> {
        if mesh.data_plane == DataPlaneKind::None {
            return Ok(());
        }
        if !mesh.data_plane.is_on_kubernetes() {
            return Err(Problem::of("this mesh only runs as local processes"));
        }
        let mut section = mesh.kubernetes.take().unwrap_or_default();
        let (variant, _) = name_and_version(&mesh.name);
        let family = variant.split('/').next().unwrap_or_default();
        let mut names = vec![family, variant, &mesh.name];
        names.dedup();
        for name in names {
            if let Some(overlay) = self.meshes.get(name) {
                section = Box::new(section.overlaid(overlay)?);
            }
        }
        let has_place = section.has_place_for_version();
        match (&mesh.settings.version, &section.version) {
            (Some(version), _) if !has_place => {
                return Err(Problem::of(format!(
                    "found the version {version}, but no place for it; expected `${{tare.version}}` in the section \
                     `kubernetes` of the mesh, and in what a plan or a cluster file puts in its place: in \
                     `version` or `chart` of a release, in `values` (an image tag) or in `join` (the label of a revision)"
                )));
            }
            (None, None) if has_place => {
                return Err(Problem::of(
                    "`${tare.version}` needs a version: set `version` in the section `kubernetes` of the \
                     mesh, or `NAME@VERSION`",
                ));
            }
            _ => {}
        }
        mesh.kubernetes = Some(section);
        Ok(())
    }
}

/// When nodes pull the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum PullPolicy {
    /// If the image is not present on the node.
    #[default]
    IfNotPresent,
    /// For each pod.
    Always,
    /// Never: the image was imported.
    Never,
}

impl PullPolicy {
    /// The value in the specification of a pod.
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
    /// One node, chosen at random for each block (from the plan's seed) and tainted meanwhile.
    #[default]
    Reserved,
    /// No reserved node: the generators may run on the nodes of the application.
    Shared,
}

/// How the application's pods are distributed over the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Evenly over the nodes.
    #[default]
    Spread,
    /// All pods of an instance on one node.
    Packed,
}

/// Source of the CPU and memory samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SamplingSource {
    /// An agent on each node, every second; the kubelets where agents are not allowed.
    #[default]
    Agents,
    /// The kubelets' summaries, through the API server, every few seconds.
    Kubelet,
}

/// Commands of the user, run on this machine by a shell with `TARE_CONTEXT`, `TARE_KUBECONFIG`,
/// `TARE_BLOCK` and `TARE_MESH` set to those of the trial that follows.
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
