//! The objects that a run would create, for dry runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tare_plan::mesh::{Join, MeshKubernetes};
use tare_plan::{KubernetesSettings, Plan};

use super::capacity::{Amount, Demand};
use crate::api::kinds::{CONFIG_MAP, DEPLOYMENT, JOB, Kind, NODE, POD, SERVICE};
use crate::api::{ApiClient, ApiError};
use crate::application::{Front, Instance, Rendered, expected_pods};
use crate::mesh::{Capabilities, Helm, Resource, items, namespaces, resource, values};
use crate::objects::Node;
use crate::objects::manifests;
use crate::objects::manifests::PodPlacement;
use crate::objects::names::{GENERATOR, MANAGED, Names, RUN, TrialNames, name_of};
use tare_run::environment::EnvironmentError;
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

    fn of_kind(of: &str, kind: Kind, object: Value) -> Self {
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
        Some(Self::of_kind(of, POD, pod))
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
    pub(super) fn all(names: &Names, meshes: &'a [(String, Option<MeshKubernetes>)]) -> Vec<Self> {
        let mut trials: Vec<Self> = Vec::new();
        for (mesh, section) in meshes {
            let section = section.as_ref();
            // A mesh that injects pods may do what another one that joins in the same way does not.
            let key = |s: Option<&MeshKubernetes>| s.map(|s| (s.join.clone(), adds_privileges(s)));
            if trials.iter().all(|t| key(t.section) != key(section)) {
                trials.push(Self {
                    names: names.trial(trials.len() as u32),
                    mesh,
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
    pub(super) fn namespaces(&self, settings: &KubernetesSettings) -> Vec<Value> {
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

/// The inputs of [`planned`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) api: &'a ApiClient,
    pub(super) settings: &'a KubernetesSettings,
    pub(super) plan: &'a Plan,
    pub(super) names: &'a Names,
    pub(super) nodes: &'a [Node],
    /// Number of nodes that are reserved for the generators.
    pub(super) reserved: usize,
    /// What charts ask for about the cluster.
    pub(super) capabilities: &'a Capabilities,
}

/// Returns the objects of an instance and the generators of each trial, a probe, and those of the meshes' charts.
pub(super) async fn planned(
    inputs: Inputs<'_>,
    meshes: &[(String, Option<MeshKubernetes>)],
    trials: &[TriedTrial<'_>],
) -> Result<PlannedRun, EnvironmentError> {
    let mut run = PlannedRun::default();
    let mut resources = Resources {
        api: inputs.api,
        known: BTreeMap::new(),
    };
    let graph = &inputs.plan.workload.graph;
    // An application that cannot be rendered is a line of its own.
    let rendered = Rendered::prepare(inputs.api, inputs.settings, graph).await;
    let rendered = rendered.ok().flatten();
    let fronts = Front::all(&inputs.plan.workload, rendered.as_ref());
    let called = Front::called(&fronts);
    for (index, trial) in trials.iter().enumerate() {
        let of = format!(" ({})", trial.mesh);
        let application = application(inputs, trial, rendered.as_ref());
        let job = manifests::generators(
            &trial.names,
            inputs.settings,
            trial.join(),
            inputs.reserved > 0,
            "generator",
        );
        let generators = Planned::of_kind(&of, JOB, job);
        if index == 0 {
            run.demand = demand(inputs, &application, &generators);
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
            let pod = planned.pod(&of);
            run.objects.push(planned);
            run.objects.extend(pod);
        }
    }
    run.objects.extend(of_every_run(inputs, trials));
    let mut tried = BTreeSet::new();
    for (mesh, section) in meshes {
        let Some(section) = section else { continue };
        if let Err(error) =
            charts(inputs, mesh, section, &mut resources, &mut tried, &mut run).await
        {
            run.unknown.push(format!("{mesh}: {error}"));
        }
    }
    Ok(run)
}

/// The objects of an instance.
fn application(
    inputs: Inputs<'_>,
    trial: &TriedTrial<'_>,
    rendered: Option<&Rendered>,
) -> Vec<Planned> {
    let (names, settings, join) = (&trial.names, inputs.settings, trial.join());
    let graph = &inputs.plan.workload.graph;
    let namespace = names.instance(0);
    let name = instances::name(graph, 0);
    let of = format!(" ({})", trial.mesh);
    let nodes: Vec<String> = inputs.nodes.iter().map(|n| n.name.clone()).collect();
    let placement = PodPlacement {
        nodes: &nodes,
        instance: 0,
    };
    if let Some(rendered) = rendered {
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
    let mut objects = vec![Planned::of_kind(&of, CONFIG_MAP, map)];
    for service in &graph.services {
        let of_graph = (service.name.as_str(), service.protocol);
        let object = manifests::service(names, settings, join, &namespace, of_graph);
        objects.push(Planned::of_kind(&of, SERVICE, object));
        let place = (namespace.as_str(), service, name.as_str());
        let object = manifests::deployment(names, settings, join, place, placement);
        objects.push(Planned::of_kind(&of, DEPLOYMENT, object));
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
fn of_every_run(inputs: Inputs<'_>, trials: &[TriedTrial<'_>]) -> Vec<Planned> {
    let (Some(trial), Some(node)) = (trials.first(), inputs.nodes.first()) else {
        return Vec::new();
    };
    let (names, settings) = (&trial.names, inputs.settings);
    let probe = manifests::probe(names, settings, "probe");
    let run = &inputs.names.run;
    let reserved = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": node.name, "labels": {GENERATOR: run}},
        "spec": {"taints": [{"key": GENERATOR, "value": run, "effect": "NoSchedule"}]}});
    let mut objects = vec![Planned::of_kind("", POD, probe)];
    if inputs.reserved > 0 {
        objects.push(Planned::of_kind(" (its taint)", NODE, reserved));
    }
    objects
}

/// Adds the objects of a mesh's charts and its own manifests. The namespaces of a mesh do not exist yet, so the objects are
/// tried in that of the agents, which is privileged, as those of meshes are. `tried` has the objects of earlier meshes.
async fn charts(
    inputs: Inputs<'_>,
    mesh: &str,
    section: &MeshKubernetes,
    resources: &mut Resources<'_>,
    tried: &mut BTreeSet<String>,
    run: &mut PlannedRun,
) -> Result<(), EnvironmentError> {
    if section.releases.is_empty() {
        return Ok(());
    }
    let of = format!(" (chart of {mesh})");
    let helm = Helm::new(inputs.settings);
    let own = namespaces(section);
    let mut objects = Vec::new();
    for name in &own {
        let labels = json!({MANAGED: "tare", RUN: inputs.names.run});
        objects.push(manifests::namespace(name, labels, None, true));
    }
    for release in &section.releases {
        let rendered = helm
            .render(
                release,
                &values(section, &release.name)?,
                inputs.capabilities,
            )
            .await?;
        for mut object in rendered.into_iter().flat_map(items) {
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = release.namespace.as_str().into();
            }
            objects.push(object);
        }
    }
    objects.extend(section.manifests.iter().cloned());
    let instead = inputs.names.trial(0).agents();
    for mut object in objects {
        let Some(kind) = resources.of(&object).await? else {
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
            let pod = planned.pod(&of);
            run.objects.push(planned);
            run.objects.extend(pod);
        }
    }
    Ok(())
}

/// What the largest trial requests of the nodes.
fn demand(inputs: Inputs<'_>, application: &[Planned], generators: &Planned) -> Demand {
    let instances = inputs.plan.workloads().map(|w| w.instances).max();
    let instances = f64::from(instances.unwrap_or(1));
    let of_template =
        |planned: &Planned| Amount::of_pod(&planned.object["spec"]["template"]["spec"]);
    let with_pods = application.iter().filter(|p| p.pod("").is_some());
    let each = with_pods.map(|planned| {
        let pods = match planned.object["kind"] == "DaemonSet" {
            true => inputs.nodes.len(),
            false => expected_pods(&planned.object).unwrap_or(1),
        };
        (of_template(planned), pods as f64 * instances)
    });
    let resources = &inputs.settings.pod.resources.agent;
    let agent = json!({"containers": [{"resources": resources}]});
    Demand {
        application: each.collect(),
        generator: of_template(generators),
        agent: Amount::of_pod(&agent),
    }
}
