//! Copies the pull secrets of the plan from their namespace into each namespace with pods of tare.
//! The copies are never read or printed.

use serde_json::{Value, json};
use tare_plan::KubernetesSettings;

use crate::api::kinds::{PULL_SECRET, SECRET};
use crate::api::{ApiClient, ApiError};

/// Copies the pull secrets of the settings into `namespaces`, with these labels.
pub(crate) async fn copy(
    api: &ApiClient,
    settings: &KubernetesSettings,
    labels: &Value,
    namespaces: &[String],
) -> Result<(), ApiError> {
    for name in &settings.image_pull_secrets {
        let secret = api
            .get(PULL_SECRET, &settings.image_pull_secrets_from, name)
            .await?;
        for namespace in namespaces {
            let copy = copy_of(&secret, name, namespace, labels);
            api.create(SECRET, &copy).await?;
        }
    }
    Ok(())
}

fn copy_of(secret: &Value, name: &str, namespace: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": secret["type"],
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": secret["data"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_data_of_the_secret_and_metadata_of_its_own() {
        let secret = json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="},
            "metadata": {"name": "pull", "namespace": "registry", "uid": "1", "annotations": {"a": "b"}}});
        let copy = copy_of(&secret, "pull", "tare-x", &json!({"tare.run/id": "x"}));
        assert_eq!(copy["data"], secret["data"]);
        assert_eq!(copy["type"], secret["type"]);
        assert_eq!(
            copy["metadata"],
            json!({"name": "pull", "namespace": "tare-x", "labels": {"tare.run/id": "x"}})
        );
    }
}
