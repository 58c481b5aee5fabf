//! What a run does to a cluster and its nodes, as `tare plan check --cluster` lists it beforehand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run of a plan does to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterActions {
    /// Version of this format.
    pub schema_version: u32,
    /// Version of tare.
    pub tare_version: String,
    /// Address of the API server.
    pub server: String,
    /// Version of Kubernetes.
    pub kubernetes: String,
    /// The platform, and how it was found.
    pub platform: String,
    /// Nodes that the run may use.
    pub nodes: Vec<String>,
    /// What every run does, with any mesh.
    pub run: Vec<Action>,
    /// What each mesh of the plan adds, in the order of the plan. A run installs one mesh at a time, and removes it.
    pub meshes: Vec<MeshActions>,
}

/// What the installation of a mesh does to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeshActions {
    /// Name of the mesh in the plan.
    pub mesh: String,
    /// Whether tare installs it.
    pub is_installed: bool,
    /// The actions: warnings, then those on nodes, then the others.
    pub actions: Vec<Action>,
    /// Why the actions are not known: a chart cannot be rendered; absent otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One action.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// Kind of action.
    pub kind: ActionKind,
    /// The object that acts or is created.
    pub object: String,
    /// What it does.
    pub what: String,
}

/// Kind of an action on a cluster.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// Something that will not work on this cluster, with what to do.
    Warning,
    /// Files of nodes that pods write or read.
    NodeFiles,
    /// Processes, network or privileges of nodes that pods use.
    NodeAccess,
    /// Labels and taints of nodes that are changed, or may be.
    NodeMarks,
    /// Helm values that meshes need on this platform.
    Values,
    /// Namespaces that are created.
    Namespaces,
    /// Other objects that are created outside of namespaces.
    ClusterObjects,
    /// Objects that are created in namespaces of others.
    ForeignNamespaces,
}

impl ActionKind {
    /// The kind in a text.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Warning => "WARNING",
            Self::NodeFiles => "node files",
            Self::NodeAccess => "node access",
            Self::NodeMarks => "node marks",
            Self::Values => "values",
            Self::Namespaces => "namespaces",
            Self::ClusterObjects => "cluster",
            Self::ForeignNamespaces => "foreign",
        }
    }
}
