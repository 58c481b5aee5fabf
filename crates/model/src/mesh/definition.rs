//! A mesh with its settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envoy::EnvoyProgram;
use super::exec::ExecSidecar;
use super::feature::Feature;
use super::kubernetes::MeshKubernetes;
use crate::plan::check_version;

/// Kind of data plane: the proxies in the path of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DataPlaneKind {
    /// No proxies.
    None,
    /// An Envoy beside each service and beside the generator.
    EnvoySidecar,
    /// A program of the user's beside each service, for inbound connections only.
    Exec,
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
    /// The Envoy of a mesh that tare configures; absent: the one that tare finds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envoy: Option<EnvoyProgram>,
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
            envoy: None,
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
    /// How the sidecars of a data plane `exec` are started; absent in other meshes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec: Option<ExecSidecar>,
    /// Its definition on Kubernetes; absent in other environments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Box<MeshKubernetes>>,
    /// The feature that it prices; absent for other meshes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature: Option<Box<Feature>>,
}

impl Mesh {
    /// Changes the version: of the Envoy that tare configures, or of all charts of a mesh on Kubernetes.
    /// Name and title show it.
    ///
    /// # Errors
    /// What was found and what was expected, for a version that is unknown, or a mesh that has none.
    pub(crate) fn at_version(&mut self, version: &str) -> Result<(), String> {
        check_version(version)?;
        let name = &self.name;
        let charts = self.kubernetes.as_mut().map(|k| &mut k.releases);
        match (self.data_plane, charts) {
            (DataPlaneKind::EnvoySidecar, _) => {
                self.settings.envoy = Some(EnvoyProgram::new(version)?);
            }
            (DataPlaneKind::Sidecar | DataPlaneKind::NodeProxy, Some(charts))
                if charts
                    .windows(2)
                    .all(|two| two[0].version == two[1].version) =>
            {
                for chart in charts {
                    chart.version = Some(version.to_owned());
                }
            }
            (DataPlaneKind::Sidecar | DataPlaneKind::NodeProxy, _) => {
                return Err(format!(
                    "found a version of `{name}`, whose charts differ in their versions, expected \
                     `kubernetes: {{releases: [{{name: ..., version: {version}}}]}}` and a `name`"
                ));
            }
            (DataPlaneKind::None | DataPlaneKind::Exec | DataPlaneKind::Installed, _) => {
                return Err(format!(
                    "found a version of `{name}`, which tare does not install, expected `{name}`"
                ));
            }
        }
        self.title = format!("{}, {version}", self.title);
        self.name = format!("{name}@{version}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Catalogue;

    #[test]
    fn charts_with_different_versions_have_no_common_one() {
        let catalogue = Catalogue::builtin(&mut crate::source::Problems::default());
        let mut mesh = catalogue.get("istio").unwrap();
        let charts = &mut mesh.kubernetes.as_mut().unwrap().releases;
        charts[0].version = Some("1.0.0".to_owned());
        let before = mesh.clone();
        let error = mesh.at_version("1.27.3").unwrap_err();
        assert!(
            error.contains("whose charts differ in their versions"),
            "{error}"
        );
        assert_eq!(mesh, before);
    }
}
