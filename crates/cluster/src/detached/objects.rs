//! The objects of a detached run as values; nothing here sends a request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tare_plan::{ContainerResources, KubernetesSettings};

use super::{
    ACCOUNT, BINDING, CLAIM, CLUSTER_BINDING, CLUSTER_ROLE, DETACHED, DetachedRun, JOB, NAME,
    ORCHESTRATOR, PULL_SECRETS_FROM, Place, ROLE, RUN_ID, SPEC, SPEC_FILE,
};
use crate::api::kinds::{CONFIG_MAP, Kind, NAMESPACE};
use crate::mesh::documents;
use crate::objects::manifests::{OS, container, metadata, pod_spec, push};
use crate::objects::names::{MANAGED, ROLE as POD_ROLE};

/// Where the volume is mounted; the run directory is below.
const DATA: &str = "/data";
/// Where the packed charts are mounted.
const CHARTS: &str = "/charts";
/// Directory for the kubeconfig and the files of Helm.
const SCRATCH: &str = "/scratch";
/// Group of the image's user, which may write to the volume.
const GROUP: u32 = 65_532;
/// How often the Job starts the orchestrator again after failures. The pauses grow to 6 minutes.
const RETRIES: u32 = 10;
/// Seconds that the orchestrator has to remove the objects of its trial after SIGTERM. If they are not enough, the next
/// pod removes them.
const GRACE_S: u32 = 60;
/// Seconds after which a reader ends, if `tare fetch` could not remove it.
const READER_S: u32 = 3600;

/// The volume of a detached run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Volume {
    /// Size, such as `5Gi`.
    pub size: String,
    /// Storage class; `None` for the default of the cluster.
    pub storage_class: Option<String>,
    /// Name of an existing persistent volume.
    pub name: Option<String>,
}

/// A Helm chart as an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackedChart {
    /// Name of the file.
    pub(super) file: String,
    pub(super) archive: Vec<u8>,
}

impl Place {
    pub(super) fn labels(&self) -> Value {
        json!({MANAGED: "tare", DETACHED: self.label})
    }

    pub(super) fn named(&self, name: &str) -> Value {
        json!({"name": name, "namespace": self.namespace, "labels": self.labels()})
    }
}

/// Returns the namespace, the service account with its roles, the claim and the ConfigMaps, in the order in which they are
/// created. `roles` are the printed roles as YAML.
pub(super) fn before_job(
    place: &Place,
    run: &DetachedRun,
    roles: &str,
    volume: &Volume,
    charts: &[PackedChart],
) -> Result<Vec<(Kind, Value)>, String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata":
        {"name": place.namespace, "labels": place.labels(),
            "annotations": {RUN_ID: place.id, PULL_SECRETS_FROM: place.pull_secrets_from}}});
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": place.named(NAME)});
    let mut objects = vec![(NAMESPACE, namespace), (ACCOUNT, account)];
    let text = serde_json::to_string(run).map_err(|e| e.to_string())?;
    let spec = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place.named(SPEC),
        "data": {SPEC_FILE: text}});
    objects.push((CONFIG_MAP, spec));
    objects.extend(rights(place, roles)?);
    for (index, chart) in charts.iter().enumerate() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": place.named(&chart_map(index)),
            "binaryData": {chart.file.as_str(): STANDARD.encode(&chart.archive)}});
        objects.push((CONFIG_MAP, map));
    }
    objects.push((CLAIM, claim(place, volume)));
    Ok(objects)
}

fn chart_map(index: usize) -> String {
    format!("chart-{index}")
}

/// Returns the roles under names of their own, each with a binding to the service account.
fn rights(place: &Place, roles: &str) -> Result<Vec<(Kind, Value)>, String> {
    let mut objects = Vec::new();
    for mut role in documents(roles)? {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        let name = name.replacen(NAME, &place.namespace, 1);
        role["metadata"]["name"] = name.as_str().into();
        role["metadata"]["labels"] = place.labels();
        let (of_role, of_binding) = match role["kind"].as_str() {
            Some("ClusterRole") => (CLUSTER_ROLE, CLUSTER_BINDING),
            _ => (ROLE, BINDING),
        };
        let binding = json!({"apiVersion": of_binding.api_version(), "kind": of_binding.kind,
            "metadata": role["metadata"],
            "roleRef": {"apiGroup": of_role.group, "kind": of_role.kind, "name": name},
            "subjects": [{"kind": ACCOUNT.kind, "name": NAME, "namespace": place.namespace}]});
        objects.extend([(of_role, role), (of_binding, binding)]);
    }
    Ok(objects)
}

fn claim(place: &Place, volume: &Volume) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": volume.size}}});
    if let Some(class) = &volume.storage_class {
        spec["storageClassName"] = class.as_str().into();
    }
    if let Some(name) = &volume.name {
        spec["volumeName"] = name.as_str().into();
        if volume.storage_class.is_none() {
            // Otherwise the default class is set, with which the claim would not match the volume.
            spec["storageClassName"] = "".into();
        }
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": place.named(NAME), "spec": spec})
}

/// Pod of tare's image with the volume of the run.
fn pod(settings: &KubernetesSettings, args: &[&str], read_only: bool) -> Value {
    let mut container = container(settings, &ContainerResources::default(), args);
    let mount = json!({"name": "data", "mountPath": DATA, "readOnly": read_only});
    push(&mut container["volumeMounts"], mount);
    let mut pod = pod_spec(settings, container, SPEC);
    push(
        &mut pod["volumes"],
        json!({"name": "data", "persistentVolumeClaim": {"claimName": NAME}}),
    );
    pod["restartPolicy"] = "Never".into();
    pod["securityContext"] = json!({"fsGroup": GROUP, "fsGroupChangePolicy": "OnRootMismatch"});
    pod["nodeSelector"] = json!({OS: "linux"});
    pod
}

/// The Job whose pod runs the plan.
pub(super) fn job(
    place: &Place,
    settings: &KubernetesSettings,
    charts: usize,
    helm: bool,
) -> Value {
    let args = [
        "detached",
        "run",
        "--spec",
        "/spec/run.json",
        "--data",
        DATA,
    ];
    let mut pod = pod(settings, &args, false);
    pod["serviceAccountName"] = NAME.into();
    pod["automountServiceAccountToken"] = true.into();
    pod["terminationGracePeriodSeconds"] = GRACE_S.into();
    // Nodes without the labels of the measured ones are preferred.
    let others = settings.node_labels.iter().map(|(key, value)| {
        let other = json!({"key": key, "operator": "NotIn", "values": [value]});
        json!({"weight": 100, "preference": {"matchExpressions": [other]}})
    });
    let others: Vec<Value> = others.collect();
    if !others.is_empty() {
        pod["affinity"] =
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": others}});
    }
    let variable = |(name, value): (&str, &str)| json!({"name": name, "value": value});
    let mut env: Vec<Value> = [
        ("TARE_KUBECONFIG", "/scratch/kubeconfig"),
        ("HOME", SCRATCH),
        ("TMPDIR", SCRATCH),
    ]
    .map(variable)
    .into();
    if helm {
        env.push(variable(("TARE_HELM", "/helm")));
        env.push(variable(("TARE_CHARTS", CHARTS)));
        let of = |index| json!({"configMap": {"name": chart_map(index)}});
        let sources: Vec<Value> = (0..charts).map(of).collect();
        let volume = json!({"name": "charts", "projected": {"sources": sources}});
        push(&mut pod["volumes"], volume);
        let mount = json!({"name": "charts", "mountPath": CHARTS, "readOnly": true});
        push(&mut pod["containers"][0]["volumeMounts"], mount);
    }
    pod["containers"][0]["env"] = env.into();
    push(
        &mut pod["volumes"],
        json!({"name": "scratch", "emptyDir": {}}),
    );
    let mount = json!({"name": "scratch", "mountPath": SCRATCH});
    push(&mut pod["containers"][0]["volumeMounts"], mount);
    let mut labels = place.labels();
    labels[POD_ROLE] = ORCHESTRATOR.into();
    json!({"apiVersion": "batch/v1", "kind": JOB.kind, "metadata": place.named(NAME),
        "spec": {"completions": 1, "parallelism": 1, "backoffLimit": RETRIES,
            // If the node is drained or preempted, the run has not failed: another pod continues it.
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions":
                [{"type": "DisruptionTarget", "status": "True"}]}]},
            "template": {"metadata": metadata(settings, labels, None), "spec": pod}}})
}

/// Pod that sends the run directory. While the orchestrator runs, it must be on its node, because most volumes can be
/// mounted on one node only.
pub(super) fn reader(
    place: &Place,
    settings: &KubernetesSettings,
    name: &str,
    node: Option<&str>,
) -> Value {
    let dir = format!("{DATA}/{}", place.id);
    let args = ["detached", "send", "--dir", &dir];
    let mut pod = pod(settings, &args, true);
    pod["activeDeadlineSeconds"] = READER_S.into();
    if let Some(node) = node {
        pod["nodeName"] = node.into();
    }
    let mut labels = place.labels();
    labels[POD_ROLE] = "reader".into();
    let mut metadata = metadata(settings, labels, None);
    metadata["name"] = name.into();
    metadata["namespace"] = place.namespace.as_str().into();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
}
