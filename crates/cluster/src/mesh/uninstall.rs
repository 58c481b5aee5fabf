//! Uninstalls a mesh, and deletes the objects that remain of it.

use std::time::Duration;

use tare_plan::mesh::MeshKubernetes;
use tare_records::trial::{Event, EventKind};

use super::install::MeshInstaller;
use crate::api::kinds::{CONFIG_MAP, NAMESPACE, NODE};
use crate::api::{ApiClient, ApiError};
use crate::cleanup::{ForcedDeletion, Snapshot, snapshot};
use crate::wait::wait;
use tare_run::events::{event, not_removed};

const POLL: Duration = Duration::from_millis(500);
/// Longest wait for objects that are being deleted.
const GONE_WITHIN: Duration = Duration::from_secs(120);

impl MeshInstaller<'_> {
    /// Uninstalls the releases in reverse order, then deletes the objects that remain of the mesh.
    /// Returns an event of kind [`EventKind::NotRemoved`] for each object that could not be
    /// removed, with the command to remove it.
    pub(crate) async fn uninstall(self, mesh: &MeshKubernetes) -> Vec<Event> {
        let mut events = Vec::new();
        for release in mesh.releases.iter().rev() {
            let (name, namespace) = (&release.name, &release.namespace);
            if let Err(error) = self.helm.uninstall(name, namespace).await {
                let found = format!("not removed: {error}; helm uninstall {name} -n {namespace}");
                events.push(not_removed(format!("release {name}"), found));
            }
        }
        if let Err(error) = self.delete_remains(mesh, &mut events).await {
            let found = format!("not removed: {error}; run `tare clean`");
            events.push(not_removed("remains of the mesh", found));
        }
        events
    }

    async fn delete_remains(
        self,
        mesh: &MeshKubernetes,
        events: &mut Vec<Event>,
    ) -> Result<(), ApiError> {
        let mesh_namespaces = mesh.namespace_names();
        let mut forced_deletion = ForcedDeletion::new();
        let removed = wait("the mesh is removed", POLL, GONE_WITHIN, async || {
            let mut left = Vec::new();
            for (kind, object) in self.before.new_objects(self.api).await? {
                if snapshot::belongs(kind, &object, mesh, &mesh_namespaces) {
                    let name = object.name();
                    self.api.delete(kind, None, name).await?;
                    left.push((kind, name.to_owned()));
                }
            }
            for (namespace, name) in self.before.new_config_maps(self.api).await? {
                if mesh.gone.config_maps.contains(&name) {
                    self.api.delete(CONFIG_MAP, Some(&namespace), &name).await?;
                    left.push((CONFIG_MAP, format!("{name} -n {namespace}")));
                }
            }
            if left.is_empty() {
                return Ok(Ok(()));
            }
            let namespaces = left.iter().filter(|(kind, _)| *kind == NAMESPACE);
            let namespaces = namespaces.map(|(_, name)| name.as_str());
            events.extend(forced_deletion.when_due(self.api, namespaces).await?);
            Ok::<_, ApiError>(Err(left))
        });
        for (kind, name) in removed.await?.err().unwrap_or_default() {
            let found = format!("not removed; {}", snapshot::command(kind, &name));
            events.push(not_removed(format!("{} {name}", kind.kind), found));
        }
        Ok(())
    }
}

/// Returns an event for each object that did not exist before the run, with the command to delete
/// it.
pub(crate) async fn differences(
    api: &ApiClient,
    before: &Snapshot,
) -> Result<Vec<Event>, ApiError> {
    let mut events = Vec::new();
    let mut appeared = |object: String, command: String| {
        let found =
            format!("did not exist before the run; if it is not yours, delete it: {command}");
        events.push(event(EventKind::Appeared, object, found));
    };
    for (kind, object) in before.new_objects(api).await? {
        if !snapshot::is_own(&object) {
            let name = object.name();
            let command = snapshot::command(kind, name);
            appeared(format!("{} {name}", kind.kind), command);
        }
    }
    for (namespace, name) in before.new_config_maps(api).await? {
        let command = snapshot::command(CONFIG_MAP, &name);
        let command = format!("{command} -n {namespace}");
        appeared(format!("ConfigMap {namespace}/{name}"), command);
    }
    for mark in before.new_marks(api).await? {
        let node = mark.split(':').next().unwrap_or_default();
        let found = format!("not removed: {mark}; kubectl edit {} {node}", NODE.plural);
        events.push(not_removed(format!("node {node}"), found));
    }
    Ok(events)
}
