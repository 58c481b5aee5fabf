//! What a pod's object tells: ready or why not, its containers, what ended.

use serde_json::Value;
use tare_model::worker::{Plane, WatchedProcess};

use super::names::{CONTAINER, INSTANCE, ROLE};

/// A pod as the API server shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pod<'a>(pub(super) &'a Value);

impl<'a> Pod<'a> {
    fn text(self, pointer: &str) -> &'a str {
        self.0
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("")
    }

    pub(super) fn name(self) -> &'a str {
        self.text("/metadata/name")
    }

    pub(super) fn namespace(self) -> &'a str {
        self.text("/metadata/namespace")
    }

    pub(super) fn node(self) -> &'a str {
        self.text("/spec/nodeName")
    }

    pub(super) fn phase(self) -> &'a str {
        self.text("/status/phase")
    }

    pub(super) fn label(self, name: &str) -> &'a str {
        self.0["metadata"]["labels"][name].as_str().unwrap_or("")
    }

    pub(super) fn annotation(self, name: &str) -> &'a str {
        self.0["metadata"]["annotations"][name]
            .as_str()
            .unwrap_or("")
    }

    /// Namespace and name.
    pub(super) fn key(self) -> String {
        format!("{}/{}", self.namespace(), self.name())
    }

    pub(super) fn is_leaving(self) -> bool {
        self.0["metadata"]["deletionTimestamp"].is_string()
    }

    pub(super) fn is_ready(self) -> bool {
        let conditions = self.0["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    }

    /// `emojivoto-0/web`, `generator-1`, or namespace and name.
    pub(super) fn title(self) -> String {
        match self.label(ROLE) {
            "application" => format!("{}/{}", self.label(INSTANCE), self.label("app")),
            "generator" => format!("generator-{}", self.completion_index()),
            _ => self.key(),
        }
    }

    /// Which pod of an indexed job.
    pub(super) fn completion_index(self) -> u32 {
        let index = self.annotation("batch.kubernetes.io/job-completion-index");
        index.parse().unwrap_or(0)
    }

    /// States of all containers, those of native sidecars too; initialisers are none.
    pub(super) fn containers(self) -> Vec<Container<'a>> {
        let of = |list: &str, init: bool| {
            let statuses = self.0["status"][list].as_array();
            statuses
                .into_iter()
                .flatten()
                .map(move |status| Container { status, init })
        };
        let all = of("initContainerStatuses", true).chain(of("containerStatuses", false));
        all.filter(|c| !c.init || self.is_native_sidecar(c.name()))
            .collect()
    }

    fn is_native_sidecar(self, name: &str) -> bool {
        let init = self.0["spec"]["initContainers"].as_array();
        init.into_iter()
            .flatten()
            .any(|c| c["name"] == name && c["restartPolicy"] == "Always")
    }

    /// Whether a container of that name is planned for this pod.
    pub(super) fn has(self, container: &str) -> bool {
        let of = |list: &str| self.0["spec"][list].as_array().into_iter().flatten();
        of("containers")
            .chain(of("initContainers"))
            .any(|c| c["name"] == container)
    }

    /// Names of containers that tare did not ask for.
    pub(super) fn others(self) -> Vec<&'a str> {
        let of = |list: &str| self.0["spec"][list].as_array().into_iter().flatten();
        let names = of("containers")
            .chain(of("initContainers"))
            .filter_map(|c| c["name"].as_str());
        names.filter(|n| *n != CONTAINER).collect()
    }

    /// Why it is not ready, as far as it tells.
    pub(super) fn why_not(self) -> String {
        let said = |status: &Value, word: &str| {
            let message = status["state"]["waiting"]["message"].as_str();
            let name = status["name"].as_str().unwrap_or_default();
            let text = format!("{name}: {word} {}", message.unwrap_or_default());
            text.trim_end().to_owned()
        };
        let word = |c: &'a Value, why: &str| c["state"][why]["reason"].as_str();
        // Others wait for an initialiser that waits itself.
        let initialisers = self.0["status"]["initContainerStatuses"].as_array();
        let initialiser = initialisers.into_iter().flatten().find_map(|c| {
            let waits = word(c, "waiting").filter(|w| *w != "PodInitializing")?;
            Some(said(c, waits))
        });
        let waiting = self.containers().into_iter().find_map(|c| {
            let word = word(c.status, "waiting").or_else(|| word(c.status, "terminated"))?;
            Some(said(c.status, word))
        });
        let unscheduled = || {
            let conditions = self.0["status"]["conditions"].as_array()?;
            let said = conditions.iter().find(|c| c["status"] == "False")?;
            Some(format!(
                "{}: {}",
                said["reason"].as_str()?,
                said["message"].as_str()?
            ))
        };
        initialiser
            .or(waiting)
            .or_else(unscheduled)
            .unwrap_or_else(|| format!("phase {}", self.phase()))
    }

    /// Why it goes or has gone, as far as it tells; as a predicate.
    ///
    /// Source: Kubernetes' documentation, "Disruptions", pod disruption conditions, and
    /// "Node-pressure Eviction".
    pub(super) fn leaving(self) -> Option<String> {
        let reason = self.text("/status/reason");
        if self.phase() == "Failed" && !reason.is_empty() {
            let word = match reason {
                "Evicted" => "was evicted by its node",
                _ => "failed",
            };
            return Some(format!(
                "{word} ({reason}: {})",
                self.text("/status/message")
            ));
        }
        let conditions = self.0["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let target = conditions.find(|c| c["type"] == "DisruptionTarget" && c["status"] == "True");
        if let Some(target) = target {
            let text = |key: &str| target[key].as_str().unwrap_or("");
            return Some(format!(
                "was evicted ({}: {})",
                text("reason"),
                text("message")
            ));
        }
        self.is_leaving().then(|| "was deleted".to_owned())
    }

    /// Its running containers, for the agents.
    pub(super) fn watched(self, sidecar: Option<&str>) -> Vec<WatchedProcess> {
        let role = self.label(ROLE);
        let mut all = Vec::new();
        for container in self.containers() {
            let Some(id) = container.id() else { continue };
            let (plane, name) = match (role, container.name()) {
                ("application", CONTAINER) => (Plane::Application, self.title()),
                ("generator", CONTAINER) => (Plane::Generator, self.title()),
                ("application", other) if Some(other) == sidecar => {
                    (Plane::DataPlane, format!("{}/sidecar", self.title()))
                }
                ("generator", other) => {
                    (Plane::GeneratorProxy, format!("{}/{other}", self.title()))
                }
                ("application", other) => (Plane::DataPlane, format!("{}/{other}", self.title())),
                (_, other) => (Plane::ControlPlane, format!("{}/{other}", self.title())),
            };
            all.push(WatchedProcess {
                name,
                plane,
                pid: 0,
                container: Some(format!("{}/{id}", self.node())),
            });
        }
        all
    }
}

/// One container's state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Container<'a> {
    status: &'a Value,
    init: bool,
}

impl<'a> Container<'a> {
    pub(super) fn name(self) -> &'a str {
        self.status["name"].as_str().unwrap_or("")
    }

    /// Without the runtime's name in front.
    pub(super) fn id(self) -> Option<&'a str> {
        let id = self.status["containerID"].as_str()?;
        self.status["state"]["running"].is_object().then_some(())?;
        id.rsplit("//").next().filter(|id| !id.is_empty())
    }

    pub(super) fn is_ready(self) -> bool {
        self.status["ready"] == true
    }

    pub(super) fn image(self) -> String {
        let text = |key: &str| self.status[key].as_str().unwrap_or("");
        format!("{} {}", text("image"), text("imageID"))
    }

    pub(super) fn restarts(self) -> u64 {
        self.status["restartCount"].as_u64().unwrap_or(0)
    }

    /// How it ended, if it did: reason and exit code.
    pub(super) fn ended(self) -> Option<(String, i64)> {
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
    fn what_keeps_a_pod_from_being_ready_is_the_first_thing_that_waits_for_nothing_else() {
        let waits = |name: &str, reason: &str, message: &str| {
            json!({"name": name,
            "state": {"waiting": {"reason": reason, "message": message}}})
        };
        let of = |init: Value, own: Value| {
            let pod = json!({"status": {"phase": "Pending",
                "initContainerStatuses": init, "containerStatuses": own}});
            Pod(&pod).why_not()
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
    fn containers_have_their_planes_and_initialisers_are_left_out() {
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
        assert!(pod.has("istio-proxy") && !pod.has("linkerd-proxy"));
    }
}
