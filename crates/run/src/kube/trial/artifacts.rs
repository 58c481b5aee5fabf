//! Saves what ran with the trial: images, the sidecar as it was injected, the settings that the
//! control plane serves, the metrics of one proxy. Secrets are left out.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tare_analysis::config::redact::{is_private_key, redact_text, speaks_of_a_secret};
use tare_model::layout;

use super::deployment::Deployment;
use crate::environment::EnvironmentError;
use crate::kube::api::kinds::CONFIG_MAP;
use crate::kube::api::{ApiClient, ApiError};
use crate::kube::mesh;
use crate::kube::objects::Pod;

/// Longest text of a ConfigMap that is saved, in bytes. Longer texts are templates, which are in
/// the charts.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Saves images, settings and metrics in the trial's directory.
pub(crate) async fn save(api: &ApiClient, deployment: &Deployment) -> Result<(), EnvironmentError> {
    let mut images: BTreeMap<String, String> = BTreeMap::new();
    for pod in deployment.pods.iter().map(Pod) {
        for container in pod.containers() {
            let name = format!("{}/{}", pod.title(), container.name());
            images.insert(name, container.image());
        }
    }
    let config = deployment.dir.join(layout::CONFIG);
    let mut cluster = json!({"images": images, "mesh": deployment.section(),
        "node_of_generators": deployment.generator_node});
    let first = deployment.pods.first().map(Pod);
    if let (Some(pod), Some(sidecar)) = (first, deployment.sidecar()) {
        let container = pod.container(sidecar).cloned().unwrap_or_default();
        cluster["sidecar"] = without_secrets(container);
        if let Some(source) = deployment.section().and_then(|s| s.proof.as_ref()) {
            let pod = (pod.namespace(), pod.name());
            if let Ok(text) = api.pod_text(pod, source.port, &source.path).await {
                write(&config.join("first-sidecar-metrics.txt"), &text)?;
            }
        }
    }
    let control_plane = control_plane(api, deployment).await?;
    if !control_plane.is_empty() {
        let text = format!("{:#}\n", Value::from(control_plane));
        write(&config.join("control-plane.json"), &text)?;
    }
    write(&config.join("cluster.json"), &format!("{cluster:#}\n"))
}

/// ConfigMaps of the mesh's own namespaces, by namespace and name: the settings that its control
/// plane makes from the Helm values and sends to the proxies.
async fn control_plane(
    api: &ApiClient,
    deployment: &Deployment,
) -> Result<serde_json::Map<String, Value>, ApiError> {
    let mut saved = serde_json::Map::new();
    let namespaces = deployment.section().map(mesh::namespaces);
    for namespace in namespaces.into_iter().flatten() {
        for map in api.list(CONFIG_MAP, Some(&namespace), "").await? {
            let name = map["metadata"]["name"].as_str().unwrap_or_default();
            let data = map["data"].as_object();
            let texts = data.into_iter().flatten().map(|(key, text)| {
                let text = redacted(key, text.as_str().unwrap_or_default());
                (key.clone(), Value::from(text))
            });
            let texts: serde_json::Map<String, Value> = texts.collect();
            saved.insert(format!("{namespace}/{name}"), texts.into());
        }
    }
    Ok(saved)
}

/// A text of a ConfigMap without secrets, or a note why it is left out.
fn redacted(key: &str, text: &str) -> String {
    if is_private_key(text) || speaks_of_a_secret(key) {
        return "(left out)".to_owned();
    }
    if text.len() > TEXT_BYTES_MAX {
        return format!("({} bytes, left out)", text.len());
    }
    let mut text = text.to_owned();
    redact_text(&mut text);
    text
}

/// Removes the values of environment variables with the name of a secret, and credentials from
/// all texts.
fn without_secrets(mut container: Value) -> Value {
    if let Some(env) = container["env"].as_array_mut() {
        for variable in env {
            if speaks_of_a_secret(variable["name"].as_str().unwrap_or("")) {
                variable["value"] = "(left out)".into();
            }
        }
    }
    redact_texts(&mut container);
    container
}

fn redact_texts(value: &mut Value) {
    match value {
        Value::String(text) => redact_text(text),
        Value::Array(items) => items.iter_mut().for_each(redact_texts),
        Value::Object(fields) => fields.values_mut().for_each(redact_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn write(path: &Path, text: &str) -> Result<(), EnvironmentError> {
    std::fs::write(path, text).map_err(|source| EnvironmentError::Io {
        doing: format!("write {}", path.display()),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_containers_contain_no_secrets() {
        let secrets = ["API_TOKEN", "AUTHORIZATION", "COOKIES", "DB_PASSWD"];
        for name in secrets {
            let saved = without_secrets(json!({"env": [
                {"name": name, "value": "abc"}, {"name": "CONCURRENCY", "value": "2"}]}));
            assert!(!saved.to_string().contains("abc"), "{saved}");
            assert_eq!(saved["env"][1]["value"], "2");
        }
        let saved = without_secrets(
            json!({"args": ["--header", "Authorization: Bearer abcdefgh"],
            "env": [{"name": "HTTPS_PROXY", "value": "http://user:abc@proxy:3128"}]}),
        );
        assert_eq!(saved["args"][1], "Authorization: Bearer [redacted]");
        assert_eq!(
            saved["env"][0]["value"],
            "http://user:[redacted]@proxy:3128"
        );
        assert_eq!(
            redacted("mesh", "proxy: http://u:abc@p"),
            "proxy: http://u:[redacted]@p"
        );
    }

    #[test]
    fn saved_config_maps_contain_no_keys_and_no_long_texts() {
        let pem = "-----BEGIN EC PRIVATE KEY-----\nabc";
        assert_eq!(redacted("values", pem), "(left out)");
        for key in ["pull-secret", "authorization", "credentials.json"] {
            assert_eq!(redacted(key, "abc"), "(left out)");
        }
        assert_eq!(
            redacted("mesh", "enableTracing: false"),
            "enableTracing: false"
        );
        assert!(redacted("template", &"x".repeat(TEXT_BYTES_MAX + 1)).contains("bytes, left out"));
    }
}
