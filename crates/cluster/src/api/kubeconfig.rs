//! Finds the cluster of a kubeconfig's context.

use std::io::ErrorKind;
use std::path::PathBuf;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use tare_plan::KubernetesSettings;

use super::client::ApiClient;
use tare_run::environment::EnvironmentError;

/// Returns the path of the plan's kubeconfig, or TARE_KUBECONFIG. With `None`, the rules of
/// Kubernetes apply (KUBECONFIG, `~/.kube/config`).
pub(crate) fn path(settings: &KubernetesSettings) -> Option<String> {
    let from_env = || std::env::var("TARE_KUBECONFIG").ok();
    let path = settings.kubeconfig.clone();
    path.or_else(|| from_env().filter(|p| !p.is_empty()))
}

/// What to do about a kubeconfig that cannot be read or used.
const OTHER_FILE: &str = "set KUBECONFIG or TARE_KUBECONFIG to the path of a kubeconfig";

/// The files that kube reads.
fn files(path: Option<&str>) -> Vec<PathBuf> {
    if let Some(path) = path {
        return vec![path.into()];
    }
    match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list).collect(),
        None => std::env::home_dir()
            .map(|home| home.join(".kube/config"))
            .into_iter()
            .collect(),
    }
}

/// Checks a file before kube reads it, which would wait for a named pipe, and read a device without end.
fn readable(path: PathBuf) -> Result<(), KubeconfigError> {
    match tare_files::check(&path, tare_files::DOCUMENT_BYTES_MAX) {
        // kube has its own words for a missing file.
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(KubeconfigError::ReadConfig(error, path))
        }
        _ => Ok(()),
    }
}

fn read(settings: &KubernetesSettings) -> Result<Kubeconfig, EnvironmentError> {
    let path = path(settings);
    let checked = files(path.as_deref()).into_iter().try_for_each(readable);
    let read = checked.and_then(|()| match path {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    });
    read.map_err(|error| {
        let what = match &error {
            KubeconfigError::ReadConfig(error, path) => {
                format!("failed to read the kubeconfig {}: {error}", path.display())
            }
            error => format!("failed to read the kubeconfig: {error}"),
        };
        EnvironmentError::missing(what, OTHER_FILE)
    })
}

/// Creates a client for the cluster of the settings, without sending a request.
pub(crate) async fn connect(settings: &KubernetesSettings) -> Result<ApiClient, EnvironmentError> {
    let kubeconfig = read(settings)?;
    let (context, server) = selected(&kubeconfig, settings)?;
    let options = KubeConfigOptions {
        context: Some(context.clone()),
        ..KubeConfigOptions::default()
    };
    let unusable = |found: String| {
        EnvironmentError::missing(format!("cannot use the kubeconfig: {found}"), OTHER_FILE)
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|e| unusable(e.to_string()))?;
    ApiClient::new(config, server, context).map_err(|e| unusable(e.to_string()))
}

/// Returns the address of the API server of the settings' context, without sending a request.
///
/// # Errors
/// When the kubeconfig cannot be read, or lacks the context.
pub fn server(settings: &KubernetesSettings) -> Result<String, EnvironmentError> {
    selected(&read(settings)?, settings).map(|(_, server)| server)
}

/// Returns the name of the settings' context, or of the current one, and the address of its server.
fn selected(
    config: &Kubeconfig,
    settings: &KubernetesSettings,
) -> Result<(String, String), EnvironmentError> {
    let context = settings.context.as_ref();
    let name = context.or(config.current_context.as_ref());
    let context = config.contexts.iter().find(|c| Some(&c.name) == name);
    let cluster = context.and_then(|c| c.context.as_ref());
    let cluster = cluster.and_then(|c| config.clusters.iter().find(|k| k.name == c.cluster));
    let server = cluster.and_then(|c| c.cluster.as_ref()?.server.clone());
    name.cloned().zip(server).ok_or_else(|| {
        let known: Vec<&str> = config.contexts.iter().map(|c| c.name.as_str()).collect();
        let what = match name {
            None => "the kubeconfig has no current context".to_owned(),
            Some(name) => format!("the kubeconfig has no context `{name}` with a cluster"),
        };
        let remedy = match known.as_slice() {
            [] => OTHER_FILE.to_owned(),
            known => format!(
                "expected --context, or `kubernetes.context` of a plan, with one of: {}",
                known.join(", ")
            ),
        };
        EnvironmentError::missing(what, remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, context: Option<&str>) -> String {
        let settings = KubernetesSettings {
            context: context.map(str::to_owned),
            ..KubernetesSettings::default()
        };
        let config = Kubeconfig::from_yaml(text).unwrap();
        selected(&config, &settings).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_context_is_named_with_those_that_exist() {
        let text = "contexts:\n- {name: a, context: {cluster: k, user: u}}\n- {name: b}\n";
        assert_eq!(
            error(text, Some("nope")),
            "the kubeconfig has no context `nope` with a cluster; expected --context, or `kubernetes.context` of a plan, with one of: a, b"
        );
        assert_eq!(
            error(text, None),
            "the kubeconfig has no current context; expected --context, or `kubernetes.context` of a plan, with one of: a, b"
        );
        assert!(error("contexts: []", Some("a")).ends_with(OTHER_FILE));
    }
}
