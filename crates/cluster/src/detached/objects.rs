//! The objects of a detached run as values; nothing here sends a request.

use k8s_openapi::ByteString;
use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Affinity, ConfigMap, ConfigMapProjection, EmptyDirVolumeSource, Namespace, NodeAffinity,
    NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext, PodSpec, PreferredSchedulingTerm,
    ProjectedVolumeSource, ServiceAccount, VolumeProjection, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use tare_plan::{ContainerResources, KubernetesSettings};

use super::{
    ACCOUNT, BINDING, CLAIM, CLUSTER_BINDING, CLUSTER_ROLE, DETACHED, DetachedRun, NAME,
    ORCHESTRATOR, PULL_SECRETS_FROM, Place, ROLE, RUN_ID, SPEC, SPEC_FILE,
};
use crate::api;
use crate::api::kinds::{CONFIG_MAP, Kind, NAMESPACE};
use crate::mesh::documents;
use crate::objects::manifests::{self, named};
use crate::objects::names::{Labels, MANAGED, ROLE as POD_ROLE, name_of, with};
use crate::objects::pod_parts::{
    OS, add_volume, container, map, metadata, mount, pod_spec, template, text, texts, variable,
};

/// Where the volume is mounted; the run directory is below.
const DATA: &str = "/data";
/// Where the packed charts are mounted.
const CHARTS: &str = "/charts";
/// Directory for the kubeconfig and the files of Helm.
const SCRATCH: &str = "/scratch";
/// Group of the image's user, which may write to the volume.
const GROUP: i64 = 65_532;
/// How often the Job starts the orchestrator again after failures. The pauses grow to 6 minutes.
const RETRIES: i32 = 10;
/// Seconds that the orchestrator has to remove the objects of its trial after SIGTERM. If they are not enough, the next
/// pod removes them.
const GRACE_S: i64 = 60;
/// Seconds after which a reader ends, if `tare fetch` could not remove it.
const READER_S: i64 = 3600;

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
    pub(super) fn labels(&self) -> Labels {
        with(Labels::new(), &[(MANAGED, "tare"), (DETACHED, &self.label)])
    }

    pub(super) fn named(&self, name: &str) -> ObjectMeta {
        named(name, &self.namespace, self.labels())
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
    let marks = [
        (RUN_ID, place.id.as_str()),
        (PULL_SECRETS_FROM, &place.pull_secrets_from),
    ];
    let namespace = Namespace {
        metadata: ObjectMeta {
            namespace: None,
            annotations: Some(with(Labels::new(), &marks)),
            ..place.named(&place.namespace)
        },
        ..Namespace::default()
    };
    let account = ServiceAccount {
        metadata: place.named(NAME),
        ..ServiceAccount::default()
    };
    let text = serde_json::to_string(run).map_err(|e| e.to_string())?;
    let spec = ConfigMap {
        metadata: place.named(SPEC),
        data: Some(map(SPEC_FILE, &text)),
        ..ConfigMap::default()
    };
    let mut objects = vec![
        (NAMESPACE, api::json(&namespace)),
        (ACCOUNT, api::json(&account)),
        (CONFIG_MAP, api::json(&spec)),
    ];
    objects.extend(rights(place, roles)?);
    for (index, chart) in charts.iter().enumerate() {
        let archive = ByteString(chart.archive.clone());
        let map = ConfigMap {
            metadata: place.named(&chart_map(index)),
            binary_data: Some([(chart.file.clone(), archive)].into()),
            ..ConfigMap::default()
        };
        objects.push((CONFIG_MAP, api::json(&map)));
    }
    objects.push((CLAIM, api::json(&claim(place, volume))));
    Ok(objects)
}

fn chart_map(index: usize) -> String {
    format!("chart-{index}")
}

/// Returns the roles under names of their own, each with a binding to the service account.
fn rights(place: &Place, roles: &str) -> Result<Vec<(Kind, Value)>, String> {
    let mut objects = Vec::new();
    for mut role in documents(roles)? {
        let name = name_of(&role).replacen(NAME, &place.namespace, 1);
        role["metadata"]["name"] = name.as_str().into();
        role["metadata"]["labels"] = api::json(&place.labels());
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

fn claim(place: &Place, volume: &Volume) -> PersistentVolumeClaim {
    let class = volume.storage_class.clone();
    // A claim without a class gets the default class and then does not match the user's volume; an empty class prevents
    // this.
    let class = class.or(volume.name.as_ref().map(|_| String::new()));
    let size = Quantity(volume.size.clone());
    PersistentVolumeClaim {
        metadata: place.named(NAME),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: texts(&["ReadWriteOnce"]),
            resources: Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), size)].into()),
                ..VolumeResourceRequirements::default()
            }),
            storage_class_name: class,
            volume_name: volume.name.clone(),
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    }
}

/// Pod of tare's image with the volume of the run.
fn pod(settings: &KubernetesSettings, args: &[&str], read_only: bool) -> PodSpec {
    let container = container(settings, &ContainerResources::default(), args);
    let mut pod = pod_spec(settings, container, SPEC);
    let claim = PersistentVolumeClaimVolumeSource {
        claim_name: NAME.to_owned(),
        ..PersistentVolumeClaimVolumeSource::default()
    };
    add_volume(&mut pod, mount("data", DATA, read_only), |volume| {
        volume.persistent_volume_claim = Some(claim);
    });
    pod.restart_policy = text("Never");
    pod.security_context = Some(PodSecurityContext {
        fs_group: Some(GROUP),
        fs_group_change_policy: text("OnRootMismatch"),
        ..PodSecurityContext::default()
    });
    pod.node_selector = Some(map(OS, "linux"));
    pod
}

/// Prefers nodes without the labels of the measured ones; `None` if they have no labels.
fn avoid_measured_nodes(settings: &KubernetesSettings) -> Option<Affinity> {
    let others = settings.node_labels.iter().map(|(key, value)| {
        let other = NodeSelectorRequirement {
            key: key.clone(),
            operator: "NotIn".to_owned(),
            values: Some(vec![value.clone()]),
        };
        PreferredSchedulingTerm {
            weight: 100,
            preference: NodeSelectorTerm {
                match_expressions: Some(vec![other]),
                ..NodeSelectorTerm::default()
            },
        }
    });
    let others: Vec<_> = others.collect();
    (!others.is_empty()).then(|| Affinity {
        node_affinity: Some(NodeAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(others),
            ..NodeAffinity::default()
        }),
        ..Affinity::default()
    })
}

/// The packed charts as the source of a volume.
fn charts_source(charts: usize) -> ProjectedVolumeSource {
    let source = |index| VolumeProjection {
        config_map: Some(ConfigMapProjection {
            name: chart_map(index),
            ..ConfigMapProjection::default()
        }),
        ..VolumeProjection::default()
    };
    ProjectedVolumeSource {
        sources: Some((0..charts).map(source).collect()),
        ..ProjectedVolumeSource::default()
    }
}

/// The Job whose pod runs the plan.
pub(super) fn job(place: &Place, settings: &KubernetesSettings, charts: usize, helm: bool) -> Job {
    let args = [
        "detached",
        "run",
        "--spec",
        "/spec/run.json",
        "--data",
        DATA,
    ];
    let mut pod = pod(settings, &args, false);
    pod.service_account_name = text(NAME);
    pod.automount_service_account_token = Some(true);
    pod.termination_grace_period_seconds = Some(GRACE_S);
    pod.affinity = avoid_measured_nodes(settings);
    let mut env = vec![
        variable("TARE_KUBECONFIG", "/scratch/kubeconfig"),
        variable("HOME", SCRATCH),
        variable("TMPDIR", SCRATCH),
    ];
    if helm {
        env.push(variable("TARE_HELM", "/helm"));
        env.push(variable("TARE_CHARTS", CHARTS));
        add_volume(&mut pod, mount("charts", CHARTS, true), |volume| {
            volume.projected = Some(charts_source(charts));
        });
    }
    add_volume(&mut pod, mount("scratch", SCRATCH, false), |volume| {
        volume.empty_dir = Some(EmptyDirVolumeSource::default());
    });
    pod.containers[0].env = Some(env);
    let labels = with(place.labels(), &[(POD_ROLE, ORCHESTRATOR)]);
    Job {
        metadata: place.named(NAME),
        spec: Some(JobSpec {
            completions: Some(1),
            parallelism: Some(1),
            backoff_limit: Some(RETRIES),
            // If the node is drained or preempted, the run has not failed: another pod continues it.
            pod_failure_policy: Some(PodFailurePolicy {
                rules: vec![PodFailurePolicyRule {
                    action: "Ignore".to_owned(),
                    on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
                        type_: "DisruptionTarget".to_owned(),
                        status: text("True"),
                    }]),
                    ..PodFailurePolicyRule::default()
                }],
            }),
            template: template(metadata(settings, labels, None), pod),
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

/// Pod that sends the run directory. While the orchestrator runs, it must be on its node, because most volumes can be
/// mounted on one node only.
pub(super) fn reader(
    place: &Place,
    settings: &KubernetesSettings,
    name: &str,
    node: Option<&str>,
) -> Pod {
    let dir = format!("{DATA}/{}", place.id);
    let args = ["detached", "send", "--dir", &dir];
    let mut spec = pod(settings, &args, true);
    spec.active_deadline_seconds = Some(READER_S);
    spec.node_name = node.map(str::to_owned);
    let labels = with(place.labels(), &[(POD_ROLE, "reader")]);
    let metadata = metadata(settings, labels, None);
    manifests::pod(name, &place.namespace, metadata, spec)
}
