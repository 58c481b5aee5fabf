//! Pull secrets of the plan: read from one namespace, written into each of a trial's,
//! never read again and never shown.

use serde_json::{Value, json};
use tare_model::plan::KubernetesSettings;

use super::api::{Api, ApiError};
use super::kinds::{PULL_SECRET, SECRET};
use super::names::TrialNames;

/// Copies the pull secrets of the settings into `namespaces`.
pub(super) async fn copy(
    api: &Api,
    settings: &KubernetesSettings,
    names: &TrialNames,
    namespaces: &[String],
) -> Result<(), ApiError> {
    for name in &settings.image_pull_secrets {
        let secret = api
            .get(PULL_SECRET, &settings.image_pull_secrets_from, name)
            .await?;
        for namespace in namespaces {
            let copy = copied(&secret, name, namespace, names.labels());
            api.create(SECRET, &copy).await?;
        }
    }
    Ok(())
}

fn copied(secret: &Value, name: &str, namespace: &str, labels: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": secret["type"],
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": secret["data"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_data_and_nothing_of_the_originals_metadata() {
        let secret = json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="},
            "metadata": {"name": "pull", "namespace": "registry", "uid": "1", "annotations": {"a": "b"}}});
        let copy = copied(&secret, "pull", "tare-x", json!({"tare.run/id": "x"}));
        assert_eq!(copy["data"], secret["data"]);
        assert_eq!(copy["type"], secret["type"]);
        assert_eq!(
            copy["metadata"],
            json!({"name": "pull", "namespace": "tare-x", "labels": {"tare.run/id": "x"}})
        );
    }
}
