//! An application of the user: its objects are rendered on this machine once for a run, checked, and then deployed once
//! for each instance of each trial.

mod check;
mod exported;
mod files;
mod fronts;
mod instance;
mod own_load;
mod references;
mod refusal;
mod removed;
mod render;

use std::collections::BTreeMap;

use serde_json::Value;
use tare_plan::graph::{Application, ServiceGraph};

use super::api::ApiClient;
use super::mesh::{Capabilities, Helm, Resource, resource};
use files::Files;
use references::References;
use tare_run::digest::sha256;
use tare_run::environment::EnvironmentError;

pub(crate) use fronts::{Front, gets};
pub(crate) use instance::{Instance, expected_pods};
use render::{Objects, render};

/// The checked objects of an application.
#[derive(Debug, Clone)]
pub(crate) struct Rendered {
    /// Objects to deploy, without a namespace.
    pub(crate) objects: Vec<Value>,
    /// Names by which the objects refer to each other with their namespace.
    references: References,
    /// What was changed in the objects: the object, and the change.
    pub(crate) changes: Vec<(String, String)>,
    /// What a user should know about objects that are deployed: the object, and the note.
    pub(crate) notes: Vec<(String, String)>,
    /// Digest of the rendered objects without those of `exclude` and without what a cluster has
    /// added, before all other changes.
    pub(crate) digest: String,
    /// Paths of the kinds, by `apiVersion` and kind.
    resources: BTreeMap<(String, String), Resource>,
}

impl Rendered {
    /// Renders and checks the application of a graph, without changing the cluster; `None` if tare's servers act as
    /// its services.
    pub(crate) async fn prepare(
        api: &ApiClient,
        helm: &Helm,
        graph: &ServiceGraph,
        capabilities: &Capabilities,
    ) -> Result<Option<Self>, EnvironmentError> {
        let Some(application) = &graph.application else {
            return Ok(None);
        };
        let found = render(helm, application, &graph.name, capabilities).await?;
        let files = found.files.clone();
        let mut rendered = Self::new(found, application, graph)?;
        rendered.resources = resources(api, &rendered.objects, &files).await?;
        Ok(Some(rendered))
    }

    /// Checks rendered objects and changes what must be changed on any cluster.
    fn new(
        found: Objects,
        application: &Application,
        graph: &ServiceGraph,
    ) -> Result<Self, EnvironmentError> {
        let Objects { objects, files } = found;
        let mut objects = check::included(objects, application).map_err(refused)?;
        let mut changes = exported::clean(&mut objects);
        let digest = digest(objects.clone());
        // Where objects without a namespace would be.
        let unnamed = match application.chart {
            Some(_) => graph.name.as_str(),
            None => "default",
        };
        let references = References::of(&objects, unnamed);
        objects.retain(|o| o["kind"] != "Namespace");
        check::check(&objects, &files, graph).map_err(refused)?;
        changes.extend(check::change(&mut objects, application).map_err(refused)?);
        changes.extend(references.examine(&objects, &files).map_err(refused)?);
        Ok(Self {
            notes: own_load::notes(&objects),
            objects,
            references,
            changes,
            digest,
            resources: BTreeMap::new(),
        })
    }

    /// Kind and name of each object.
    pub(crate) fn titles(&self) -> Vec<String> {
        self.objects.iter().map(title).collect()
    }

    /// Returns the path of the objects of a kind in a namespace.
    pub(crate) fn path(&self, object: &Value, namespace: &str) -> String {
        let resource = self.resources.get(&kind(object));
        resource.map_or_else(String::new, |r| r.path(Some(namespace)))
    }
}

/// Renders and checks the objects of the application of a graph, if it has one, without a cluster.
pub(crate) async fn objects(
    helm: &Helm,
    graph: &ServiceGraph,
    capabilities: &Capabilities,
) -> Result<Vec<Value>, EnvironmentError> {
    let Some(application) = &graph.application else {
        return Ok(Vec::new());
    };
    let objects = render(helm, application, &graph.name, capabilities).await?;
    Ok(Rendered::new(objects, application, graph)?.objects)
}

/// Whether the application of a graph is a Helm chart.
pub(crate) fn has_chart(graph: &ServiceGraph) -> bool {
    let application = graph.application.as_ref();
    application.is_some_and(|a| a.chart.is_some())
}

/// Reads, checks and changes manifests as those of an application in the namespace `to`. Returns the objects as JSON.
pub(crate) fn moved(text: &str, to: &str) -> Result<Vec<String>, EnvironmentError> {
    let mut found = Objects::default();
    found.add("manifests", render::parse("manifests", text)?)?;
    let application = Application::default();
    let graph = ServiceGraph {
        name: "shop".to_owned(),
        description: String::new(),
        application: Some(application.clone()),
        services: Vec::new(),
        mixes: Vec::new(),
    };
    let rendered = Rendered::new(found, &application, &graph)?;
    let moved = rendered.objects.into_iter().map(|mut object| {
        rendered.references.replace(&mut object, to);
        object.to_string()
    });
    Ok(moved.collect())
}

/// Digest of rendered objects. Of a Secret it covers only the name: charts generate passwords anew, and short ones could
/// be guessed. Annotations `checksum/...` of pod templates, which change with them, are left out.
fn digest(mut objects: Vec<Value>) -> String {
    for object in &mut objects {
        if object["kind"] == "Secret" {
            *object = title(object).into();
        }
        let annotations = object.pointer_mut("/spec/template/metadata/annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.retain(|key, _| !key.starts_with("checksum/"));
        }
    }
    sha256(Value::from(objects).to_string().as_bytes())
}

fn refused(found: String) -> EnvironmentError {
    EnvironmentError::start("the application", found)
}

/// Finds the paths of the kinds of all objects. Refuses kinds that the cluster lacks or that are cluster-scoped.
async fn resources(
    api: &ApiClient,
    objects: &[Value],
    files: &Files,
) -> Result<BTreeMap<(String, String), Resource>, EnvironmentError> {
    let mut resources = BTreeMap::new();
    let mut problems = Vec::new();
    for object in objects {
        let key = kind(object);
        if !resources.contains_key(&key)
            && let Some(resource) = resource(api, &key.0, &key.1).await?
        {
            resources.insert(key.clone(), resource);
        }
        match resources.get(&key) {
            Some(resource) if resource.namespaced => {}
            Some(_) => problems.push(format!(
                "{}: found the kind {}, {}",
                files.place(object),
                key.1,
                refusal::CHANGES_OTHERS
            )),
            None => problems.push(format!(
                "{}: the cluster has no kind {} in {}",
                files.place(object),
                key.1,
                key.0
            )),
        }
    }
    match problems.is_empty() {
        true => Ok(resources),
        false => Err(refused(check::excludable(&problems))),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

/// `apiVersion` and kind of an object.
fn kind(object: &Value) -> (String, String) {
    (
        text(object, "/apiVersion").to_owned(),
        text(object, "/kind").to_owned(),
    )
}

/// Kind and name of an object, as in `exclude`: `Deployment/web`.
fn title(object: &Value) -> String {
    format!(
        "{}/{}",
        text(object, "/kind"),
        text(object, "/metadata/name")
    )
}
