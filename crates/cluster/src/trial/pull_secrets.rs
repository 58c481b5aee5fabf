//! Copies the pull secrets of the plan from their namespace into each namespace with pods of tare.
//! The copies are never read or printed.

use k8s_openapi::api::core::v1::Secret;
use tare_plan::KubernetesSettings;

use crate::api::kinds::{PULL_SECRET, SECRET};
use crate::api::{ApiClient, ApiError};
use crate::objects::manifests::named;
use crate::objects::names::Labels;

/// Copies the pull secrets of the settings into `namespaces`, with these labels.
pub(crate) async fn copy(
    api: &ApiClient,
    settings: &KubernetesSettings,
    labels: &Labels,
    namespaces: &[String],
) -> Result<(), ApiError> {
    for name in &settings.image_pull_secrets {
        let secret: Secret = api
            .get(PULL_SECRET, &settings.image_pull_secrets_from, name)
            .await?;
        for namespace in namespaces {
            let copy = copy_of(&secret, name, namespace, labels);
            api.create(SECRET, &copy).await?;
        }
    }
    Ok(())
}

fn copy_of(secret: &Secret, name: &str, namespace: &str, labels: &Labels) -> Secret {
    Secret {
        metadata: named(name, namespace, labels.clone()),
        type_: secret.type_.clone(),
        data: secret.data.clone(),
        ..Secret::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::pod_parts::map;
    use serde_json::json;

    #[test]
    fn a_copy_has_the_data_of_the_secret_and_metadata_of_its_own() {
        let secret = json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="},
            "metadata": {"name": "pull", "namespace": "registry", "uid": "1", "annotations": {"a": "b"}}});
        let labels = map("tare.run/id", "x");
        let read = serde_json::from_value(secret.clone()).unwrap();
        let copy = copy_of(&read, "pull", "tare-x", &labels);
        let copy = serde_json::to_value(copy).unwrap();
        assert_eq!(copy["data"], secret["data"]);
        assert_eq!(copy["type"], secret["type"]);
        assert_eq!(
            copy["metadata"],
            json!({"name": "pull", "namespace": "tare-x", "labels": {"tare.run/id": "x"}})
        );
    }
}
