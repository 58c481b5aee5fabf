//! A mesh with its settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envoy::EnvoyProgram;
use super::feature::Feature;
use super::kubernetes::MeshKubernetes;
use super::proxy::ProxyProgram;
use crate::plan::check_version;
use crate::source::Problem;

/// Kind of data plane: the proxies in the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataPlaneKind {
    /// No proxies.
    None,
    /// An Envoy beside each service and beside the generator.
    EnvoySidecar,
    /// The program that a section `proxy` describes beside each service and, if it has `files`, beside the generator.
    #[serde(alias = "exec")]
    Proxy,
    /// A proxy in each pod, injected by the mesh. Kubernetes only.
    Sidecar,
    /// A proxy on each node, with or without waypoints. Kubernetes only.
    NodeProxy,
    /// A mesh that is installed already. Kubernetes only.
    Installed,
}

/// Settings that a mesh's file, a variant or a plan may change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeshSettings {
    /// Worker threads of each proxy.
    pub concurrency: u32,
    /// Mutual TLS between proxies.
    pub mtls: Mtls,
    /// The proxies' HTTP statistics per cluster and listener.
    pub l7_stats: bool,
    /// Access log of every request (to the trial's log folder).
    pub access_log: bool,
    /// Which sides of a call have a proxy in the path.
    #[serde(skip_serializing_if = "Placement::is_both")]
    pub placement: Placement,
    /// How services call those outside the mesh.
    #[serde(skip_serializing_if = "External::is_outside")]
    pub external: External,
    /// The Envoy of a mesh that tare configures; absent: the one that tare finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envoy: Option<EnvoyProgram>,
    /// The version of a mesh on Kubernetes, as asked for by `NAME@VERSION`; absent: that of its definition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Which sides of a call have a proxy in the path. Only the Envoys that tare configures can differ from
/// `both`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The sidecars of the caller and of the called service.
    #[default]
    Both,
    /// The sidecar of the caller. It calls the application of the called service directly.
    Client,
    /// The sidecar of the called service. The caller calls it directly.
    Server,
    /// The sidecars of the services that the generator calls, for these calls only: an ingress.
    Entry,
}

/// How services call a service outside the mesh, such as a datastore: one with `external: true` in the graph. Only
/// the Envoys that tare configures can differ from `outside`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum External {
    /// Through the sidecar of the caller, as plain TCP. The service has no sidecar.
    #[default]
    Outside,
    /// Past the sidecar of the caller. The service has no sidecar.
    Direct,
    /// As any other service: it has a sidecar, and TLS if the mesh has TLS.
    Meshed,
}

impl External {
    /// Whether it is the default.
    #[must_use]
    pub fn is_outside(&self) -> bool {
        *self == Self::Outside
    }
}

impl Placement {
    /// Whether it is the default.
    #[must_use]
    pub fn is_both(&self) -> bool {
        *self == Self::Both
    }
}

impl DataPlaneKind {
    /// Whether it needs a cluster.
    #[must_use]
    pub fn is_on_kubernetes(self) -> bool {
        matches!(self, Self::Sidecar | Self::NodeProxy | Self::Installed)
    }
}

impl Default for MeshSettings {
    fn default() -> Self {
        Self {
            concurrency: 1,
            mtls: Mtls::Off,
            l7_stats: true,
            access_log: false,
            placement: Placement::Both,
            external: External::Outside,
            envoy: None,
            version: None,
        }
    }
}

/// Mutual TLS between proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mtls {
    /// Plain text.
    #[default]
    Off,
    /// Between proxies; plain text from elsewhere is accepted. Kubernetes only.
    Permissive,
    /// Required; plain text is refused.
    Strict,
    /// TLS in which only the server shows a certificate. Only for Envoys that tare configures.
    Server,
}

/// One thing under test, resolved: a mesh or a variant with all its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mesh {
    /// Name in this plan, unique: `bare`, `envoy/mtls`, or an alias.
    pub name: String,
    /// Title on one line.
    pub title: String,
    /// Kind of data plane.
    pub data_plane: DataPlaneKind,
    /// Settings in force.
    pub settings: MeshSettings,
    /// The sidecars of a data plane `proxy`; absent in other meshes.
    #[serde(default, alias = "exec", skip_serializing_if = "Option::is_none")]
    pub proxy: Option<Box<ProxyProgram>>,
    /// Its definition on Kubernetes; absent in other environments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Box<MeshKubernetes>>,
    /// The feature that it prices; absent for other meshes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<Box<Feature>>,
}

impl Mesh {
    /// Whether a part of its work is done by the kernel of the nodes, in no container.
    #[must_use]
    pub fn is_in_kernel(&self) -> bool {
        let section = self.kubernetes.as_ref();
        section.is_some_and(|s| s.parts.in_kernel)
    }

    /// Changes the version: of the Envoy that tare configures, or of a mesh on Kubernetes. Name and title show it.
    ///
    /// # Errors
    /// What was found and what was expected, for a version that is unknown, or a mesh that has none.
    pub(crate) fn at_version(&mut self, version: &str) -> Result<(), Problem> {
        check_version(version)?;
        let name = &self.name;
        match self.data_plane {
            DataPlaneKind::EnvoySidecar => {
                self.settings.envoy = Some(EnvoyProgram::new(version)?);
            }
            DataPlaneKind::None => {
                let found = format!("found a version of `{name}`, which has no proxies");
                return Err(Problem::new(found, format!("`{name}`")));
            }
            DataPlaneKind::Proxy => {
                let found =
                    format!("found a version of `{name}`, which is the program that is installed");
                return Err(Problem::new(found, format!("`{name}`")));
            }
            _ if version.contains('/') => {
                return Err(Problem::new(
                    format!("found the version `{version}` of `{name}`"),
                    "that of its charts or images, such as 1.27.3: a program of your own can only replace the Envoys of \
                     `envoy`",
                ));
            }
            _ => self.settings.version = Some(version.to_owned()),
        }
        self.title = format!("{}, {version}", self.title);
        self.name = format!("{name}@{version}");
        Ok(())
    }

    /// This mesh with its version in place of each `${tare.version}` of its definition on Kubernetes.
    #[must_use]
    pub fn with_version_filled(&self) -> Self {
        let mut mesh = self.clone();
        if let Some(section) = &mut mesh.kubernetes
            && let Some(version) = self.settings.version.clone().or(section.version.clone())
        {
            section.fill_version(&version);
        }
        mesh
    }
}
