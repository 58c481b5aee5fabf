//! Everything that tare reads and renders before a run, without changing the cluster. The list of actions, the checks of
//! `tare doctor` and the role of a detached run use it.

use serde_json::Value;
use tare_plan::mesh::{Mesh, MeshKubernetes};
use tare_plan::{KubernetesSettings, Plan};

use super::api::{ApiClient, kubeconfig};
use super::application::{Rendered, has_chart};
use super::mesh::{Capabilities, Helm, MeshRole};
use super::objects::{Node, node};
use super::platform::{self, FoundPlatform};
use tare_run::environment::EnvironmentError;

/// A preview of a run on a cluster.
#[derive(Debug)]
pub struct Preview<'a> {
    pub(crate) settings: &'a KubernetesSettings,
    pub(crate) plan: &'a Plan,
    pub(crate) api: ApiClient,
    pub(crate) helm: Helm,
    /// Version of Kubernetes.
    pub(crate) version: String,
    /// Nodes that the run may use.
    pub(crate) nodes: Vec<Node>,
    /// Number of nodes that each block reserves for the generators, or why there are too few.
    pub(crate) reserved: Result<usize, String>,
    pub(crate) platform: FoundPlatform,
    /// Addresses of pods and services, as far as the cluster states them.
    pub(crate) addresses: Vec<String>,
    /// The application of the user, or why it cannot be deployed.
    pub(crate) application: Result<Option<Rendered>, String>,
    /// The meshes of the plan, in its order.
    pub(crate) meshes: Vec<MeshPreview>,
}

/// A mesh of a plan, as a run would install it on the cluster.
#[derive(Debug)]
pub(crate) struct MeshPreview {
    /// The mesh with the values of the platform.
    pub(crate) mesh: Mesh,
    /// The objects of its charts, each with a namespace, or why they cannot be rendered.
    pub(crate) charts: Result<Vec<Value>, String>,
}

impl MeshPreview {
    /// Its name in the plan.
    pub(crate) fn name(&self) -> &str {
        &self.mesh.name
    }

    /// Its section; `None` without a mesh, as for `bare`.
    pub(crate) fn section(&self) -> Option<&MeshKubernetes> {
        self.mesh.kubernetes.as_deref()
    }

    /// Its section, if tare installs it.
    pub(crate) fn installed(&self) -> Option<&MeshKubernetes> {
        self.section()
            .filter(|section| !section.releases.is_empty())
    }
}

impl<'a> Preview<'a> {
    /// Reads the cluster of the settings, and renders the charts of the meshes and the application.
    ///
    /// # Errors
    /// When the cluster does not respond. What cannot be rendered is a part of the result.
    pub async fn of(
        settings: &'a KubernetesSettings,
        plan: &'a Plan,
    ) -> Result<Self, EnvironmentError> {
        let api = kubeconfig::connect(settings).await?;
        let version = api.version().await?;
        Self::on(api, version, settings, plan).await
    }

    /// As [`Self::of`], on a cluster that has responded with this version of Kubernetes.
    pub(crate) async fn on(
        api: ApiClient,
        version: String,
        settings: &'a KubernetesSettings,
        plan: &'a Plan,
    ) -> Result<Self, EnvironmentError> {
        let nodes = node::usable(&api, settings).await?;
        let reserved = node::choose(&nodes, settings, plan.seed, 0).map(|nodes| nodes.len());
        let platform = platform::find(settings, &nodes);
        let addresses = platform::addresses(&api, &nodes).await?;
        let helm = Helm::new(settings);
        let meshes = plan.meshes.iter();
        let meshes: Vec<Mesh> = meshes.map(|m| m.on_platform(platform.platform)).collect();
        let graph = &plan.workload.graph;
        let mut sections = meshes.iter().filter_map(|m| m.kubernetes.as_ref());
        let has_charts = has_chart(graph) || sections.any(|s| !s.releases.is_empty());
        let capabilities = Capabilities::for_charts(&api, &version, has_charts).await?;
        let application = Rendered::prepare(&api, &helm, graph, &capabilities).await;
        let mut rendered = Vec::new();
        for mesh in meshes {
            let charts = match &mesh.kubernetes {
                Some(section) => helm.render(section, &capabilities).await,
                None => Ok(Vec::new()),
            };
            let charts = charts.map_err(|e| e.to_string());
            rendered.push(MeshPreview { mesh, charts });
        }
        Ok(Self {
            settings,
            plan,
            api,
            helm,
            version,
            nodes,
            reserved: reserved.map_err(|e| e.to_string()),
            platform,
            addresses,
            application: application.map_err(|e| e.to_string()),
            meshes: rendered,
        })
    }

    /// Number of nodes that each block reserves for the generators; 0 if there are too few.
    pub(crate) fn reserved_count(&self) -> usize {
        *self.reserved.as_ref().unwrap_or(&0)
    }

    /// The sections of the meshes that tare installs.
    pub(crate) fn installed(&self) -> impl Iterator<Item = &MeshKubernetes> {
        self.meshes.iter().filter_map(MeshPreview::installed)
    }

    /// Returns the first mesh that would not apply to these addresses of the cluster, and what to do.
    pub(crate) fn outside(&self, addresses: &[String]) -> Option<(&str, String)> {
        self.meshes.iter().find_map(|mesh| {
            let found = platform::outside(mesh.installed()?, addresses)?;
            Some((mesh.name(), found))
        })
    }

    /// The application of the user, if there is one that can be deployed.
    pub(crate) fn rendered(&self) -> Option<&Rendered> {
        self.application.as_ref().ok()?.as_ref()
    }

    /// Returns the role that the meshes and the application need.
    ///
    /// # Errors
    /// The first mesh whose charts, or else the application, cannot be rendered, and the reason.
    pub(crate) fn role(&self) -> Result<MeshRole, String> {
        let mut meshes = Vec::new();
        for mesh in &self.meshes {
            let charts = mesh.charts.as_ref();
            let charts = charts.map_err(|error| format!("{}: {error}", mesh.name()))?;
            meshes.extend(mesh.section().map(|s| (s, charts.as_slice())));
        }
        let application = self.application.as_ref();
        let application = application.map_err(|error| format!("application: {error}"))?;
        let application = application.as_ref().map_or(&[][..], |r| &r.objects);
        Ok(MeshRole::of(&meshes, application))
    }
}
