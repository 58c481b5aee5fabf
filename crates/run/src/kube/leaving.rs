//! Why pods go. A pod that is evicted says so for as long as it takes to end, which may be
//! less than a second: its changes are watched for while a trial runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::api::Api;
use super::kinds::POD;
use super::pods::Pod;

/// Between two streams of changes.
const AGAIN: Duration = Duration::from_secs(1);

/// What pods told of their going, by namespace and name.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaving(Arc<Mutex<BTreeMap<String, String>>>);

impl Leaving {
    /// Takes what a pod tells; the first that it told is why it goes.
    pub(super) fn note(&self, pod: Pod<'_>) {
        if let Some(why) = pod.leaving()
            && let Ok(mut known) = self.0.lock()
        {
            known.entry(pod.key()).or_insert(why);
        }
    }

    /// For the end of a message: `; its pod was evicted (...)`. Empty where it told nothing.
    pub(super) fn why(&self, key: &str) -> String {
        let known = self.0.lock().ok();
        let why = known.as_ref().and_then(|k| k.get(key));
        why.map_or_else(String::new, |why| format!("; its pod {why}"))
    }
}

/// Hears of changes of pods for as long as it is let.
pub(super) async fn hear(api: Api, selector: String, leaving: Leaving) {
    loop {
        match api.watch(POD, &selector).await {
            Ok(mut lines) => {
                while let Some(line) = lines.next().await {
                    let change: Value = serde_json::from_str(&line).unwrap_or_default();
                    leaving.note(Pod(&change["object"]));
                }
            }
            // With a role of before: then only what is seen in passing is known.
            Err(error) if error.is_forbidden() => return,
            Err(_) => {}
        }
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_reason_that_a_pod_tells_is_kept() {
        let leaving = Leaving::default();
        let evicted = json!({"metadata": {"namespace": "n", "name": "web-1"}, "status": {"conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}]}});
        let deleted =
            json!({"metadata": {"namespace": "n", "name": "web-1", "deletionTimestamp": "now"}});
        leaving.note(Pod(
            &json!({"metadata": {"namespace": "n", "name": "api-1"}}),
        ));
        leaving.note(Pod(&evicted));
        leaving.note(Pod(&deleted));
        assert_eq!(
            leaving.why("n/web-1"),
            "; its pod was evicted (EvictionByEvictionAPI: evicting)"
        );
        assert_eq!(leaving.why("n/api-1"), "");
    }
}
