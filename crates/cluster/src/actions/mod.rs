//! What a run of a plan would do to a cluster and its nodes, without changing the cluster.

mod objects;

use tare_plan::{SCHEMA_VERSION, SamplingSource};
use tare_records::actions::{Action, ActionKind, ClusterActions, MeshActions};

use super::objects::names::GENERATOR;
use super::platform;
use super::preview::{MeshPreview, Preview};

fn action(kind: ActionKind, object: impl Into<String>, what: impl Into<String>) -> Action {
    let (object, what) = (object.into(), what.into());
    Action { kind, object, what }
}

/// Lists what a run would change on the cluster. Sends no request.
///
/// A chart that cannot be rendered is an `error` of its mesh.
#[must_use]
pub fn actions(preview: &Preview<'_>) -> ClusterActions {
    let meshes = preview.meshes.iter().map(|mesh| {
        let mut found = of_mesh(preview, mesh);
        found.actions.sort();
        found
    });
    ClusterActions {
        schema_version: SCHEMA_VERSION,
        tare_version: env!("CARGO_PKG_VERSION").to_owned(),
        server: preview.api.server.clone(),
        kubernetes: preview.version.clone(),
        platform: preview.platform.found.clone(),
        run: of_run(preview),
        nodes: preview.nodes.iter().map(|n| n.name.clone()).collect(),
        meshes: meshes.collect(),
    }
}

/// What every run does, with any mesh.
fn of_run(preview: &Preview<'_>) -> Vec<Action> {
    let settings = preview.settings;
    let mut actions = Vec::new();
    if let Err(error) = &preview.application {
        actions.push(action(ActionKind::Warning, "application", error));
    }
    if settings.sampling == SamplingSource::Agents {
        let what =
            "a pod on each node of the trial, also on those with taints: hostPID, runs as root";
        actions.push(action(ActionKind::NodeAccess, "agents", what));
        let what = "read /sys/fs/cgroup";
        actions.push(action(ActionKind::NodeFiles, "agents", what));
    }
    match &preview.reserved {
        Ok(0) => {}
        Ok(count) => {
            let candidates = preview.nodes.iter().filter(|n| n.is_for_generators);
            let names: Vec<&str> = candidates.map(|n| n.name.as_str()).collect();
            let what = format!(
                "{count} of them, others for each block, have the label and the taint {GENERATOR} (NoSchedule) until the \
                 end of the run"
            );
            let object = format!("nodes {}", names.join(", "));
            actions.push(action(ActionKind::NodeMarks, object, what));
        }
        Err(error) => actions.push(action(ActionKind::Warning, "generators", error)),
    }
    let prefix = &settings.namespace_prefix;
    let workloads = preview.plan.workloads();
    let instances = workloads.map(|w| w.instances).max().unwrap_or(0);
    let what = format!(
        "one for the run; for each trial one for each of at most {instances} instances, one for the generators and one, with \
         the PodSecurity level privileged, for the agents"
    );
    actions.push(action(ActionKind::Namespaces, format!("{prefix}-*"), what));
    actions.sort();
    actions
}

fn of_mesh(preview: &Preview<'_>, mesh: &MeshPreview) -> MeshActions {
    let mut found = MeshActions {
        mesh: mesh.name().to_owned(),
        is_installed: false,
        actions: Vec::new(),
        error: None,
    };
    let Some(section) = mesh.installed() else {
        return found;
    };
    found.is_installed = true;
    if let Some(platform) = preview.platform.platform {
        let title = platform.title.as_str();
        let values = platform.values_of(section).into_iter();
        let values = values.map(|(release, values)| {
            let what = format!("{values}, for {title}");
            action(ActionKind::Values, release, what)
        });
        let notes = platform.notes_of(section).into_iter();
        let notes = notes.map(|note| action(ActionKind::Warning, title, note));
        found.actions.extend(values.chain(notes));
    }
    let warning = platform::outside(section, &preview.addresses);
    let warning = warning.map(|text| action(ActionKind::Warning, "addresses", text));
    found.actions.extend(warning);
    let namespaces = section.namespace_names();
    let what = "created, with the PodSecurity level privileged";
    let created = action(ActionKind::Namespaces, namespaces.join(", "), what);
    found.actions.push(created);
    match &mesh.charts {
        Ok(charts) => {
            let all: Vec<_> = charts.iter().chain(&section.manifests).collect();
            found.actions.extend(objects::actions(&all, &namespaces));
        }
        Err(error) => found.error = Some(error.clone()),
    }
    found
}
