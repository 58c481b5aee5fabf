//! The objects that a run would create, for dry runs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Namespace, Node, NodeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};
use tare_plan::KubernetesSettings;
use tare_plan::mesh::{Join, MeshKubernetes};

use super::capacity::{Amount, Demand};
use crate::api::kinds::{CONFIG_MAP, DEPLOYMENT, JOB, Kind, NODE, POD, SERVICE};
use crate::api::{self, ApiClient, ApiError};
use crate::application::{Front, Instance, expected_pods};
use crate::mesh::{Resource, resource};
use crate::objects::manifests;
use crate::objects::names::{GENERATOR, Names, TrialNames, name_of, run_labels};
use crate::objects::node::reservation;
use crate::objects::pod_parts::{PodPlacement, map};
use crate::preview::{MeshPreview, Preview};
use tare_run::instances;

/// An object that a run would create.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    /// Kind and name, and whose it is.
    pub(super) title: String,
    /// Path of its kind.
    pub(super) path: String,
    pub(super) object: Value,
}

impl Planned {
    pub(super) fn new(of: &str, path: String, object: Value) -> Self {
        let kind = object["kind"].as_str().unwrap_or_default();
        Self {
            title: format!("{kind} {}{of}", name_of(&object)),
            path,
            object,
        }
    }

    fn of_kind(of: &str, kind: Kind, object: &impl Serialize) -> Self {
        let object = api::json(object);
        let path = kind.path(object["metadata"]["namespace"].as_str());
        Self::new(of, path, object)
    }

    /// The pod that a controller would create from its template: PodSecurity refuses pods, not controllers. Its service
    /// account is left out, because it may not exist yet.
    fn pod(&self, of: &str) -> Option<Self> {
        let template = &self.object["spec"]["template"];
        template["spec"]["containers"].is_array().then_some(())?;
        let (metadata, own) = (&template["metadata"], &self.object["metadata"]);
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"],
            "metadata": {"name": format!("{}-0", name_of(&self.object)), "namespace": own["namespace"],
                "labels": metadata["labels"], "annotations": metadata["annotations"]}});
        let spec = pod["spec"].as_object_mut()?;
        spec.remove("serviceAccountName");
        spec.remove("serviceAccount");
        if self.object["kind"] == "Job" && spec.get("restartPolicy").is_none() {
            spec.insert("restartPolicy".to_owned(), "Never".into());
        }
        Some(Self::of_kind(of, POD, &pod))
    }
}

/// The trials that are tried: one for each way in which the plan's namespaces join a mesh.
#[derive(Debug)]
pub(super) struct TriedTrial<'a> {
    pub(super) names: TrialNames,
    mesh: &'a str,
    section: Option<&'a MeshKubernetes>,
}

impl<'a> TriedTrial<'a> {
    /// Returns the trials of these meshes, without those that join as an earlier one does.
    pub(super) fn all(names: &Names, meshes: &'a [MeshPreview]) -> Vec<Self> {
        let mut trials: Vec<Self> = Vec::new();
        for mesh in meshes {
            let section = mesh.section();
            // A mesh that injects pods may do what another one that joins in the same way does not.
            let key = |s: Option<&MeshKubernetes>| s.map(|s| (s.join.clone(), adds_privileges(s)));
            if trials.iter().all(|t| key(t.section) != key(section)) {
                trials.push(Self {
                    names: names.trial(trials.len() as u32),
                    mesh: mesh.name(),
                    section,
                });
            }
        }
        trials
    }

    fn join(&self) -> Option<&'a Join> {
        self.section.map(|s| &s.join)
    }

    /// Its namespaces: of an instance, of the generators, and of the agents.
    pub(super) fn namespaces(&self, settings: &KubernetesSettings) -> Vec<Namespace> {
        let labels = || manifests::namespace_labels(&self.names, settings);
        let meshed = |name: String| manifests::namespace(&name, labels(), self.join(), false);
        let agents = manifests::namespace(&self.names.agents(), labels(), None, true);
        vec![
            meshed(self.names.instance(0)),
            meshed(self.names.load()),
            agents,
        ]
    }
}

/// Whether the mesh injects init containers that need NET_ADMIN: it has sidecars and is installed without a CNI plugin.
fn adds_privileges(mesh: &MeshKubernetes) -> bool {
    let has_plugin = mesh.releases.iter().any(|r| r.chart.contains("cni"));
    mesh.parts.sidecar.is_some() && !mesh.releases.is_empty() && !has_plugin
}

/// Finds the paths of kinds, each once.
struct Resources<'a> {
    api: &'a ApiClient,
    known: BTreeMap<(String, String), Option<Resource>>,
}

impl Resources<'_> {
    /// Returns the resource of an object's kind; `None` if the cluster does not serve it.
    async fn of(&mut self, object: &Value) -> Result<Option<&Resource>, ApiError> {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let key = (text("apiVersion"), text("kind"));
        if !self.known.contains_key(&key) {
            let found = resource(self.api, &key.0, &key.1).await?;
            self.known.insert(key.clone(), found);
        }
        Ok(self.known.get(&key).and_then(Option::as_ref))
    }
}

/// What a run of a plan would create.
#[derive(Debug, Default)]
pub(super) struct PlannedRun {
    pub(super) objects: Vec<Planned>,
    /// Number of objects whose kind the cluster does not serve yet.
    pub(super) unserved: usize,
    /// Why the objects of a chart are unknown.
    pub(super) unknown: Vec<String>,
    pub(super) demand: Demand,
}

impl PlannedRun {
    /// Adds an object and, of a controller, its pod.
    fn add(&mut self, of: &str, planned: Planned) {
        let pod = planned.pod(of);
        self.objects.push(planned);
        self.objects.extend(pod);
    }
}

/// Returns the objects of an instance and the generators of each trial, a probe, and those of the meshes' charts.
pub(super) async fn planned(
    preview: &Preview<'_>,
    names: &Names,
    trials: &[TriedTrial<'_>],
) -> Result<PlannedRun, ApiError> {
    let mut run = PlannedRun::default();
    let mut resources = Resources {
        api: &preview.api,
        known: BTreeMap::new(),
    };
    let fronts = Front::all(&preview.plan.workload, preview.rendered());
    let called = Front::called(&fronts);
    for (index, trial) in trials.iter().enumerate() {
        let of = format!(" ({})", trial.mesh);
        let application = application(preview, trial);
        let job = manifests::generators(
            &trial.names,
            preview.settings,
            trial.join(),
            preview.reserved_count() > 0,
            "generator",
        );
        let generators = Planned::of_kind(&of, JOB, &job);
        if index == 0 {
            run.demand = demand(preview, &application, &generators);
        }
        if let Some(section) = trial.section {
            if adds_privileges(section) {
                run.objects.extend(injected(trial.mesh, &application));
            }
            let namespace = trial.names.instance(0);
            for manifest in section.join.manifests_of(&namespace, &called) {
                match resources.of(&manifest).await? {
                    Some(kind) => {
                        let path = kind.path(Some(&namespace));
                        run.objects.push(Planned::new(&of, path, manifest));
                    }
                    None => run.unserved += 1,
                }
            }
        }
        for planned in application.into_iter().chain([generators]) {
            run.add(&of, planned);
        }
    }
    run.objects.extend(of_every_run(preview, names, trials));
    let mut tried = BTreeSet::new();
    for mesh in &preview.meshes {
        if let Err(error) = charts(names, mesh, &mut resources, &mut tried, &mut run).await {
            run.unknown.push(format!("{}: {error}", mesh.name()));
        }
    }
    Ok(run)
}

/// The objects of an instance.
fn application(preview: &Preview<'_>, trial: &TriedTrial<'_>) -> Vec<Planned> {
    let (names, settings, join) = (&trial.names, preview.settings, trial.join());
    let graph = &preview.plan.workload.graph;
    let namespace = names.instance(0);
    let name = instances::name(graph, 0);
    let of = format!(" ({})", trial.mesh);
    let nodes: Vec<String> = preview.nodes.iter().map(|n| n.name.clone()).collect();
    let placement = PodPlacement {
        nodes: &nodes,
        instance: 0,
    };
    if let Some(rendered) = preview.rendered() {
        let objects = rendered.of_instance(Instance {
            names,
            settings,
            join,
            namespace: &namespace,
            name: &name,
            placement,
        });
        let with_path = |o: Value| Planned::new(&of, rendered.path(&o, &namespace), o);
        return objects.into_iter().flatten().map(with_path).collect();
    }
    if graph.application.is_some() {
        return Vec::new();
    }
    let map = manifests::config_map(names, &namespace, "spec", &[]);
    let mut objects = vec![Planned::of_kind(&of, CONFIG_MAP, &map)];
    for service in &graph.services {
        let of_graph = (service.name.as_str(), service.protocol);
        let object = manifests::service(names, settings, join, &namespace, of_graph);
        objects.push(Planned::of_kind(&of, SERVICE, &object));
        let place = (namespace.as_str(), service, name.as_str());
        let object = manifests::deployment(names, settings, join, place, placement);
        objects.push(Planned::of_kind(&of, DEPLOYMENT, &object));
    }
    objects
}

/// The first pod of an application with the init container of a mesh that changes the pod's network.
fn injected(mesh: &str, application: &[Planned]) -> Option<Planned> {
    let mut pod = application.iter().find_map(|p| p.pod(""))?;
    pod.title = format!("a pod with an init container of {mesh}, which needs NET_ADMIN");
    let spec = &mut pod.object["spec"];
    let image = spec["containers"][0]["image"].clone();
    let init = json!({"name": "mesh-init", "image": image, "securityContext": {
        "allowPrivilegeEscalation": false, "runAsUser": 0, "runAsNonRoot": false,
        "capabilities": {"add": ["NET_ADMIN", "NET_RAW"], "drop": ["ALL"]}}});
    match spec["initContainers"].as_array_mut() {
        Some(list) => list.push(init),
        None => spec["initContainers"] = json!([init]),
    }
    Some(pod)
}

/// A probe, and the reservation of a node. Admission of agents is shown by the pods on the nodes.
fn of_every_run(preview: &Preview<'_>, names: &Names, trials: &[TriedTrial<'_>]) -> Vec<Planned> {
    let (Some(trial), Some(node)) = (trials.first(), preview.nodes.first()) else {
        return Vec::new();
    };
    let probe = manifests::probe(&trial.names, preview.settings, "probe");
    let run = &names.run;
    let reserved = Node {
        metadata: ObjectMeta {
            name: Some(node.name.clone()),
            labels: Some(map(GENERATOR, run)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            taints: Some(vec![reservation(run)]),
            ..NodeSpec::default()
        }),
        ..Node::default()
    };
    let mut objects = vec![Planned::of_kind("", POD, &probe)];
    if preview.reserved_count() > 0 {
        objects.push(Planned::of_kind(" (its taint)", NODE, &reserved));
    }
    objects
}

/// Adds the objects of a mesh's charts and its own manifests. The namespaces of a mesh do not exist yet, so the objects are
/// tried in that of the agents, which is privileged, as those of meshes are. `tried` has the objects of earlier meshes. Fails
/// with the reason why the objects are unknown.
async fn charts(
    names: &Names,
    mesh: &MeshPreview,
    resources: &mut Resources<'_>,
    tried: &mut BTreeSet<String>,
    run: &mut PlannedRun,
) -> Result<(), String> {
    let Some(section) = mesh.installed() else {
        return Ok(());
    };
    let charts = mesh.charts.as_ref()?;
    let of = format!(" (chart of {})", mesh.name());
    let own = section.namespace_names();
    let created = own.iter().map(|name| {
        let namespace = manifests::namespace(name, run_labels(&names.run), None, true);
        api::json(&namespace)
    });
    let objects = charts.iter().chain(&section.manifests).cloned();
    let instead = names.trial(0).agents();
    for mut object in created.chain(objects) {
        let kind = resources.of(&object).await.map_err(|e| e.to_string())?;
        let Some(kind) = kind else {
            run.unserved += 1;
            continue;
        };
        if kind.namespaced {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            if own.iter().any(|n| n == namespace) {
                object["metadata"]["namespace"] = instead.as_str().into();
            }
        } else if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        let path = kind.path(object["metadata"]["namespace"].as_str());
        let planned = Planned::new(&of, path, object);
        // Variants of a mesh have most objects in common.
        if tried.insert(format!("{}{}", planned.path, planned.object)) {
            run.add(&of, planned);
        }
    }
    Ok(())
}

/// What the largest trial requests of the nodes.
fn demand(preview: &Preview<'_>, application: &[Planned], generators: &Planned) -> Demand {
    let instances = preview.plan.workloads().map(|w| w.instances).max();
    let instances = f64::from(instances.unwrap_or(1));
    let of_template =
        |planned: &Planned| Amount::of_pod(&planned.object["spec"]["template"]["spec"]);
    let with_pods = application.iter().filter(|p| p.pod("").is_some());
    let each = with_pods.map(|planned| {
        let pods = match planned.object["kind"] == "DaemonSet" {
            true => preview.nodes.len(),
            false => expected_pods(&planned.object).unwrap_or(1),
        };
        (of_template(planned), pods as f64 * instances)
    });
    let resources = &preview.settings.pod.resources.agent;
    let agent = json!({"containers": [{"resources": resources}]});
    Demand {
        application: each.collect(),
        generator: of_template(generators),
        agent: Amount::of_pod(&agent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Helm;
    use crate::platform::FoundPlatform;
    use tare_plan::mesh::Mesh;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const NAMESPACES: &str =
        r#"{"resources": [{"kind": "Namespace", "name": "namespaces", "namespaced": false}]}"#;

    /// A client of a server whose extensions are unavailable.
    async fn client() -> ApiClient {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let bytes = stream.read(&mut request).await.unwrap();
                let (status, body) = match request[..bytes].starts_with(b"GET /api/v1 ") {
                    true => (200, NAMESPACES),
                    false => (503, ""),
                };
                let answer = format!("HTTP/1.1 {status} -\r\nconnection: close\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        let config = kube::Config::new(server.parse().unwrap());
        ApiClient::new(config, server, "test".to_owned()).unwrap()
    }

    #[tokio::test]
    async fn a_mesh_whose_kinds_are_unknown_is_named_and_the_others_are_tried() {
        let settings = KubernetesSettings::default();
        let none = |_: &str| Err("no file".to_owned());
        let plan = "environment: kubernetes\nworkload: {graph: emojivoto}\n\
                    meshes: [bare, istio/minimal, istio/ambient]\n";
        let plan = tare_plan::resolve("plan.yaml", plan, &[], &none).unwrap();
        let of = |mesh: &Mesh| MeshPreview {
            mesh: mesh.clone(),
            charts: Ok(vec![
                json!({"apiVersion": "metrics.example/v1", "kind": "Metric"}),
            ]),
        };
        let preview = Preview {
            settings: &settings,
            plan: &plan,
            api: client().await,
            helm: Helm::new(&settings),
            version: String::new(),
            nodes: Vec::new(),
            reserved: Ok(0),
            platform: FoundPlatform {
                platform: None,
                found: String::new(),
            },
            addresses: Vec::new(),
            application: Ok(None),
            meshes: plan.meshes.iter().map(of).collect(),
        };
        let run = planned(&preview, &Names::new("tare", "run"), &[]).await;
        let run = run.unwrap();
        assert_eq!(run.unknown.len(), 2, "{:?}", run.unknown);
        for (found, mesh) in run.unknown.iter().zip(["istio/minimal", "istio/ambient"]) {
            let start = format!("{mesh}: GET /apis/metrics.example/v1: 503");
            assert!(found.starts_with(&start), "{found}");
        }
        let titles: Vec<&str> = run.objects.iter().map(|o| o.title.as_str()).collect();
        assert_eq!(titles, ["Namespace istio-system (chart of istio/minimal)"]);
    }
}
