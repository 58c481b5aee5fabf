//! Records why pods are terminated. The status of an evicted pod shows the reason only until the
//! pod is gone, which may take less than a second, so a watch records it while a trial runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;

use crate::api::ApiClient;
use crate::objects::Pod;

/// Pause before a watch that ended is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// A change of a watch.
#[derive(Deserialize)]
struct Change {
    object: Pod,
}

/// Reasons why pods were terminated, by namespace and name. Clones share one map.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodTerminations(Arc<Mutex<BTreeMap<String, String>>>);

impl PodTerminations {
    /// Records why a pod is being terminated, if it is. The first reason is kept: an eviction
    /// is followed by a deletion.
    pub(crate) fn record(&self, pod: &Pod) {
        if let Some(reason) = pod.termination()
            && let Ok(mut reasons) = self.0.lock()
        {
            reasons.entry(pod.key()).or_insert(reason);
        }
    }

    /// Returns the end of a message, such as `; its pod was evicted (...)`; empty without a reason.
    pub(crate) fn suffix(&self, key: &str) -> String {
        let reasons = self.0.lock().ok();
        let reason = reasons.as_ref().and_then(|r| r.get(key));
        reason.map_or_else(String::new, |reason| format!("; its pod {reason}"))
    }

    /// Watches pods and records their terminations until it is cancelled.
    pub(crate) async fn watch(self, api: ApiClient, selector: String) {
        loop {
            match api.watch_pods(&selector).await {
                Ok(mut lines) => {
                    while let Some(line) = lines.next().await {
                        if let Ok(change) = serde_json::from_str::<Change>(&line) {
                            self.record(&change.object);
                        }
                    }
                }
                // A role printed by an older version lacks this right. The terminations that the
                // periodic checks find are still recorded.
                Err(error) if error.is_forbidden() => return,
                Err(_) => {}
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_reason_of_a_termination_is_kept() {
        let terminations = PodTerminations::default();
        let pod = |value| serde_json::from_value::<Pod>(value).unwrap();
        let evicted = json!({"metadata": {"namespace": "n", "name": "web-1"}, "status": {"conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}]}});
        let deleted =
            json!({"metadata": {"namespace": "n", "name": "web-1", "deletionTimestamp": "now"}});
        let other = json!({"metadata": {"namespace": "n", "name": "api-1"}});
        for value in [other, evicted, deleted] {
            terminations.record(&pod(value));
        }
        assert_eq!(
            terminations.suffix("n/web-1"),
            "; its pod was evicted (EvictionByEvictionAPI: evicting)"
        );
        assert_eq!(terminations.suffix("n/api-1"), "");
    }
}
