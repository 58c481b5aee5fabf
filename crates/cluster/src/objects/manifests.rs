//! Manifests as values; nothing here sends a request.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMap, ContainerPort, EnvVar, EnvVarSource, GRPCAction, HTTPGetAction,
    HostPathVolumeSource, Namespace, ObjectFieldSelector, Pod, PodSpec, Probe, Service,
    ServicePort, ServiceSpec, Toleration, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tare_plan::graph::{Service as GraphService, ServiceProtocol};
use tare_plan::mesh::Join;
use tare_plan::{KubernetesSettings, NAMESPACES};

use super::names::{GENERATOR, INSTANCE, Labels, PORT, REPLICAS, ROLE, TrialNames, with};
use super::pod_parts::{
    PodPlacement, add_records, add_volume, container, kept, map, metadata, mount, mount_token,
    node_selector, place, pod_spec, recorder, selector, spread, template, text, texts, variable,
};

/// Annotation of the pods of an indexed Job: the index.
const INDEX: &str = "metadata.annotations['batch.kubernetes.io/job-completion-index']";

/// Metadata of an object in a namespace.
pub(crate) fn named(name: &str, namespace: &str, labels: Labels) -> ObjectMeta {
    ObjectMeta {
        name: text(name),
        namespace: text(namespace),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

/// Labels of a namespace of a trial.
pub(crate) fn namespace_labels(names: &TrialNames, settings: &KubernetesSettings) -> Labels {
    let mut labels = names.labels();
    labels.extend(settings.namespace_labels.clone());
    labels
}

/// Namespace; with `join`, it is part of the mesh.
pub(crate) fn namespace(
    name: &str,
    mut labels: Labels,
    join: Option<&Join>,
    privileged: bool,
) -> Namespace {
    let mut annotations = Labels::new();
    if let Some(join) = join {
        labels.extend(join.namespace_labels.clone());
        annotations.extend(join.namespace_annotations.clone());
    }
    if privileged {
        labels.extend(map("pod-security.kubernetes.io/enforce", "privileged"));
    }
    Namespace {
        metadata: ObjectMeta {
            name: text(name),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

/// Annotations of a Service of a namespace, by the plan: `${tare.namespaces}` is that namespace and that of the
/// generators.
pub(crate) fn service_annotations(
    names: &TrialNames,
    settings: &KubernetesSettings,
    namespace: &str,
) -> Labels {
    let namespaces = format!("{namespace},{}", names.load());
    let all = settings.service_annotations.iter();
    all.map(|(key, value)| (key.clone(), value.replace(NAMESPACES, &namespaces)))
        .collect()
}

/// Kubernetes service of a service of the graph. The name and the `appProtocol` of its port tell the
/// mesh the protocol.
pub(crate) fn service(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    namespace: &str,
    (service, protocol): (&str, ServiceProtocol),
) -> Service {
    let labels = with(names.labels(), &[("app", service)]);
    let mut annotations = service_annotations(names, settings, namespace);
    annotations.extend(tcp_annotations(join, protocol));
    Service {
        metadata: ObjectMeta {
            annotations: Some(annotations),
            ..named(service, namespace, labels)
        },
        spec: Some(ServiceSpec {
            selector: Some(map("app", service)),
            ports: Some(vec![service_port(protocol.name())]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The port of a service with this protocol.
pub(super) fn service_port(protocol: &str) -> ServicePort {
    ServicePort {
        name: text(protocol),
        app_protocol: text(protocol),
        port: PORT.into(),
        target_port: Some(IntOrString::Int(PORT.into())),
        ..ServicePort::default()
    }
}

/// The port of the pods of a service with this protocol.
pub(super) fn container_port(protocol: &str) -> ContainerPort {
    ContainerPort {
        name: text(protocol),
        container_port: PORT.into(),
        ..ContainerPort::default()
    }
}

/// What a mesh adds to the objects of a service with this protocol.
fn tcp_annotations(join: Option<&Join>, protocol: ServiceProtocol) -> Labels {
    let join = join.filter(|_| protocol == ServiceProtocol::Tcp);
    join.map_or_else(Labels::new, |join| join.tcp_annotations.clone())
}

/// ConfigMap with files for workers, each with its name and text.
pub(crate) fn config_map(
    names: &TrialNames,
    namespace: &str,
    name: &str,
    files: &[(String, String)],
) -> ConfigMap {
    ConfigMap {
        metadata: named(name, namespace, names.labels()),
        data: Some(files.iter().cloned().collect()),
        ..ConfigMap::default()
    }
}

/// The probe of the start of a service. It ends when the pod is ready, so it does not disturb the measurement.
fn startup_probe(protocol: ServiceProtocol) -> Probe {
    let is_grpc = protocol == ServiceProtocol::Grpc;
    Probe {
        period_seconds: Some(1),
        failure_threshold: Some(600),
        timeout_seconds: Some(5),
        // With the other protocols, the application answers HTTP/1.1 as well.
        http_get: (!is_grpc).then(|| HTTPGetAction {
            path: text("/tare/ready"),
            port: IntOrString::Int(PORT.into()),
            ..HTTPGetAction::default()
        }),
        grpc: is_grpc.then(|| GRPCAction {
            port: PORT.into(),
            ..GRPCAction::default()
        }),
        ..Probe::default()
    }
}

/// Deployment of one service of an instance, with its replicas.
pub(crate) fn deployment(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    (namespace, service, instance): (&str, &GraphService, &str),
    placement: PodPlacement<'_>,
) -> Deployment {
    let GraphService {
        name: service,
        protocol,
        replicas,
        ..
    } = service;
    let file = format!("/spec/{service}.json");
    let resources = &settings.pod.resources.application;
    let mut container = container(settings, resources, &["workload", "--spec", &file]);
    container.ports = Some(vec![container_port(protocol.name())]);
    container.startup_probe = Some(startup_probe(*protocol));
    let mut pod = pod_spec(settings, container, "spec");
    mount_token(&mut pod, join);
    let (nodes, spread) = place(names, settings, placement);
    pod.node_selector = Some(nodes);
    pod.topology_spread_constraints = spread;
    let own = with(
        names.labels(),
        &[
            ("app", service),
            (ROLE, "application"),
            (INSTANCE, instance),
        ],
    );
    let mut labels = own.clone();
    if *replicas > 1 {
        labels.insert(REPLICAS.to_owned(), replicas.to_string());
    }
    let mut metadata = metadata(settings, labels, join);
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.extend(tcp_annotations(join, *protocol));
    Deployment {
        metadata: named(service, namespace, own),
        spec: DeploymentSpec {
            replicas: i32::try_from(*replicas).ok(),
            selector: selector(map("app", service)),
            template: template(metadata, pod),
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

/// Indexed job with one pod for each generator. The specification that they share is in the ConfigMap of the same name.
pub(crate) fn generators(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    reserved: bool,
    job: &str,
) -> Job {
    let resources = &settings.pod.resources.generator;
    let args = [
        "load",
        "--spec",
        "/spec/load.json",
        "--generator",
        "$(INDEX)",
    ];
    let mut container = recorder(settings, resources, &args);
    let index = ObjectFieldSelector {
        field_path: INDEX.to_owned(),
        ..ObjectFieldSelector::default()
    };
    container.env = Some(vec![EnvVar {
        name: "INDEX".to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(index),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }]);
    let mut pod = pod_spec(settings, container, job);
    mount_token(&mut pod, join);
    add_records(&mut pod);
    pod.restart_policy = text("Never");
    if reserved {
        pod.node_selector = Some(map(GENERATOR, &names.run));
        let of_job = map("batch.kubernetes.io/job-name", job);
        pod.topology_spread_constraints = Some(spread(of_job));
        pod.tolerations.get_or_insert_default().push(Toleration {
            key: text(GENERATOR),
            operator: text("Equal"),
            value: text(&names.run),
            effect: text("NoSchedule"),
            ..Toleration::default()
        });
    } else {
        pod.node_selector = Some(node_selector(settings));
    }
    let labels = with(names.labels(), &[("app", "generator"), (ROLE, "generator")]);
    let mut metadata = metadata(settings, labels, join);
    if let Some(join) = join {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.extend(join.generator_annotations.clone());
    }
    let count = i32::try_from(settings.generators).ok();
    Job {
        metadata: named(job, &names.load(), names.labels()),
        spec: Some(JobSpec {
            completions: count,
            parallelism: count,
            completion_mode: text("Indexed"),
            backoff_limit: Some(0),
            template: template(metadata, pod),
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

/// A pod with these parts.
pub(crate) fn pod(name: &str, namespace: &str, metadata: ObjectMeta, spec: PodSpec) -> Pod {
    Pod {
        metadata: ObjectMeta {
            name: text(name),
            namespace: text(namespace),
            ..metadata
        },
        spec: Some(spec),
        ..Pod::default()
    }
}

/// Pod of an agent, bound to its node. It reads the processes and control groups of the node,
/// changes nothing and opens no port.
pub(crate) fn agent(
    names: &TrialNames,
    settings: &KubernetesSettings,
    node: &str,
    name: &str,
    (map, file): (&str, String),
    samples_stacks: bool,
) -> Pod {
    let path = format!("/spec/{file}");
    let resources = &settings.pod.resources.agent;
    let mut container = recorder(settings, resources, &["agent", "--spec", &path]);
    container.env = Some(vec![variable("TARE_CGROUP_ROOT", "/host/cgroup")]);
    // Only root may read the memory of other users' processes. It has no capabilities, except to sample stacks.
    let security = container.security_context.get_or_insert_default();
    security.run_as_non_root = Some(false);
    security.run_as_user = Some(0);
    if samples_stacks {
        // Perf events, names of the kernel's functions, and the programs of other users.
        security.capabilities = Some(Capabilities {
            add: texts(&["PERFMON", "SYSLOG", "SYS_PTRACE"]),
            ..security.capabilities.take().unwrap_or_default()
        });
    }
    let mut spec = pod_spec(settings, container, map);
    add_records(&mut spec);
    let host_path = HostPathVolumeSource {
        path: "/sys/fs/cgroup".to_owned(),
        type_: text("Directory"),
    };
    let mount = VolumeMount {
        mount_propagation: text("HostToContainer"),
        ..mount("cgroup", "/host/cgroup", true)
    };
    add_volume(&mut spec, mount, |volume| {
        volume.host_path = Some(host_path);
    });
    spec.node_name = text(node);
    spec.host_pid = Some(true);
    spec.restart_policy = text("Never");
    spec.tolerations = Some(vec![Toleration {
        operator: text("Exists"),
        ..Toleration::default()
    }]);
    let labels = with(names.labels(), &[(ROLE, "agent")]);
    pod(
        name,
        &names.agents(),
        metadata(settings, labels, None),
        spec,
    )
}

/// Pod of a probe, outside the mesh. Its specification is in the ConfigMap of the same name. It may not run on the
/// reserved node, because it does not tolerate the taint.
pub(crate) fn probe(names: &TrialNames, settings: &KubernetesSettings, name: &str) -> Pod {
    probe_at(names, settings, None, (name, &names.agents()), name)
}

/// Pod of a probe in the place of the generators: in their namespace, and in the mesh like them.
pub(crate) fn probe_of_generators(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    name: &str,
) -> Pod {
    probe_at(names, settings, join, (name, &names.load()), name)
}

fn probe_at(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    (name, namespace): (&str, &str),
    map: &str,
) -> Pod {
    let resources = &settings.pod.resources.agent;
    let container = recorder(settings, resources, &["probe", "--spec", "/spec/0.json"]);
    let mut spec = pod_spec(settings, container, map);
    mount_token(&mut spec, join);
    add_records(&mut spec);
    spec.restart_policy = text("Never");
    spec.node_selector = Some(node_selector(settings));
    let labels = with(names.labels(), &[(ROLE, "probe")]);
    pod(name, namespace, metadata(settings, labels, join), spec)
}

/// Pod that checks a node for `tare doctor --deep`, bound to the node. Its specification is in the ConfigMap `map`. With
/// `as_agent`, it has the privileges of an agent.
pub(crate) fn node_check(
    names: &TrialNames,
    settings: &KubernetesSettings,
    (node, name, map): (&str, &str, &str),
    as_agent: bool,
) -> Pod {
    let mut pod = match as_agent {
        true => agent(names, settings, node, name, (map, "0.json".into()), false),
        false => probe_at(names, settings, None, (name, &names.agents()), map),
    };
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(ROLE.to_owned(), "node-check".to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.node_name = text(node);
    let args = kept(&["node-check", "--spec", "/spec/0.json"]);
    spec.containers[0].args = texts(&args);
    pod
}

#[cfg(test)]
mod tests {
    use super::super::names::Names;
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_mesh_that_needs_it_gets_a_token_into_the_pods() {
        let names = Names::new("tare", "run").trial(0);
        let of = |service_account_token| {
            let join = Join {
                service_account_token,
                ..Join::default()
            };
            let job = generators(
                &names,
                &KubernetesSettings::default(),
                Some(&join),
                false,
                "load",
            );
            let job = serde_json::to_value(job).unwrap();
            job["spec"]["template"]["spec"]["automountServiceAccountToken"].clone()
        };
        assert_eq!((of(true), of(false)), (json!(true), json!(false)));
    }

    #[test]
    fn a_probe_has_no_token_no_privilege_and_no_place_on_the_reserved_node() {
        let names = Names::new("tare", "run").trial(0);
        let pod = probe(&names, &KubernetesSettings::default(), "probe-1");
        let pod = serde_json::to_value(pod).unwrap();
        assert_eq!(pod["metadata"]["namespace"], names.agents());
        let spec = &pod["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert!(spec["tolerations"].is_null() && spec["hostNetwork"].is_null());
        let security = &spec["containers"][0]["securityContext"];
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
    }
}
