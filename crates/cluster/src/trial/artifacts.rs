//! Saves in the trial's directory what ran: images, the injected sidecar, the settings that the
//! control plane serves, and the metrics of one proxy. Only settings on an allow-list are saved.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tare_analysis::proxy_config::settings_of;
use tare_plan::mesh::MeshKubernetes;
use tare_records::layout;
use tare_records::probe::{ProbeRequest, ProbeResult};
use tare_records::record::ProxySettings;

use super::deployment::Deployment;
use super::probe;
use super::prove::STATISTICS_WITHIN;
use crate::api::kinds::{CONFIG_MAP, POD};
use crate::api::{ApiClient, ApiError};
use tare_run::environment::EnvironmentError;

/// Maximum size of the saved metrics of a sidecar.
const METRICS_BYTES_MAX: usize = 1 << 20;

/// Returns the request for the metrics of the first sidecar, which [`save`] saves; `None` without a sidecar that serves
/// metrics.
pub(super) fn metrics_request(deployment: &Deployment) -> Option<ProbeRequest> {
    deployment.sidecar()?;
    let source = deployment.section()?.proof.as_ref()?;
    let address = deployment.pods.first()?.address(source.port)?;
    let (host, path) = (address.clone(), &source.path);
    let request = probe::get(address, host, path, STATISTICS_WITHIN, METRICS_BYTES_MAX);
    Some(request)
}

/// Saves images, settings and the metrics of the first sidecar in the trial's directory.
pub(super) async fn save(
    api: &ApiClient,
    deployment: &Deployment,
    metrics: Option<ProbeResult>,
) -> Result<(), EnvironmentError> {
    let mut images: BTreeMap<String, String> = BTreeMap::new();
    for pod in &deployment.pods {
        for container in pod.containers() {
            let name = format!("{}/{}", pod.title(), container.name());
            images.insert(name, container.image());
        }
    }
    let config = deployment.dir.join(layout::CONFIG);
    let mut cluster = json!({"images": images, "mesh": deployment.section(),
        "nodes_of_generators": deployment.generator_nodes});
    if let Some(application) = &deployment.application {
        let changes = application.changes.iter();
        let changes: Vec<String> = changes.map(|(of, what)| format!("{of}: {what}")).collect();
        cluster["application"] = json!({"digest": application.digest,
            "objects": application.titles(), "changes": changes});
    }
    let first = deployment.pods.first();
    if let (Some(pod), Some(sidecar)) = (first, deployment.sidecar()) {
        // All settings of the container that the mesh injected are saved, but `Pod` has a few fields only. A pod that was
        // replaced meanwhile has none to save.
        let pod = match api.get(POD, pod.namespace(), pod.name()).await {
            Err(error) if error.is_not_found() => Value::Null,
            pod => pod?,
        };
        let all = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
        let mut all = all.into_iter().flatten().flatten();
        let container = all.find(|c| c["name"] == sidecar).cloned();
        cluster["sidecar"] = json!(settings_of("sidecar", &container.unwrap_or_default()));
    }
    if let Some(Ok(answer)) = metrics
        && (200..300).contains(&answer.status)
    {
        let mut text = answer.body;
        if answer.is_cut {
            text += &format!("\n# cut after {METRICS_BYTES_MAX} bytes\n");
        }
        write(&config.join("first-sidecar-metrics.txt"), &text)?;
    }
    let control_plane = control_plane(api, deployment).await?;
    if !control_plane.is_empty() {
        let text = format!("{:#}\n", json!(control_plane));
        write(&config.join("control-plane.json"), &text)?;
    }
    write(&config.join("cluster.json"), &format!("{cluster:#}\n"))
}

/// Returns the settings to save from the ConfigMaps in the mesh's own namespaces, by namespace and
/// name: its control plane makes them from the Helm values and sends them to the proxies.
async fn control_plane(
    api: &ApiClient,
    deployment: &Deployment,
) -> Result<BTreeMap<String, BTreeMap<String, ProxySettings>>, ApiError> {
    let mut saved = BTreeMap::new();
    let namespaces = deployment.section().map(MeshKubernetes::namespace_names);
    for namespace in namespaces.into_iter().flatten() {
        let maps: Vec<ConfigMap> = api.list(CONFIG_MAP, Some(&namespace), "").await?;
        for map in maps {
            let name = map.metadata.name.as_deref().unwrap_or_default();
            saved.insert(format!("{namespace}/{name}"), config_map(&map));
        }
    }
    Ok(saved)
}

/// Returns the settings to save from a ConfigMap. Of a text that is not YAML, only the hash is
/// saved.
fn config_map(map: &ConfigMap) -> BTreeMap<String, ProxySettings> {
    let texts = map.data.iter().flatten().map(|(key, text)| {
        let yaml = serde_saphyr::from_str(text);
        let yaml = yaml.unwrap_or_else(|_| text.as_str().into());
        (key.clone(), settings_of(key, &yaml))
    });
    texts.collect()
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
    fn only_known_settings_of_a_config_map_are_saved() {
        let map = json!({"data": {"mesh": "enableAutoMtls: true\nproxy: http://u:hush@p\n",
            "broken": "{{ hush", "key": "-----BEGIN EC PRIVATE KEY-----\nhush"}});
        let config_map = |map| config_map(&serde_json::from_value(map).unwrap());
        let kept = config_map(map);
        assert_eq!(kept["mesh"].settings["enableAutoMtls"]["true"], 1);
        let names: Vec<&str> = kept.keys().map(String::as_str).collect();
        assert_eq!(names, ["broken", "key", "mesh"]);
        assert!(!format!("{kept:?}").contains("hush"), "{kept:?}");
        let other = json!({"data": {"broken": "{{ hush 2"}});
        assert_ne!(config_map(other)["broken"].sha256, kept["broken"].sha256);
    }
}
