//! Manifests as values; nothing here sends a request.

use serde_json::{Value, json};
use tare_plan::graph::{Service, ServiceProtocol};
use tare_plan::mesh::Join;
use tare_plan::{ContainerResources, KubernetesSettings, NAMESPACES, Placement};

use tare_run::keep;

use super::names::{CONTAINER, GENERATOR, INSTANCE, PORT, REPLICAS, ROLE, TRIAL, TrialNames};

/// Seconds that pods of tare have to end after SIGTERM. They are deleted when nothing uses them anymore, and their
/// sidecars would drain connections for as long as they may: 5 s with Istio.
const GRACE_S: u32 = 1;
/// Label of a node: its operating system.
pub(crate) const OS: &str = "kubernetes.io/os";

pub(super) fn with(mut labels: Value, more: &[(&str, &str)]) -> Value {
    for (key, value) in more {
        labels[*key] = (*value).into();
    }
    labels
}

fn extend<'a>(into: &mut Value, more: impl IntoIterator<Item = (&'a String, &'a String)>) {
    for (key, value) in more {
        into[key.as_str()] = value.as_str().into();
    }
}

/// Labels of a namespace of a trial.
pub(crate) fn namespace_labels(names: &TrialNames, settings: &KubernetesSettings) -> Value {
    let mut labels = names.labels();
    extend(&mut labels, &settings.namespace_labels);
    labels
}

/// Namespace; with `join`, it is part of the mesh.
pub(crate) fn namespace(name: &str, labels: Value, join: Option<&Join>, privileged: bool) -> Value {
    let mut labels = labels;
    let mut annotations = json!({});
    if let Some(join) = join {
        extend(&mut labels, &join.namespace_labels);
        extend(&mut annotations, &join.namespace_annotations);
    }
    if privileged {
        labels["pod-security.kubernetes.io/enforce"] = "privileged".into();
    }
    json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": labels, "annotations": annotations}})
}

/// Annotations of a Service of a namespace, by the plan: `${tare.namespaces}` is that namespace and that of the
/// generators.
pub(crate) fn service_annotations(
    names: &TrialNames,
    settings: &KubernetesSettings,
    namespace: &str,
) -> impl Iterator<Item = (String, String)> {
    let namespaces = format!("{namespace},{}", names.load());
    let all = settings.service_annotations.iter();
    all.map(move |(key, value)| (key.clone(), value.replace(NAMESPACES, &namespaces)))
}

/// Kubernetes service of a service of the graph. The name and the `appProtocol` of its port tell the
/// mesh the protocol.
pub(crate) fn service(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    namespace: &str,
    (service, protocol): (&str, ServiceProtocol),
) -> Value {
    let mut annotations = json!({});
    for (key, value) in service_annotations(names, settings, namespace) {
        annotations[key] = value.into();
    }
    extend(&mut annotations, tcp_annotations(join, protocol));
    let protocol = protocol.name();
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": service, "namespace": namespace, "annotations": annotations,
            "labels": with(names.labels(), &[("app", service)])},
        "spec": {"selector": {"app": service},
            "ports": [{"name": protocol, "appProtocol": protocol, "port": PORT, "targetPort": PORT}]}})
}

/// What a mesh adds to the objects of a service with this protocol.
fn tcp_annotations(
    join: Option<&Join>,
    protocol: ServiceProtocol,
) -> impl Iterator<Item = (&String, &String)> {
    let join = join.filter(|_| protocol == ServiceProtocol::Tcp);
    join.into_iter().flat_map(|j| &j.tcp_annotations)
}

/// ConfigMap with files for workers, each with its name and text.
pub(crate) fn config_map(
    names: &TrialNames,
    namespace: &str,
    name: &str,
    files: &[(String, String)],
) -> Value {
    let data: serde_json::Map<String, Value> = files
        .iter()
        .map(|(name, text)| (name.clone(), text.as_str().into()))
        .collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": names.labels()},
        "data": data})
}

/// Container of tare, with its specification mounted at `/spec`. Its user is that of the image, unless the cluster
/// sets another one.
pub(crate) fn container(
    settings: &KubernetesSettings,
    resources: &ContainerResources,
    args: &[&str],
) -> Value {
    let mut container = json!({"name": CONTAINER, "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy.word(),
        "command": ["/tare"], "args": args,
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumeMounts": [{"name": "spec", "mountPath": "/spec", "readOnly": true}]});
    if !resources.is_empty() {
        container["resources"] = json!(resources);
    }
    container
}

/// Directory in which a worker's records are kept.
const RECORDS: &str = "/records";

/// Container of a worker that writes records; [`keep`](tare_run::keep) numbers and keeps them.
pub(super) fn recorder(
    settings: &KubernetesSettings,
    resources: &ContainerResources,
    worker: &[&str],
) -> Value {
    let mut container = container(settings, resources, &kept(worker));
    push(
        &mut container["volumeMounts"],
        json!({"name": "records", "mountPath": RECORDS}),
    );
    container
}

/// Arguments with which the records of a worker are kept.
fn kept<'a>(worker: &[&'a str]) -> Vec<&'a str> {
    [&["keep", "--dir", RECORDS, "--"], worker].concat()
}

/// Adds the volume of a [`recorder`] to its pod. The size is a limit above which the kubelet evicts the pod.
pub(super) fn add_records(pod: &mut Value) {
    let limit = (2 * keep::BYTES_MAX).to_string();
    push(
        &mut pod["volumes"],
        json!({"name": "records", "emptyDir": {"sizeLimit": limit}}),
    );
}

pub(crate) fn push(list: &mut Value, element: Value) {
    match list.as_array_mut() {
        Some(list) => list.push(element),
        None => *list = json!([element]),
    }
}

pub(crate) fn pod_spec(settings: &KubernetesSettings, container: Value, config_map: &str) -> Value {
    let secrets: Vec<Value> = settings
        .image_pull_secrets
        .iter()
        .map(|s| json!({"name": s}))
        .collect();
    let mut spec = json!({"containers": [container], "imagePullSecrets": secrets,
        "automountServiceAccountToken": false, "enableServiceLinks": false,
        "terminationGracePeriodSeconds": GRACE_S,
        "volumes": [{"name": "spec", "configMap": {"name": config_map}}]});
    schedule(&mut spec, settings);
    spec
}

/// Adds the plan's tolerations and priority class to the specification of a pod; one with a priority class keeps it.
pub(crate) fn schedule(spec: &mut Value, settings: &KubernetesSettings) {
    let own = spec["tolerations"].as_array().cloned();
    let plan = settings.pod.tolerations.iter().map(|t| json!(t));
    let all: Vec<Value> = own.into_iter().flatten().chain(plan).collect();
    if !all.is_empty() {
        spec["tolerations"] = all.into();
    }
    if let Some(class) = &settings.pod.priority_class
        && spec["priorityClassName"].as_str().is_none_or(str::is_empty)
    {
        spec["priorityClassName"] = class.as_str().into();
    }
}

/// Labels and annotations of a pod of tare: those of the plan, and then those of the mesh.
pub(crate) fn metadata(
    settings: &KubernetesSettings,
    mut labels: Value,
    join: Option<&Join>,
) -> Value {
    let mut annotations = json!({});
    extend(&mut labels, &settings.pod.labels);
    extend(&mut annotations, &settings.pod.annotations_with_defaults());
    if let Some(join) = join {
        extend(&mut labels, &join.pod_labels);
        extend(&mut annotations, &join.pod_annotations);
    }
    json!({"labels": labels, "annotations": annotations})
}

/// Mounts the token of the service account if the sidecars of the mesh need it.
pub(super) fn mount_token(pod: &mut Value, join: Option<&Join>) {
    let token = join.is_some_and(|j| j.service_account_token);
    pod["automountServiceAccountToken"] = token.into();
}

/// Labels of the nodes on which a pod may run.
pub(super) fn node_selector(settings: &KubernetesSettings) -> Value {
    let mut selector = json!({OS: "linux"});
    extend(&mut selector, &settings.node_labels);
    selector
}

/// Placement of the pods of an instance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodPlacement<'a> {
    /// Names of the nodes for applications.
    pub(crate) nodes: &'a [String],
    pub(crate) instance: u32,
}

/// Places the pods of an application on the nodes by the settings.
pub(crate) fn place(
    pod: &mut Value,
    names: &TrialNames,
    settings: &KubernetesSettings,
    placement: PodPlacement<'_>,
) {
    match settings.placement {
        Placement::Packed if !placement.nodes.is_empty() => {
            let node = &placement.nodes[placement.instance as usize % placement.nodes.len()];
            pod["nodeSelector"] = json!({"kubernetes.io/hostname": node});
        }
        _ => {
            pod["nodeSelector"] = node_selector(settings);
            pod["topologySpreadConstraints"] = json!([{"maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {TRIAL: names.trial, ROLE: "application"}}}]);
        }
    }
}

/// Deployment of one service of an instance, with its replicas.
pub(crate) fn deployment(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    (namespace, service, instance): (&str, &Service, &str),
    placement: PodPlacement<'_>,
) -> Value {
    let Service {
        name: service,
        protocol,
        replicas,
        ..
    } = service;
    let file = format!("/spec/{service}.json");
    let resources = &settings.pod.resources.application;
    let mut container = container(settings, resources, &["workload", "--spec", &file]);
    container["ports"] = json!([{"name": protocol.name(), "containerPort": PORT}]);
    // A startup probe ends when the pod is ready, so it does not disturb the measurement.
    container["startupProbe"] =
        json!({"periodSeconds": 1, "failureThreshold": 600, "timeoutSeconds": 5});
    match *protocol {
        // The application answers HTTP/1.1 as well.
        ServiceProtocol::Http | ServiceProtocol::Tcp | ServiceProtocol::Http2 => {
            container["startupProbe"]["httpGet"] = json!({"path": "/tare/ready", "port": PORT});
        }
        ServiceProtocol::Grpc => container["startupProbe"]["grpc"] = json!({"port": PORT}),
    }
    let mut pod = pod_spec(settings, container, "spec");
    mount_token(&mut pod, join);
    place(&mut pod, names, settings, placement);
    let mut labels = with(
        names.labels(),
        &[
            ("app", service),
            (ROLE, "application"),
            (INSTANCE, instance),
        ],
    );
    let own = labels.clone();
    if *replicas > 1 {
        labels[REPLICAS] = replicas.to_string().into();
    }
    let mut metadata = metadata(settings, labels, join);
    extend(
        &mut metadata["annotations"],
        tcp_annotations(join, *protocol),
    );
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": service, "namespace": namespace, "labels": own},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": service}},
            "template": {"metadata": metadata, "spec": pod}}})
}

/// Indexed job with one pod for each generator. The specification that they share is in the ConfigMap of the same name.
pub(crate) fn generators(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    reserved: bool,
    job: &str,
) -> Value {
    let resources = &settings.pod.resources.generator;
    let args = [
        "load",
        "--spec",
        "/spec/load.json",
        "--generator",
        "$(INDEX)",
    ];
    let mut container = recorder(settings, resources, &args);
    container["env"] = json!([{"name": "INDEX", "valueFrom": {"fieldRef":
        {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}}]);
    let mut pod = pod_spec(settings, container, job);
    mount_token(&mut pod, join);
    add_records(&mut pod);
    pod["restartPolicy"] = "Never".into();
    if reserved {
        pod["nodeSelector"] = json!({GENERATOR: names.run});
        pod["topologySpreadConstraints"] = json!([{"maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"batch.kubernetes.io/job-name": job}}}]);
        let own = json!({"key": GENERATOR, "operator": "Equal", "value": names.run, "effect": "NoSchedule"});
        push(&mut pod["tolerations"], own);
    } else {
        pod["nodeSelector"] = node_selector(settings);
    }
    let labels = with(names.labels(), &[("app", "generator"), (ROLE, "generator")]);
    let mut metadata = metadata(settings, labels, join);
    if let Some(join) = join {
        extend(&mut metadata["annotations"], &join.generator_annotations);
    }
    json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": job, "namespace": names.load(), "labels": names.labels()},
        "spec": {"completions": settings.generators, "parallelism": settings.generators,
            "completionMode": "Indexed", "backoffLimit": 0,
            "template": {"metadata": metadata, "spec": pod}}})
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
) -> Value {
    let path = format!("/spec/{file}");
    let resources = &settings.pod.resources.agent;
    let mut container = recorder(settings, resources, &["agent", "--spec", &path]);
    container["env"] = json!([{"name": "TARE_CGROUP_ROOT", "value": "/host/cgroup"}]);
    // Only root may read the memory of other users' processes. It has no capabilities, except to sample stacks.
    container["securityContext"]["runAsNonRoot"] = false.into();
    container["securityContext"]["runAsUser"] = 0.into();
    if samples_stacks {
        // Perf events, names of the kernel's functions, and the programs of other users.
        container["securityContext"]["capabilities"]["add"] =
            json!(["PERFMON", "SYSLOG", "SYS_PTRACE"]);
    }
    push(
        &mut container["volumeMounts"],
        json!({"name": "cgroup", "mountPath": "/host/cgroup", "readOnly": true, "mountPropagation": "HostToContainer"}),
    );
    let mut pod = pod_spec(settings, container, map);
    add_records(&mut pod);
    push(
        &mut pod["volumes"],
        json!({"name": "cgroup", "hostPath": {"path": "/sys/fs/cgroup", "type": "Directory"}}),
    );
    pod["nodeName"] = node.into();
    pod["hostPID"] = true.into();
    pod["restartPolicy"] = "Never".into();
    pod["tolerations"] = json!([{"operator": "Exists"}]);
    let labels = with(names.labels(), &[(ROLE, "agent")]);
    let mut metadata = metadata(settings, labels, None);
    metadata["name"] = name.into();
    metadata["namespace"] = names.agents().into();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
}

/// Pod of a probe, outside the mesh. Its specification is in the ConfigMap of the same name. It may not run on the
/// reserved node, because it does not tolerate the taint.
pub(crate) fn probe(names: &TrialNames, settings: &KubernetesSettings, name: &str) -> Value {
    let resources = &settings.pod.resources.agent;
    let container = recorder(settings, resources, &["probe", "--spec", "/spec/0.json"]);
    let mut pod = pod_spec(settings, container, name);
    add_records(&mut pod);
    pod["restartPolicy"] = "Never".into();
    pod["nodeSelector"] = node_selector(settings);
    let labels = with(names.labels(), &[(ROLE, "probe")]);
    let mut metadata = metadata(settings, labels, None);
    metadata["name"] = name.into();
    metadata["namespace"] = names.agents().into();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
}

/// Pod of a probe in the place of the generators: in their namespace, and in the mesh like them.
pub(crate) fn probe_of_generators(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    name: &str,
) -> Value {
    let mut pod = probe(names, settings, name);
    mount_token(&mut pod["spec"], join);
    let labels = pod["metadata"]["labels"].clone();
    pod["metadata"] = metadata(settings, labels, join);
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["namespace"] = names.load().into();
    pod
}

/// Pod that checks a node for `tare doctor --deep`, bound to the node. Its specification is in the ConfigMap `map`. With
/// `as_agent`, it has the privileges of an agent.
pub(crate) fn node_check(
    names: &TrialNames,
    settings: &KubernetesSettings,
    (node, name, map): (&str, &str, &str),
    as_agent: bool,
) -> Value {
    let mut pod = match as_agent {
        true => agent(names, settings, node, name, (map, "0.json".into()), false),
        false => probe(names, settings, name),
    };
    pod["metadata"]["labels"][ROLE] = "node-check".into();
    let spec = &mut pod["spec"];
    spec["nodeName"] = node.into();
    spec["volumes"][0]["configMap"]["name"] = map.into();
    let args = kept(&["node-check", "--spec", "/spec/0.json"]);
    spec["containers"][0]["args"] = json!(args);
    pod
}

#[cfg(test)]
mod tests {
    use super::super::names::Names;
    use super::*;

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
            job["spec"]["template"]["spec"]["automountServiceAccountToken"].clone()
        };
        assert_eq!((of(true), of(false)), (json!(true), json!(false)));
    }

    #[test]
    fn a_probe_has_no_token_no_privilege_and_no_place_on_the_reserved_node() {
        let names = Names::new("tare", "run").trial(0);
        let pod = probe(&names, &KubernetesSettings::default(), "probe-1");
        assert_eq!(pod["metadata"]["namespace"], names.agents());
        let spec = &pod["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false);
        assert!(spec["tolerations"].is_null() && spec["hostNetwork"].is_null());
        let security = &spec["containers"][0]["securityContext"];
        assert_eq!(security["runAsNonRoot"], true);
        assert_eq!(security["capabilities"], json!({"drop": ["ALL"]}));
    }
}
