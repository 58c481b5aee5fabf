//! What is saved with a trial of what really ran: images, the sidecar as it was injected,
//! the settings that the control plane serves, metrics of one proxy. Secrets are left out.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tare_analysis::config::redact::{is_private_key, redact_text, speaks_of_a_secret};
use tare_model::layout;

use super::api::{Api, ApiError};
use super::deploy::Deployment;
use super::kinds::CONFIG_MAP;
use super::meshes;
use super::pods::Pod;
use crate::environment::EnvironmentError;

/// Longest text of a ConfigMap that is kept, in bytes: templates are in the charts anyway.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Images, settings and the proxies' own metrics, saved with the trial.
pub(super) async fn keep(api: &Api, deployment: &Deployment) -> Result<(), EnvironmentError> {
    let mut versions: BTreeMap<String, String> = BTreeMap::new();
    for pod in deployment.pods.iter().map(Pod) {
        for container in pod.containers() {
            versions.insert(
                format!("{}/{}", pod.title(), container.name()),
                container.image(),
            );
        }
    }
    let config = deployment.dir.join(layout::CONFIG);
    let mut whole = json!({"images": versions, "mesh": deployment.section(),
        "node_of_generators": deployment.reserved.as_ref().map(|n| &n.name)});
    let first = deployment.pods.first().map(Pod);
    if let (Some(pod), Some(sidecar)) = (first, deployment.sidecar()) {
        whole["sidecar"] = without_secrets(container_of(pod, sidecar));
        if let Some(of) = deployment.section().and_then(|s| s.proof.as_ref()) {
            let path = Api::pod_proxy(pod.namespace(), pod.name(), of.port, &of.path);
            if let Ok(text) = api.text(&path).await {
                write(&config.join("first-sidecar-metrics.txt"), &text)?;
            }
        }
    }
    let control_plane = control_plane(api, deployment).await?;
    if !control_plane.is_empty() {
        let text = format!("{:#}\n", Value::from(control_plane));
        write(&config.join("control-plane.json"), &text)?;
    }
    write(&config.join("cluster.json"), &format!("{whole:#}\n"))
}

fn container_of(pod: Pod<'_>, name: &str) -> Value {
    let of = |list: &str| pod.0["spec"][list].as_array().cloned().unwrap_or_default();
    let mut all = of("containers").into_iter().chain(of("initContainers"));
    all.find(|c| c["name"] == name).unwrap_or_default()
}

/// ConfigMaps of the mesh's own namespaces, by namespace and name: what its control plane
/// makes of the Helm values, and hands to the proxies.
async fn control_plane(
    api: &Api,
    deployment: &Deployment,
) -> Result<serde_json::Map<String, Value>, ApiError> {
    let mut kept = serde_json::Map::new();
    let namespaces = deployment.section().map(meshes::namespaces);
    for namespace in namespaces.into_iter().flatten() {
        for map in api.list(CONFIG_MAP, Some(&namespace), "").await? {
            let name = map["metadata"]["name"].as_str().unwrap_or_default();
            let data = map["data"].as_object();
            let texts = data.into_iter().flatten().map(|(key, text)| {
                let text = shown(key, text.as_str().unwrap_or_default());
                (key.clone(), Value::from(text))
            });
            let texts: serde_json::Map<String, Value> = texts.collect();
            kept.insert(format!("{namespace}/{name}"), texts.into());
        }
    }
    Ok(kept)
}

/// A text of a ConfigMap, or why it is not shown.
fn shown(key: &str, text: &str) -> String {
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

/// A value in the environment whose name speaks of a secret is left out, and credentials
/// in any text.
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
    fn secrets_stay_out_of_what_is_kept() {
        let secrets = ["API_TOKEN", "AUTHORIZATION", "COOKIES", "DB_PASSWD"];
        for name in secrets {
            let kept = without_secrets(json!({"env": [
                {"name": name, "value": "abc"}, {"name": "CONCURRENCY", "value": "2"}]}));
            assert!(!kept.to_string().contains("abc"), "{kept}");
            assert_eq!(kept["env"][1]["value"], "2");
        }
        let kept = without_secrets(
            json!({"args": ["--header", "Authorization: Bearer abcdefgh"],
            "env": [{"name": "HTTPS_PROXY", "value": "http://user:abc@proxy:3128"}]}),
        );
        assert_eq!(kept["args"][1], "Authorization: Bearer [redacted]");
        assert_eq!(kept["env"][0]["value"], "http://user:[redacted]@proxy:3128");
        assert_eq!(
            shown("mesh", "proxy: http://u:abc@p"),
            "proxy: http://u:[redacted]@p"
        );
    }

    #[test]
    fn of_a_config_map_no_key_is_kept_and_nothing_endless() {
        let pem = "-----BEGIN EC PRIVATE KEY-----\nabc";
        assert_eq!(shown("values", pem), "(left out)");
        for key in ["pull-secret", "authorization", "credentials.json"] {
            assert_eq!(shown(key, "abc"), "(left out)");
        }
        assert_eq!(
            shown("mesh", "enableTracing: false"),
            "enableTracing: false"
        );
        assert!(shown("template", &"x".repeat(TEXT_BYTES_MAX + 1)).contains("bytes, left out"));
    }
}
