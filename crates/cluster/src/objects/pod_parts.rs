//! Parts of the pods that tare creates: containers, volumes, metadata, and where they run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvVar,
    LocalObjectReference, PodSpec, PodTemplateSpec, ResourceRequirements, SeccompProfile,
    SecurityContext, Toleration, TopologySpreadConstraint, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use tare_plan::mesh::Join;
use tare_plan::{
    ContainerResources, KubernetesSettings, Placement, TaintEffect, TolerationOperator,
};
use tare_run::keep;

use super::names::{CONTAINER, Labels, ROLE, TRIAL, TrialNames};

/// Seconds that pods of tare have to end after SIGTERM. They are deleted when nothing uses them anymore, and their
/// sidecars would drain connections for as long as they may: 5 s with Istio.
const GRACE_S: i64 = 1;
/// Label of a node: its operating system.
pub(crate) const OS: &str = "kubernetes.io/os";
/// Label of a node: its name.
const HOST: &str = "kubernetes.io/hostname";
/// Directory in which a worker's records are kept.
const RECORDS: &str = "/records";

/// A string as the value of an optional field.
pub(crate) fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A list of texts.
pub(crate) fn texts(list: &[&str]) -> Option<Vec<String>> {
    Some(list.iter().map(|text| (*text).to_owned()).collect())
}

/// A map with one entry.
pub(crate) fn map(key: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

/// A variable of a container's environment.
pub(crate) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: text(value),
        ..EnvVar::default()
    }
}

/// A volume of this name that is mounted at `path`.
pub(crate) fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

/// Container of tare, with its specification mounted at `/spec`. Its user is that of the image, unless the cluster
/// sets another one.
pub(crate) fn container(
    settings: &KubernetesSettings,
    resources: &ContainerResources,
    args: &[&str],
) -> Container {
    let quantities = |all: &BTreeMap<String, tare_plan::Quantity>| {
        let all = all.iter().map(|(name, q)| (name.clone(), quantity(q)));
        Some(all.collect()).filter(|all: &BTreeMap<_, _>| !all.is_empty())
    };
    Container {
        name: CONTAINER.to_owned(),
        image: text(&settings.image),
        image_pull_policy: text(settings.image_pull_policy.word()),
        command: texts(&["/tare"]),
        args: texts(args),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            run_as_non_root: Some(true),
            capabilities: Some(Capabilities {
                drop: texts(&["ALL"]),
                ..Capabilities::default()
            }),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..SecurityContext::default()
        }),
        volume_mounts: Some(vec![mount("spec", "/spec", true)]),
        resources: (!resources.is_empty()).then(|| ResourceRequirements {
            requests: quantities(&resources.requests),
            limits: quantities(&resources.limits),
            ..ResourceRequirements::default()
        }),
        ..Container::default()
    }
}

fn quantity(quantity: &tare_plan::Quantity) -> Quantity {
    Quantity(match quantity {
        tare_plan::Quantity::Number(number) => number.to_string(),
        tare_plan::Quantity::Text(text) => text.clone(),
    })
}

/// Container of a worker that writes records; [`keep`](tare_run::keep) numbers and keeps them.
pub(super) fn recorder(
    settings: &KubernetesSettings,
    resources: &ContainerResources,
    worker: &[&str],
) -> Container {
    container(settings, resources, &kept(worker))
}

/// Arguments with which the records of a worker are kept.
pub(super) fn kept<'a>(worker: &[&'a str]) -> Vec<&'a str> {
    [&["keep", "--dir", RECORDS, "--"], worker].concat()
}

/// Adds the volume of a [`recorder`] to its pod. The size is a limit above which the kubelet evicts the pod.
pub(super) fn add_records(pod: &mut PodSpec) {
    let limit = (2 * keep::BYTES_MAX).to_string();
    let source = EmptyDirVolumeSource {
        size_limit: Some(Quantity(limit)),
        ..EmptyDirVolumeSource::default()
    };
    add_volume(pod, mount("records", RECORDS, false), |volume| {
        volume.empty_dir = Some(source);
    });
}

/// Adds a volume that the first container mounts; `set` sets its source.
pub(crate) fn add_volume(pod: &mut PodSpec, mount: VolumeMount, set: impl FnOnce(&mut Volume)) {
    let mut volume = Volume {
        name: mount.name.clone(),
        ..Volume::default()
    };
    set(&mut volume);
    pod.volumes.get_or_insert_default().push(volume);
    let mounts = &mut pod.containers[0].volume_mounts;
    mounts.get_or_insert_default().push(mount);
}

/// Specification of a pod with a container and the ConfigMap of its specification.
pub(crate) fn pod_spec(
    settings: &KubernetesSettings,
    container: Container,
    config_map: &str,
) -> PodSpec {
    let secrets = settings.image_pull_secrets.iter();
    let secrets = secrets.map(|name| LocalObjectReference { name: name.clone() });
    let tolerations = settings.pod.tolerations.iter().map(toleration);
    let source = ConfigMapVolumeSource {
        name: config_map.to_owned(),
        ..ConfigMapVolumeSource::default()
    };
    PodSpec {
        containers: vec![container],
        volumes: Some(vec![Volume {
            name: "spec".to_owned(),
            config_map: Some(source),
            ..Volume::default()
        }]),
        image_pull_secrets: Some(secrets.collect()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(GRACE_S),
        tolerations: Some(tolerations.collect()).filter(|all: &Vec<_>| !all.is_empty()),
        priority_class_name: settings.pod.priority_class.clone(),
        ..PodSpec::default()
    }
}

/// The toleration of a plan as that of a pod.
fn toleration(plan: &tare_plan::Toleration) -> Toleration {
    let operator = plan.operator.map(|operator| match operator {
        TolerationOperator::Equal => "Equal",
        TolerationOperator::Exists => "Exists",
    });
    let effect = plan.effect.map(|effect| match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    });
    Toleration {
        key: plan.key.clone(),
        operator: operator.map(str::to_owned),
        value: plan.value.clone(),
        effect: effect.map(str::to_owned),
        toleration_seconds: plan.toleration_seconds.map(i64::from),
    }
}

/// Metadata of a pod of tare: labels and annotations of the plan, and then those of the mesh.
pub(crate) fn metadata(
    settings: &KubernetesSettings,
    mut labels: Labels,
    join: Option<&Join>,
) -> ObjectMeta {
    let mut annotations = settings.pod.annotations_with_defaults();
    labels.extend(settings.pod.labels.clone());
    if let Some(join) = join {
        labels.extend(join.pod_labels.clone());
        annotations.extend(join.pod_annotations.clone());
    }
    ObjectMeta {
        labels: Some(labels),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

/// Template of the pods of a controller.
pub(crate) fn template(metadata: ObjectMeta, spec: PodSpec) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: Some(metadata),
        spec: Some(spec),
    }
}

/// Mounts the token of the service account if the sidecars of the mesh need it.
pub(super) fn mount_token(pod: &mut PodSpec, join: Option<&Join>) {
    let token = join.is_some_and(|j| j.service_account_token);
    pod.automount_service_account_token = Some(token);
}

/// Labels of the nodes on which a pod may run.
pub(super) fn node_selector(settings: &KubernetesSettings) -> Labels {
    let mut selector = map(OS, "linux");
    selector.extend(settings.node_labels.clone());
    selector
}

/// Selects the objects with these labels.
pub(super) fn selector(labels: Labels) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    }
}

/// Spreads the pods with these labels over the nodes.
pub(super) fn spread(labels: Labels) -> Vec<TopologySpreadConstraint> {
    vec![TopologySpreadConstraint {
        max_skew: 1,
        topology_key: HOST.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(selector(labels)),
        ..TopologySpreadConstraint::default()
    }]
}

/// Placement of the pods of an instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodPlacement<'a> {
    /// Names of the nodes for applications.
    pub(crate) nodes: &'a [String],
    pub(crate) instance: u32,
}

/// Returns where the pods of an application run by the settings: the labels of their nodes, and how they are spread.
pub(crate) fn place(
    names: &TrialNames,
    settings: &KubernetesSettings,
    placement: PodPlacement<'_>,
) -> (Labels, Option<Vec<TopologySpreadConstraint>>) {
    match settings.placement {
        Placement::Packed if !placement.nodes.is_empty() => {
            let node = &placement.nodes[placement.instance as usize % placement.nodes.len()];
            (map(HOST, node), None)
        }
        _ => {
            let mut labels = map(TRIAL, &names.trial);
            labels.insert(ROLE.to_owned(), "application".to_owned());
            (node_selector(settings), Some(spread(labels)))
        }
    }
}
