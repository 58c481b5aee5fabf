//! The fields of a pod that tare reads: whether it is ready or why not, its containers, how they ended.

use std::net::{IpAddr, SocketAddr};

use serde::de::IgnoredAny;
use tare_records::process::sidecar_of;
use tare_records::worker::{Plane, WatchedProcess};

use super::names::{CONTAINER, INSTANCE, OWN_CONTAINERS, REPLICAS, ROLE, SERVICE_LABEL};
use super::read::{Condition, Metadata, parts};

parts! {
    /// A pod.
    pub(crate) struct Pod {
        pub(crate) metadata: Metadata,
        spec: Spec,
        pub(super) status: Status,
    }

    struct Spec {
        node_name: String,
        containers: Vec<Container>,
        init_containers: Vec<Container>,
    }

    /// A container in the specification of a pod.
    struct Container {
        name: String,
        restart_policy: String,
        ports: Vec<Port>,
    }

    struct Port {
        name: String,
        container_port: i32,
    }

    pub(super) struct Status {
        phase: String,
        reason: String,
        message: String,
        #[serde(rename = "podIP")]
        pod_ip: String,
        conditions: Vec<Condition>,
        pub(super) container_statuses: Vec<ContainerStatus>,
        pub(super) init_container_statuses: Vec<ContainerStatus>,
    }

    /// A container's status.
    pub(crate) struct ContainerStatus {
        name: String,
        ready: bool,
        image: String,
        #[serde(rename = "imageID")]
        image_id: String,
        #[serde(rename = "containerID")]
        container_id: String,
        restart_count: i32,
        pub(super) state: State,
        last_state: State,
    }

    pub(super) struct State {
        running: Option<IgnoredAny>,
        pub(super) waiting: Option<StateDetails>,
        terminated: Option<StateDetails>,
    }

    /// Why a container waits or has ended.
    pub(super) struct StateDetails {
        pub(super) reason: Option<String>,
        pub(super) message: String,
        exit_code: Option<i64>,
    }
}

impl Pod {
    /// Containers and init containers of the specification.
    fn specified(&self) -> impl Iterator<Item = &Container> {
        let spec = &self.spec;
        spec.containers.iter().chain(&spec.init_containers)
    }

    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    pub(crate) fn node(&self) -> &str {
        &self.spec.node_name
    }

    /// `address:port` of a port of the pod; `None` while it has no IP address.
    pub(crate) fn address(&self, port: u16) -> Option<String> {
        Some(SocketAddr::new(self.ip()?, port).to_string())
    }

    /// Its IP address, if it has one.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        self.status.pod_ip.parse().ok()
    }

    pub(crate) fn phase(&self) -> &str {
        &self.status.phase
    }

    pub(crate) fn label(&self, name: &str) -> &str {
        self.metadata.label(name)
    }

    /// Namespace and name.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|c| c.is("Ready"))
    }

    /// Number of replicas of its service.
    pub(crate) fn replicas(&self) -> usize {
        self.label(REPLICAS).parse().unwrap_or(1)
    }

    /// Name of its service: of the graph, or the object of the user's application that it belongs to.
    pub(crate) fn service(&self) -> &str {
        match self.label(SERVICE_LABEL) {
            "" => self.label("app"),
            service => service,
        }
    }

    /// Name of the workload that the pod belongs to: of its Deployment, or else of the owner of the pod, or else its own.
    pub(crate) fn workload(&self) -> &str {
        let Some(owner) = self.metadata.owner_references.first() else {
            return self.name();
        };
        let name = owner.name.as_str();
        // A Deployment names its ReplicaSets after itself and the hash of the pod template.
        let hash = self.label("pod-template-hash");
        let deployment = name.strip_suffix(hash).and_then(|n| n.strip_suffix('-'));
        deployment.filter(|_| !hash.is_empty()).unwrap_or(name)
    }

    /// Whether a container is the application's own: other programs did not add it.
    pub(crate) fn is_own(&self, container: &str) -> bool {
        match self.metadata.annotation(OWN_CONTAINERS) {
            "" => container == CONTAINER,
            own => own.split(',').any(|own| own == container),
        }
    }

    /// The port of this name of its containers.
    pub(crate) fn port(&self, name: &str) -> Option<u16> {
        let mut ports = self.specified().flat_map(|c| &c.ports);
        u16::try_from(ports.find(|p| p.name == name)?.container_port).ok()
    }

    /// Name for results and messages: `emojivoto-0/web`; of a service with several replicas
    /// `emojivoto-0/emoji.x7k2p`, with the end of the pod's name; `generator-1`, or namespace and name.
    pub(crate) fn title(&self) -> String {
        let service = || format!("{}/{}", self.label(INSTANCE), self.service());
        let suffix = || self.name().rsplit('-').next().unwrap_or_default();
        match self.label(ROLE) {
            "application" if self.replicas() > 1 => format!("{}.{}", service(), suffix()),
            "application" => service(),
            "generator" => format!("generator-{}", self.completion_index()),
            _ => self.key(),
        }
    }

    /// Index of this pod in its indexed job.
    pub(crate) fn completion_index(&self) -> u32 {
        let index = self
            .metadata
            .annotation("batch.kubernetes.io/job-completion-index");
        index.parse().unwrap_or(0)
    }

    /// Containers with a status, native sidecars included; init containers are left out.
    pub(crate) fn containers(&self) -> Vec<&ContainerStatus> {
        let native_sidecar = |status: &&ContainerStatus| {
            let mut init = self.spec.init_containers.iter();
            init.any(|c| c.name == status.name && c.restart_policy == "Always")
        };
        let init = self.status.init_container_statuses.iter();
        init.filter(native_sidecar)
            .chain(&self.status.container_statuses)
            .collect()
    }

    /// The container of this name with its status.
    pub(crate) fn status_of(&self, name: &str) -> Option<&ContainerStatus> {
        self.containers().into_iter().find(|c| c.name() == name)
    }

    /// Whether the pod's specification has a container of this name.
    pub(crate) fn has_container(&self, name: &str) -> bool {
        self.specified().any(|c| c.name == name)
    }

    /// Names of the containers that other programs added to the pod.
    pub(crate) fn injected(&self) -> Vec<&str> {
        let names = self.specified().map(|c| c.name.as_str());
        names.filter(|n| !self.is_own(n)).collect()
    }

    /// Returns why the pod is not ready, as far as its status shows.
    pub(crate) fn not_ready_reason(&self) -> String {
        let reason = |container: &ContainerStatus, why: &Option<StateDetails>| {
            let why = why.as_ref()?;
            let (name, message) = (container.name(), &why.message);
            let text = format!("{name}: {} {message}", why.reason.as_ref()?);
            Some(text.trim_end().to_owned())
        };
        // While an init container waits, all containers wait with `PodInitializing`.
        let is_later = |c: &&ContainerStatus| {
            let reason = c.state.waiting.as_ref().and_then(|w| w.reason.as_deref());
            reason != Some("PodInitializing")
        };
        let init = self.status.init_container_statuses.iter().filter(is_later);
        let waiting = init
            .filter_map(|c| reason(c, &c.state.waiting))
            .chain(self.containers().into_iter().filter_map(|c| {
                reason(c, &c.state.waiting).or_else(|| reason(c, &c.state.terminated))
            }))
            .next();
        let unscheduled = || {
            let mut conditions = self.status.conditions.iter();
            let failed = conditions.find(|c| c.status == "False")?;
            let (reason, message) = (failed.reason.as_ref()?, failed.message.as_ref()?);
            Some(format!("{reason}: {message}"))
        };
        waiting
            .or_else(unscheduled)
            .unwrap_or_else(|| format!("phase {}", self.phase()))
    }

    /// Returns why the pod is being or was terminated, for example `was deleted`; `None` while it
    /// is not terminated.
    ///
    /// Source: Kubernetes' documentation, "Disruptions", pod disruption conditions, and
    /// "Node-pressure Eviction".
    pub(crate) fn termination(&self) -> Option<String> {
        let Status {
            reason, message, ..
        } = &self.status;
        if self.phase() == "Failed" && !reason.is_empty() {
            let verb = match reason.as_str() {
                "Evicted" => "was evicted by its node",
                _ => "failed",
            };
            return Some(format!("{verb} ({reason}: {message})"));
        }
        let mut conditions = self.status.conditions.iter();
        if let Some(target) = conditions.find(|c| c.is("DisruptionTarget")) {
            let reason = target.reason.as_deref().unwrap_or_default();
            let message = target.message.as_deref().unwrap_or_default();
            return Some(format!("was evicted ({reason}: {message})"));
        }
        self.is_terminating().then(|| "was deleted".to_owned())
    }

    /// Running containers, for the agents.
    pub(crate) fn watched(&self, sidecar: Option<&str>) -> Vec<WatchedProcess> {
        let role = self.label(ROLE);
        let mut all = Vec::new();
        for container in self.containers() {
            let Some(id) = container.id() else { continue };
            let own = self.specified().filter(|c| self.is_own(&c.name));
            let single = own.count() == 1;
            let (plane, name) = match (role, container.name()) {
                ("application", own) if self.is_own(own) && single => {
                    (Plane::Application, self.title())
                }
                ("application", own) if self.is_own(own) => {
                    (Plane::Application, format!("{}/{own}", self.title()))
                }
                ("generator", CONTAINER) => (Plane::Generator, self.title()),
                ("server" | "watcher", CONTAINER) => (Plane::Tare, self.title()),
                ("application", other) if Some(other) == sidecar => {
                    (Plane::DataPlane, sidecar_of(&self.title()))
                }
                (role, other) => {
                    let plane = match role {
                        "generator" | "server" | "watcher" => Plane::GeneratorProxy,
                        "application" => Plane::DataPlane,
                        _ => Plane::ControlPlane,
                    };
                    (plane, format!("{}/{other}", self.title()))
                }
            };
            all.push(WatchedProcess {
                name,
                plane,
                pid: 0,
                container: Some(format!("{}/{id}", self.node())),
                only_below: false,
            });
        }
        all
    }
}

impl ContainerStatus {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it runs.
    pub(crate) fn is_running(&self) -> bool {
        self.state.running.is_some()
    }

    /// Id of a running container, without the prefix of its runtime.
    pub(crate) fn id(&self) -> Option<&str> {
        let id = self.container_id.rsplit("//").next();
        id.filter(|id| self.is_running() && !id.is_empty())
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    pub(crate) fn image(&self) -> String {
        format!("{} {}", self.image, self.image_id)
    }

    pub(crate) fn restarts(&self) -> u64 {
        u64::try_from(self.restart_count).unwrap_or(0)
    }

    /// Reason and exit code of a container that ended, now or before its last restart.
    pub(crate) fn ended(&self) -> Option<(String, i64)> {
        let now = self.state.terminated.as_ref();
        let end = now.or(self.last_state.terminated.as_ref())?;
        let reason = end.reason.clone().unwrap_or_default();
        Some((reason, end.exit_code.unwrap_or(-1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn fields_with_null_are_as_if_missing() {
        let value = json!({"metadata": {"labels": null}, "spec": null,
            "status": {"containerStatuses": null}});
        let pod = pod(value);
        assert_eq!(pod, Pod::default());
        assert_eq!(pod.phase(), "");
        assert!(pod.containers().is_empty());
    }

    #[test]
    fn a_list_with_one_odd_pod_is_read() {
        let of = |port: i64, restarts: i64| {
            let port = json!([{"name": "http", "containerPort": port}]);
            json!({"spec": {"containers": [{"name": "tare", "ports": port}]},
                "status": {"containerStatuses": [{"name": "tare", "restartCount": restarts}]}})
        };
        let body = json!({"items": [of(8080, 3), of(70_000, -1)]}).to_string();
        let pods: Vec<Pod> = crate::api::list(body.as_bytes()).unwrap();
        let ports: Vec<_> = pods.iter().map(|p| p.port("http")).collect();
        assert_eq!(ports, [Some(8080), None]);
        let restarts = pods.iter().map(|p| p.containers()[0].restarts());
        assert_eq!(restarts.collect::<Vec<_>>(), [3, 0]);
    }

    #[test]
    fn the_reason_is_the_first_container_that_does_not_wait_for_another() {
        let waits = |name: &str, reason: &str, message: &str| {
            json!({"name": name,
            "state": {"waiting": {"reason": reason, "message": message}}})
        };
        let of = |init: Value, own: Value| {
            let pod = json!({"status": {"phase": "Pending",
                "initContainerStatuses": init, "containerStatuses": own}});
            super::tests::pod(pod).not_ready_reason()
        };
        let later = waits("identity", "PodInitializing", "");
        let missing = waits("linkerd-init", "ErrImagePull", "not found");
        let done = json!({"name": "a", "state": {"terminated": {"reason": "Completed"}}});
        assert_eq!(
            of(json!([missing]), json!([later])),
            "linkerd-init: ErrImagePull not found"
        );
        let crash = waits("istiod", "CrashLoopBackOff", "");
        assert_eq!(
            of(json!([done]), json!([crash])),
            "istiod: CrashLoopBackOff"
        );
        assert_eq!(of(json!([]), json!([])), "phase Pending");
    }

    #[test]
    fn a_pod_belongs_to_the_workload_of_its_owner() {
        let of = |owner: Option<&str>, hash: &str| {
            let owners: Vec<Value> = owner.iter().map(|name| json!({"name": name})).collect();
            let pod = json!({"metadata": {"name": "p", "labels": {"pod-template-hash": hash}, "ownerReferences": owners}});
            super::tests::pod(pod).workload().to_owned()
        };
        assert_eq!(of(Some("web-6d5f8c7b9"), "6d5f8c7b9"), "web");
        assert_eq!(of(Some("db"), ""), "db");
        assert_eq!(of(Some("web-old"), "6d5f8c7b9"), "web-old");
        assert_eq!(of(None, ""), "p");
    }

    #[test]
    fn an_ipv6_address_is_in_brackets() {
        let of = |ip: &str| pod(json!({"status": {"podIP": ip}})).address(80);
        assert_eq!(of("10.0.0.1").as_deref(), Some("10.0.0.1:80"));
        assert_eq!(of("fd00::1").as_deref(), Some("[fd00::1]:80"));
        assert_eq!(of(""), None);
    }

    #[test]
    fn each_container_has_a_plane_and_init_containers_are_left_out() {
        let running = |name: &str| {
            json!({"name": name, "ready": true, "containerID": format!("containerd://{name}-id"),
                "state": {"running": {}}})
        };
        let value = json!({
            "metadata": {"name": "web-1", "namespace": "n", "labels": {ROLE: "application", INSTANCE: "shop-0", "app": "web"}},
            "spec": {"nodeName": "w1", "containers": [{"name": "tare"}],
                "initContainers": [{"name": "istio-init"}, {"name": "istio-proxy", "restartPolicy": "Always"}]},
            "status": {"phase": "Running",
                "initContainerStatuses": [
                    {"name": "istio-init", "state": {"terminated": {"exitCode": 0}}}, running("istio-proxy")],
                "containerStatuses": [running("tare")]}});
        let mut replica = value.clone();
        replica["metadata"]["labels"][REPLICAS] = "2".into();
        replica["metadata"]["name"] = "web-6d5f8c7b9-x7k2p".into();
        assert_eq!(pod(replica).title(), "shop-0/web.x7k2p");
        let pod = pod(value);
        let watched = pod.watched(Some("istio-proxy"));
        let seen: Vec<(&str, Plane, &str)> = watched
            .iter()
            .map(|w| (w.name.as_str(), w.plane, w.container.as_deref().unwrap()))
            .collect();
        assert_eq!(
            seen,
            [
                ("shop-0/web/sidecar", Plane::DataPlane, "w1/istio-proxy-id"),
                ("shop-0/web", Plane::Application, "w1/tare-id"),
            ]
        );
        assert!(pod.has_container("istio-proxy") && !pod.has_container("linkerd-proxy"));
    }
}
