//! Flags that select clusters and their settings.

pub(super) mod attach;
pub(super) mod clean;
pub(super) mod clusters;
pub(super) mod detached;
pub(super) mod doctor;
pub(super) mod fetch;
pub(super) mod image;
pub(super) mod node_check;
pub(super) mod observe;
pub(super) mod plan_cluster;
pub(super) mod watch;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tare_files::DOCUMENT_BYTES_MAX;
use tare_plan::mesh;
use tare_plan::{EnvironmentKind, KubernetesSettings, Plan};

/// Flags that select clusters and their settings.
#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Context of the kubeconfig, for the environment kubernetes [default: the current one]. `tare run`, `tare doctor` and
    /// `tare clean` accept several: repeat it.
    #[arg(long)]
    context: Vec<String>,
    /// YAML file with the settings of a cluster: keys of a plan's `kubernetes` section, merged over
    /// those of the plan [default: the file in TARE_CLUSTER].
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
}

impl Flags {
    /// Flags with these values.
    pub(crate) fn new(context: Vec<String>, cluster: Option<PathBuf>) -> Self {
        Self { context, cluster }
    }

    /// Returns the contexts on the command line.
    pub(crate) fn contexts(&self) -> &[String] {
        &self.context
    }

    /// Applies the flags to a plan. With several contexts, none of them is applied.
    pub(crate) fn apply(&self, plan: &mut Plan) -> anyhow::Result<()> {
        if plan.environment != EnvironmentKind::Kubernetes {
            if !self.context.is_empty() || self.cluster.is_some() {
                bail!(
                    "--context and --cluster need the environment kubernetes: add --environment kubernetes"
                );
            }
            return Ok(());
        }
        let settings = plan.kubernetes.as_deref().cloned().unwrap_or_default();
        let before = settings.meshes.clone();
        let settings = self.over(settings)?;
        for mesh in &mut plan.meshes {
            // The plan's own overlays are applied already.
            let added = KubernetesSettings {
                meshes: settings
                    .meshes
                    .iter()
                    .filter(|(name, overlay)| before.get(*name) != Some(overlay))
                    .map(|(name, overlay)| (name.clone(), overlay.clone()))
                    .collect(),
                ..KubernetesSettings::default()
            };
            let name = mesh.name.clone();
            let place = || format!("mesh {name} with the overlay of the cluster");
            added.apply(mesh).with_context(place)?;
        }
        plan.kubernetes = Some(Box::new(settings));
        if let Some(bytes) = plan.excess_body_bytes() {
            bail!(
                "with the settings of the cluster, request bodies take {bytes} bytes (endpoints x instances x generators), \
                 expected at most {}: lower `request_bytes` of the mix, or the number of instances or generators",
                Plan::BODY_BYTES_MAX
            );
        }
        Ok(())
    }

    /// Returns the settings of each cluster, without a plan; at least one.
    pub(crate) fn settings(&self) -> anyhow::Result<Vec<KubernetesSettings>> {
        Ok(self.each(&self.over(KubernetesSettings::default())?))
    }

    /// Returns the settings of the only cluster, without a plan.
    pub(crate) fn one(&self) -> anyhow::Result<KubernetesSettings> {
        if self.context.len() > 1 {
            bail!("found {} contexts, expected one", self.context.len());
        }
        self.over(KubernetesSettings::default())
    }

    /// Returns the settings once for each context.
    pub(crate) fn each(&self, settings: &KubernetesSettings) -> Vec<KubernetesSettings> {
        if self.context.is_empty() {
            return vec![settings.clone()];
        }
        let with = |context: &String| KubernetesSettings {
            context: Some(context.clone()),
            ..settings.clone()
        };
        self.context.iter().map(with).collect()
    }

    fn over(&self, settings: KubernetesSettings) -> anyhow::Result<KubernetesSettings> {
        let from_env = || {
            std::env::var_os("TARE_CLUSTER")
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let mut settings = match self.cluster.clone().or_else(from_env) {
            None => settings,
            Some(path) => merged(&settings, &path)
                .with_context(|| format!("cluster file {}", path.display()))?,
        };
        if let [context] = self.context.as_slice() {
            settings.context = Some(context.clone());
        }
        Ok(settings)
    }
}

fn merged(settings: &KubernetesSettings, path: &Path) -> anyhow::Result<KubernetesSettings> {
    let text = tare_files::read_text(path, DOCUMENT_BYTES_MAX)?;
    let overlay = tare_plan::yaml_to_json(&path.display().to_string(), &text)
        .map_err(|problems| anyhow::anyhow!("{problems}"))?;
    let mut whole = serde_json::to_value(settings)?;
    mesh::merge(&mut whole, &overlay);
    // A null in an overlay of a mesh removes a chart's default, so it must not remove the key here.
    if let Some(meshes) = overlay.get("meshes") {
        whole["meshes"] = meshes.clone();
    }
    let settings: KubernetesSettings = serde_json::from_value(whole)
        .map_err(|e| anyhow::anyhow!(e.to_string().replace("unknown field", "unknown key")))?;
    settings.check()?;
    Ok(settings)
}
