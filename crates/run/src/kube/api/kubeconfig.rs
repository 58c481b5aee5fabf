//! Finds the cluster of a kubeconfig's context.

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tare_model::plan::KubernetesSettings;

use super::client::ApiClient;
use crate::environment::EnvironmentError;

/// Returns the path of the plan's kubeconfig, or TARE_KUBECONFIG. With `None`, the rules of
/// Kubernetes apply (KUBECONFIG, `~/.kube/config`).
pub(crate) fn path(settings: &KubernetesSettings) -> Option<String> {
    let from_env = || std::env::var("TARE_KUBECONFIG").ok();
    let path = settings.kubeconfig.clone();
    path.or_else(|| from_env().filter(|p| !p.is_empty()))
}

fn unusable(what: String) -> EnvironmentError {
    let remedy = "set `kubernetes.kubeconfig`, TARE_KUBECONFIG or KUBECONFIG, and --context";
    EnvironmentError::missing(what, remedy)
}

fn read(settings: &KubernetesSettings) -> Result<Kubeconfig, EnvironmentError> {
    let read = match path(settings) {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    read.map_err(|e| unusable(format!("cannot read the kubeconfig: {e}")))
}

/// Creates a client for the cluster of the settings, without sending a request.
pub(crate) async fn connect(settings: &KubernetesSettings) -> Result<ApiClient, EnvironmentError> {
    let options = KubeConfigOptions {
        context: settings.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(read(settings)?, &options)
        .await
        .map_err(|e| unusable(format!("cannot use the kubeconfig: {e}")))?;
    ApiClient::new(config).map_err(|e| unusable(format!("cannot create a client: {e}")))
}

/// Returns the address of the API server of the settings' context, without sending a request.
///
/// # Errors
/// When the kubeconfig cannot be read, or lacks the context.
pub fn server(settings: &KubernetesSettings) -> Result<String, EnvironmentError> {
    let config = read(settings)?;
    let context = settings.context.as_ref();
    let name = context.or(config.current_context.as_ref());
    let context = config.contexts.iter().find(|c| Some(&c.name) == name);
    let cluster = context.and_then(|c| c.context.as_ref());
    let cluster = cluster.and_then(|c| config.clusters.iter().find(|k| k.name == c.cluster));
    let server = cluster.and_then(|c| c.cluster.as_ref()?.server.clone());
    server.ok_or_else(|| {
        let known: Vec<&str> = config.contexts.iter().map(|c| c.name.as_str()).collect();
        unusable(format!(
            "found no context `{}` with a cluster in the kubeconfig, expected one of: {}",
            name.map_or("", String::as_str),
            known.join(", ")
        ))
    })
}
