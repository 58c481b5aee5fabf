//! Pods of the user's application that will not become ready.

use super::pod::{ContainerStatus, Pod};

/// Reasons of containers that wait and will not start by themselves.
///
/// Source: kubelet, pkg/kubelet/images/types.go and pkg/kubelet/kuberuntime/kuberuntime_container.go.
const WILL_NOT_START: [&str; 8] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "PreCreateHookError",
];
const KEEPS_ENDING: &str = "CrashLoopBackOff";
/// Restarts after which a container counts as one that keeps ending. A service often ends once or twice until the services
/// that it needs have started.
const RESTARTS_MAX: u64 = 2;

impl Pod {
    /// Returns the first of its own containers that will not start or keeps ending, with the reason; any container whose
    /// image is missing; or of a failed pod the reason alone.
    pub(crate) fn failure(&self) -> Option<(Option<&str>, String)> {
        if self.phase() == "Failed" {
            return Some((None, self.not_ready_reason()));
        }
        let init = self.status.init_container_statuses.iter();
        let mut all = init.chain(&self.status.container_statuses);
        all.find_map(|container| {
            let name = container.name();
            let waiting = container.state.waiting.as_ref()?;
            let reason = waiting.reason.as_deref()?;
            if !self.is_own(name) && !reason.contains("Image") {
                return None;
            }
            let found = if WILL_NOT_START.contains(&reason) {
                format!("{name}: {reason} {}", waiting.message)
            } else if reason == KEEPS_ENDING && container.restarts() >= RESTARTS_MAX {
                let ended = container.ended();
                let ended = ended.map_or_else(String::new, |(reason, code)| {
                    format!(": {reason}, exit code {code}")
                });
                format!("{name} keeps ending ({KEEPS_ENDING}){ended}")
            } else {
                return None;
            };
            Some((Some(name), found.trim_end().to_owned()))
        })
    }

    /// The first of its own containers that is not ready.
    pub(crate) fn unready(&self) -> Option<&str> {
        let statuses = self.status.container_statuses.iter();
        let mut names = statuses
            .filter(|s| !s.is_ready())
            .map(ContainerStatus::name);
        names.find(|name| self.is_own(name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::OWN_CONTAINERS;
    use super::*;
    use serde_json::{Value, json};

    fn failure(statuses: Value) -> Option<String> {
        let pod = json!({"metadata": {"annotations": {OWN_CONTAINERS: "web"}},
            "status": {"phase": "Pending", "containerStatuses": statuses}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        pod.failure().map(|(_, found)| found)
    }

    fn waits(name: &str, reason: &str, restarts: u64) -> Value {
        json!({"name": name, "restartCount": restarts,
            "state": {"waiting": {"reason": reason, "message": "because"}},
            "lastState": {"terminated": {"reason": "Error", "exitCode": 2}}})
    }

    #[test]
    fn a_container_may_end_twice_until_others_have_started() {
        assert_eq!(failure(json!([waits("web", "CrashLoopBackOff", 1)])), None);
        let third = failure(json!([waits("web", "CrashLoopBackOff", 2)]));
        let expected = "web keeps ending (CrashLoopBackOff): Error, exit code 2";
        assert_eq!(third.as_deref(), Some(expected));
    }

    #[test]
    fn a_missing_image_is_a_failure_at_once_also_of_a_sidecar() {
        let missing = |name| failure(json!([waits(name, "ErrImagePull", 0)]));
        assert_eq!(missing("web").as_deref(), Some("web: ErrImagePull because"));
        assert!(missing("istio-proxy").is_some());
        assert_eq!(
            failure(json!([waits("istio-proxy", "CrashLoopBackOff", 5)])),
            None
        );
        assert_eq!(failure(json!([waits("web", "ContainerCreating", 0)])), None);
    }
}
