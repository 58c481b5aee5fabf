//! What a run of a plan would do to a cluster and its nodes, without changing the cluster.

mod objects;

use tare_plan::SCHEMA_VERSION;
use tare_plan::mesh::{Mesh, Platform};
use tare_plan::{KubernetesSettings, Plan, SamplingSource};
use tare_records::actions::{Action, ActionKind, ClusterActions, MeshActions};

use super::api::kubeconfig;
use super::mesh::{Capabilities, Helm, items, namespaces, values};
use super::objects::names::GENERATOR;
use super::objects::{Node, node};
use super::platform;
use tare_run::environment::EnvironmentError;

fn action(kind: ActionKind, object: impl Into<String>, what: impl Into<String>) -> Action {
    let (object, what) = (object.into(), what.into());
    Action { kind, object, what }
}

/// Lists what a run of this plan would do to a cluster. Helm renders the charts of the meshes; requests only read.
///
/// # Errors
/// When the cluster does not respond. A chart that cannot be rendered is an `error` of its mesh.
pub async fn actions(
    settings: &KubernetesSettings,
    plan: &Plan,
) -> Result<ClusterActions, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    let version = api.version().await?;
    let nodes = node::usable(&api, settings).await?;
    let platform = platform::find(settings, &nodes);
    let addresses = platform::addresses(&api, &nodes).await?;
    let helm = Helm::new(settings);
    let sections = plan.meshes.iter().filter_map(|m| m.kubernetes.as_ref());
    let has_charts = sections.into_iter().any(|mesh| !mesh.releases.is_empty());
    let capabilities = Capabilities::for_charts(&api, has_charts).await?;
    let mut meshes = Vec::new();
    for mesh in &plan.meshes {
        let mut found = of_mesh(&helm, &capabilities, mesh, platform.platform, &addresses).await;
        found.actions.sort();
        meshes.push(found);
    }
    Ok(ClusterActions {
        schema_version: SCHEMA_VERSION,
        tare_version: env!("CARGO_PKG_VERSION").to_owned(),
        server: kubeconfig::server(settings)?,
        kubernetes: version,
        platform: platform.found,
        run: of_run(settings, plan, &nodes),
        nodes: nodes.into_iter().map(|n| n.name).collect(),
        meshes,
    })
}

/// What every run does, with any mesh.
fn of_run(settings: &KubernetesSettings, plan: &Plan, nodes: &[Node]) -> Vec<Action> {
    let mut actions = Vec::new();
    if settings.sampling == SamplingSource::Agents {
        let what =
            "a pod on each node of the trial, also on those with taints: hostPID, runs as root";
        actions.push(action(ActionKind::NodeAccess, "agents", what));
        let what = "read /sys/fs/cgroup";
        actions.push(action(ActionKind::NodeFiles, "agents", what));
    }
    match node::choose(nodes, settings, plan.seed, 0).map(|chosen| chosen.len()) {
        Ok(0) => {}
        Ok(count) => {
            let candidates = nodes.iter().filter(|n| n.is_for_generators);
            let names: Vec<&str> = candidates.map(|n| n.name.as_str()).collect();
            let what = format!(
                "{count} of them, others for each block, have the label and the taint {GENERATOR} (NoSchedule) until the \
                 end of the run"
            );
            let object = format!("nodes {}", names.join(", "));
            actions.push(action(ActionKind::NodeMarks, object, what));
        }
        Err(error) => actions.push(action(ActionKind::Warning, "generators", error.to_string())),
    }
    let prefix = &settings.namespace_prefix;
    let instances = plan.workloads().map(|w| w.instances).max().unwrap_or(0);
    let what = format!(
        "one for the run; for each trial one for each of at most {instances} instances, one for the generators and one, with \
         the PodSecurity level privileged, for the agents"
    );
    actions.push(action(ActionKind::Namespaces, format!("{prefix}-*"), what));
    actions.sort();
    actions
}

async fn of_mesh(
    helm: &Helm,
    capabilities: &Capabilities,
    mesh: &Mesh,
    platform: Option<&'static Platform>,
    addresses: &[String],
) -> MeshActions {
    let mut found = MeshActions {
        mesh: mesh.name.clone(),
        is_installed: false,
        actions: Vec::new(),
        error: None,
    };
    let Some(section) = mesh.kubernetes.as_deref() else {
        return found;
    };
    if section.releases.is_empty() {
        return found;
    }
    found.is_installed = true;
    if let Some(platform) = platform {
        for (release, values) in platform.values_of(section) {
            let what = format!("{values}, for {}", platform.title);
            found
                .actions
                .push(action(ActionKind::Values, release, what));
        }
        for note in platform.notes_of(section) {
            let object = platform.title.as_str();
            found
                .actions
                .push(action(ActionKind::Warning, object, note));
        }
    }
    let Some(section) = mesh.on_platform(platform).kubernetes else {
        return found;
    };
    let warning = platform::outside(&section, addresses);
    let warning = warning.map(|text| action(ActionKind::Warning, "addresses", text));
    found.actions.extend(warning);
    let namespaces = namespaces(&section);
    let what = "created, with the PodSecurity level privileged";
    let object = namespaces.join(", ");
    found
        .actions
        .push(action(ActionKind::Namespaces, object, what));
    let mut all = Vec::new();
    for release in &section.releases {
        let rendered = match values(&section, &release.name) {
            Ok(values) => helm.render(release, &values, capabilities).await,
            Err(error) => Err(error),
        };
        match rendered {
            Ok(objects) => {
                let objects = objects.into_iter().flat_map(items);
                all.extend(objects.map(|o| (release.namespace.clone(), o)));
            }
            Err(error) => {
                found.error = Some(error.to_string());
                return found;
            }
        }
    }
    let manifests = section.manifests.iter().cloned();
    all.extend(manifests.map(|o| (String::new(), o)));
    found.actions.extend(objects::actions(&all, &namespaces));
    found
}
