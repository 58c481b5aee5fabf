//! Reads a pod's object: whether it is ready or why not, its containers, how they ended.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use tare_records::process::sidecar_of;
use tare_records::worker::{Plane, WatchedProcess};

use super::names::{CONTAINER, INSTANCE, OWN_CONTAINERS, REPLICAS, ROLE, SERVICE_LABEL};

/// A pod's object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pod<'a>(pub(crate) &'a Value);

impl<'a> Pod<'a> {
    /// Returns the text at a JSON pointer; empty if it does not exist.
    fn text(self, pointer: &str) -> &'a str {
        self.0
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    /// Returns the array at a JSON pointer; empty if it does not exist.
    pub(super) fn array(self, pointer: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        let array = self.0.pointer(pointer).and_then(Value::as_array);
        array.into_iter().flatten()
    }

    /// Containers and init containers of the specification.
    fn specified(self) -> impl Iterator<Item = &'a Value> {
        self.array("/spec/containers")
            .chain(self.array("/spec/initContainers"))
    }

    pub(crate) fn name(self) -> &'a str {
        self.text("/metadata/name")
    }

    pub(crate) fn namespace(self) -> &'a str {
        self.text("/metadata/namespace")
    }

    pub(crate) fn node(self) -> &'a str {
        self.text("/spec/nodeName")
    }

    /// `address:port` of a port of the pod; `None` while it has no IP address.
    pub(crate) fn address(self, port: u16) -> Option<String> {
        Some(SocketAddr::new(self.ip()?, port).to_string())
    }

    /// Its IP address, if it has one.
    pub(crate) fn ip(self) -> Option<IpAddr> {
        self.text("/status/podIP").parse().ok()
    }

    pub(crate) fn phase(self) -> &'a str {
        self.text("/status/phase")
    }

    pub(crate) fn label(self, name: &str) -> &'a str {
        self.0["metadata"]["labels"][name].as_str().unwrap_or("")
    }

    pub(crate) fn annotation(self, name: &str) -> &'a str {
        self.0["metadata"]["annotations"][name]
            .as_str()
            .unwrap_or("")
    }

    /// Namespace and name.
    pub(crate) fn key(self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    pub(crate) fn is_terminating(self) -> bool {
        self.0["metadata"]["deletionTimestamp"].is_string()
    }

    pub(crate) fn is_ready(self) -> bool {
        self.array("/status/conditions")
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    }

    /// Number of replicas of its service.
    pub(crate) fn replicas(self) -> usize {
        self.label(REPLICAS).parse().unwrap_or(1)
    }

    /// Name of its service: of the graph, or the object of the user's application that it belongs to.
    pub(crate) fn service(self) -> &'a str {
        match self.label(SERVICE_LABEL) {
            "" => self.label("app"),
            service => service,
        }
    }

    /// Name of the workload that the pod belongs to: of its Deployment, or else of the owner of the pod, or else its own.
    pub(crate) fn workload(self) -> &'a str {
        let owner = self.array("/metadata/ownerReferences").next();
        let name = owner.and_then(|o| o["name"].as_str());
        let Some(name) = name else {
            return self.name();
        };
        // A Deployment names its ReplicaSets after itself and the hash of the pod template.
        let hash = self.label("pod-template-hash");
        let deployment = name.strip_suffix(hash).and_then(|n| n.strip_suffix('-'));
        deployment.filter(|_| !hash.is_empty()).unwrap_or(name)
    }

    /// Whether a container is the application's own: other programs did not add it.
    pub(crate) fn is_own(self, container: &str) -> bool {
        match self.annotation(OWN_CONTAINERS) {
            "" => container == CONTAINER,
            own => own.split(',').any(|own| own == container),
        }
    }

    /// The port of this name of its containers.
    pub(crate) fn port(self, name: &str) -> Option<u16> {
        let containers = self.specified().filter_map(|c| c["ports"].as_array());
        let port = containers.flatten().find(|p| p["name"] == name)?;
        port["containerPort"]
            .as_u64()
            .and_then(|n| u16::try_from(n).ok())
    }

    /// Name for results and messages: `emojivoto-0/web`; of a service with several replicas
    /// `emojivoto-0/emoji.x7k2p`, with the end of the pod's name; `generator-1`, or namespace and name.
    pub(crate) fn title(self) -> String {
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
    pub(crate) fn completion_index(self) -> u32 {
        let index = self.annotation("batch.kubernetes.io/job-completion-index");
        index.parse().unwrap_or(0)
    }

    /// Containers with a status, native sidecars included; init containers are left out.
    pub(crate) fn containers(self) -> Vec<Container<'a>> {
        let native_sidecar = |status: &&Value| {
            self.array("/spec/initContainers")
                .any(|c| c["name"] == status["name"] && c["restartPolicy"] == "Always")
        };
        let init = self.array("/status/initContainerStatuses");
        init.filter(native_sidecar)
            .chain(self.array("/status/containerStatuses"))
            .map(|status| Container { status })
            .collect()
    }

    /// The container of this name with its status.
    pub(crate) fn status_of(self, name: &str) -> Option<Container<'a>> {
        self.containers().into_iter().find(|c| c.name() == name)
    }

    /// The container of this name in the pod's specification.
    pub(crate) fn container(self, name: &str) -> Option<&'a Value> {
        self.specified().find(|c| c["name"] == name)
    }

    /// Names of the containers that other programs added to the pod.
    pub(crate) fn injected(self) -> Vec<&'a str> {
        let names = self.specified().filter_map(|c| c["name"].as_str());
        names.filter(|n| !self.is_own(n)).collect()
    }

    /// Returns why the pod is not ready, as far as its status shows.
    pub(crate) fn not_ready_reason(self) -> String {
        let reason = |status: &'a Value, state: &str| {
            let state = &status["state"][state];
            let name = status["name"].as_str().unwrap_or_default();
            let message = state["message"].as_str().unwrap_or_default();
            let text = format!("{name}: {} {message}", state["reason"].as_str()?);
            Some(text.trim_end().to_owned())
        };
        // While an init container waits, all containers wait with `PodInitializing`.
        let init = self.array("/status/initContainerStatuses");
        let init = init.filter(|c| c["state"]["waiting"]["reason"] != "PodInitializing");
        let waiting = init
            .filter_map(|c| reason(c, "waiting"))
            .chain(self.containers().into_iter().filter_map(|c| {
                reason(c.status, "waiting").or_else(|| reason(c.status, "terminated"))
            }))
            .next();
        let unscheduled = || {
            let mut conditions = self.array("/status/conditions");
            let failed = conditions.find(|c| c["status"] == "False")?;
            let (reason, message) = (failed["reason"].as_str()?, failed["message"].as_str()?);
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
    pub(crate) fn termination(self) -> Option<String> {
        let reason = self.text("/status/reason");
        if self.phase() == "Failed" && !reason.is_empty() {
            let verb = match reason {
                "Evicted" => "was evicted by its node",
                _ => "failed",
            };
            let message = self.text("/status/message");
            return Some(format!("{verb} ({reason}: {message})"));
        }
        let mut conditions = self.array("/status/conditions");
        let target = conditions.find(|c| c["type"] == "DisruptionTarget" && c["status"] == "True");
        if let Some(target) = target {
            let text = |key: &str| target[key].as_str().unwrap_or("");
            let (reason, message) = (text("reason"), text("message"));
            return Some(format!("was evicted ({reason}: {message})"));
        }
        self.is_terminating().then(|| "was deleted".to_owned())
    }

    /// Running containers, for the agents.
    pub(crate) fn watched(self, sidecar: Option<&str>) -> Vec<WatchedProcess> {
        let role = self.label(ROLE);
        let mut all = Vec::new();
        for container in self.containers() {
            let Some(id) = container.id() else { continue };
            let single = self.specified().filter_map(|c| c["name"].as_str());
            let single = single.filter(|name| self.is_own(name)).count() == 1;
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

/// A container's status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Container<'a> {
    pub(super) status: &'a Value,
}

impl<'a> Container<'a> {
    pub(crate) fn name(self) -> &'a str {
        self.status["name"].as_str().unwrap_or("")
    }

    /// Id of a running container, without the prefix of its runtime.
    pub(crate) fn id(self) -> Option<&'a str> {
        let id = self.status["containerID"].as_str()?;
        self.status["state"]["running"].is_object().then_some(())?;
        id.rsplit("//").next().filter(|id| !id.is_empty())
    }

    pub(crate) fn is_ready(self) -> bool {
        self.status["ready"] == true
    }

    pub(crate) fn image(self) -> String {
        let text = |key: &str| self.status[key].as_str().unwrap_or("");
        format!("{} {}", text("image"), text("imageID"))
    }

    pub(crate) fn restarts(self) -> u64 {
        self.status["restartCount"].as_u64().unwrap_or(0)
    }

    /// Reason and exit code of a container that ended, now or before its last restart.
    pub(crate) fn ended(self) -> Option<(String, i64)> {
        let now = &self.status["state"]["terminated"];
        let before = &self.status["lastState"]["terminated"];
        let end = [now, before].into_iter().find(|t| t.is_object())?;
        let code = end["exitCode"].as_i64().unwrap_or(-1);
        Some((end["reason"].as_str().unwrap_or("").to_owned(), code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_reason_is_the_first_container_that_does_not_wait_for_another() {
        let waits = |name: &str, reason: &str, message: &str| {
            json!({"name": name,
            "state": {"waiting": {"reason": reason, "message": message}}})
        };
        let of = |init: Value, own: Value| {
            let pod = json!({"status": {"phase": "Pending",
                "initContainerStatuses": init, "containerStatuses": own}});
            Pod(&pod).not_ready_reason()
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
            let owners = owner.map(|name| json!([{"name": name}]));
            let pod = json!({"metadata": {"name": "p", "labels": {"pod-template-hash": hash}, "ownerReferences": owners}});
            Pod(&pod).workload().to_owned()
        };
        assert_eq!(of(Some("web-6d5f8c7b9"), "6d5f8c7b9"), "web");
        assert_eq!(of(Some("db"), ""), "db");
        assert_eq!(of(Some("web-old"), "6d5f8c7b9"), "web-old");
        assert_eq!(of(None, ""), "p");
    }

    #[test]
    fn an_ipv6_address_is_in_brackets() {
        let of = |ip: &str| Pod(&json!({"status": {"podIP": ip}})).address(80);
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
        let pod = json!({
            "metadata": {"name": "web-1", "namespace": "n", "labels": {ROLE: "application", INSTANCE: "shop-0", "app": "web"}},
            "spec": {"nodeName": "w1", "containers": [{"name": "tare"}],
                "initContainers": [{"name": "istio-init"}, {"name": "istio-proxy", "restartPolicy": "Always"}]},
            "status": {"phase": "Running",
                "initContainerStatuses": [
                    {"name": "istio-init", "state": {"terminated": {"exitCode": 0}}}, running("istio-proxy")],
                "containerStatuses": [running("tare")]}});
        let mut replica = pod.clone();
        replica["metadata"]["labels"][REPLICAS] = "2".into();
        replica["metadata"]["name"] = "web-6d5f8c7b9-x7k2p".into();
        assert_eq!(Pod(&replica).title(), "shop-0/web.x7k2p");
        let pod = Pod(&pod);
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
        assert!(pod.container("istio-proxy").is_some());
        assert_eq!(pod.container("linkerd-proxy"), None);
    }
}
