//! What the orchestrator does in its pod, beside the run itself.

use std::io;
use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::{DetachedRun, END, Place, end};
use crate::api::kinds::CONFIG_MAP;
use crate::api::{ApiClient, kubeconfig};
use crate::objects::pod_parts::map;
use tare_run::environment::EnvironmentError;

/// Writes a kubeconfig for the service account of a pod, whose token, certificate authority and namespace are in
/// `account`. tare and Helm use it. Kubernetes renews the token, so the kubeconfig has only the path of the token.
///
/// # Errors
/// When a file of the service account is missing, or the kubeconfig cannot be written.
pub fn write_kubeconfig(account: &Path, server: &str, to: &Path) -> io::Result<()> {
    let (token, authority) = (account.join("token"), account.join("ca.crt"));
    for file in [&token, &authority] {
        if let Err(error) = std::fs::metadata(file) {
            let found = format!("{}: {error}", file.display());
            return Err(io::Error::new(error.kind(), found));
        }
    }
    let name = "in-cluster";
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": name, "user": {"tokenFile": token}}]});
    // JSON is valid YAML.
    std::fs::write(to, config.to_string())
}

/// The cluster, as the orchestrator in its pod uses it to record the end of its run.
#[derive(Debug)]
pub struct Inside {
    api: ApiClient,
    place: Place,
}

impl Inside {
    /// Connects to the cluster of the kubeconfig in TARE_KUBECONFIG, without sending a request.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn connect(run: &DetachedRun) -> Result<Self, EnvironmentError> {
        let settings = run.settings();
        Ok(Self {
            api: kubeconfig::connect(&settings).await?,
            place: Place::new(&settings, &run.id),
        })
    }

    /// Returns the exit code with which the run has ended already; `None` if it is to be continued.
    ///
    /// # Errors
    /// When the cluster does not respond.
    pub async fn end(&self) -> Result<Option<u8>, EnvironmentError> {
        Ok(end(&self.api, &self.place).await?)
    }

    /// Records that the run has ended with this exit code.
    ///
    /// # Errors
    /// When the cluster does not respond.
    pub async fn record_end(&self, code: u8) -> Result<(), EnvironmentError> {
        let map = ConfigMap {
            metadata: self.place.named(END),
            data: Some(map("code", &code.to_string())),
            ..ConfigMap::default()
        };
        Ok(self.api.apply(CONFIG_MAP, &map).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::config::Kubeconfig;

    #[test]
    fn the_kubeconfig_of_a_service_account_has_the_paths_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let (account, to) = (dir.path().join("account"), dir.path().join("kubeconfig"));
        std::fs::create_dir(&account).unwrap();
        std::fs::write(account.join("token"), "secret").unwrap();
        let missing = write_kubeconfig(&account, "https://10.96.0.1:443", &to).unwrap_err();
        assert!(missing.to_string().contains("ca.crt"), "{missing}");
        std::fs::write(account.join("ca.crt"), "certificate").unwrap();
        write_kubeconfig(&account, "https://10.96.0.1:443", &to).unwrap();
        let read = Kubeconfig::read_from(&to).unwrap();
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://10.96.0.1:443"));
        let authority = cluster.certificate_authority.as_deref();
        assert_eq!(authority, account.join("ca.crt").to_str());
        let user = read.auth_infos[0].auth_info.as_ref().unwrap();
        assert_eq!(user.token_file.as_deref(), account.join("token").to_str());
        assert!(!std::fs::read_to_string(&to).unwrap().contains("secret"));
    }
}
