//! `tare run` on several clusters at once: a complete run on each cluster, at the same time, and a
//! comparison of the clusters at the end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use futures_util::future::join_all;
use indicatif::MultiProgress;
use tare_cluster::{Kubernetes, server};
use tare_files::DOCUMENT_BYTES_MAX;
use tare_plan::EnvironmentKind;
use tare_plan::trial::order;
use tare_records::layout;
use tare_records::summary::clusters::{ClusterRun, ClustersManifest};
use tokio::sync::watch;

use crate::cmd::exit;
use crate::cmd::output::{Output, one_line, print, say};
use crate::cmd::run::ended::{EndedRun, analyse, conclude};
use crate::cmd::run::one::{RunStart, go};
use crate::progress::Display;

/// The directory with a run for each cluster.
pub(crate) struct Clusters {
    dir: PathBuf,
    manifest: ClustersManifest,
}

impl Clusters {
    /// Creates the directory, without sending a request to a cluster.
    pub(crate) fn begin(start: RunStart, contexts: &[String]) -> anyhow::Result<Self> {
        let (dir, plan) = (start.dir, start.plan);
        if plan.environment != EnvironmentKind::Kubernetes {
            bail!("several contexts need the environment kubernetes: add --environment kubernetes");
        }
        let mut clusters: Vec<ClusterRun> = Vec::new();
        let mut servers: BTreeMap<String, &str> = BTreeMap::new();
        for context in contexts {
            let mut settings = plan.kubernetes.as_deref().cloned().unwrap_or_default();
            settings.context = Some(context.clone());
            // Two runs on the same cluster would disturb each other.
            if let Some(same) = servers.insert(server(&settings)?, context) {
                bail!(
                    "found contexts {same} and {context} of the same cluster, expected different clusters"
                );
            }
            let dir = file_name(context);
            if clusters.iter().any(|c| c.dir == dir) {
                bail!(
                    "found two contexts with the directory name {dir}, expected different names: \
                     rename one context"
                );
            }
            clusters.push(ClusterRun {
                context: context.clone(),
                dir,
            });
        }
        let manifest = ClustersManifest {
            schema_version: tare_plan::SCHEMA_VERSION,
            id: start.id,
            started_unix_ns: start.started_unix_ns,
            plan,
            plan_text: start.text,
            clusters,
        };
        let path = dir.join(layout::CLUSTERS);
        if path.exists() || dir.join(layout::RUN).exists() {
            bail!("found a run in {}, expected a new directory", dir.display());
        }
        std::fs::create_dir_all(&dir)
            .and_then(|()| std::fs::write(&path, serde_json::to_vec_pretty(&manifest)?))
            .with_context(|| format!("failed to write {}", path.display()))?;
        Ok(Self { dir, manifest })
    }

    /// Opens a directory; `None` if it is not that of a run on several clusters.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Option<Self>> {
        if dir.is_file() {
            bail!(
                "{} is a file; expected a run directory, as printed by `tare run`",
                dir.display()
            );
        }
        let path = dir.join(layout::CLUSTERS);
        let text = match tare_files::read(&path, DOCUMENT_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("failed to read {}", path.display()));
            }
        };
        let manifest: ClustersManifest =
            serde_json::from_slice(&text).with_context(|| format!("invalid {}", path.display()))?;
        let plain = |dir: &str| dir == file_name(dir);
        if let Some(odd) = manifest.clusters.iter().find(|c| !plain(&c.dir)) {
            bail!(
                "{}: found the directory `{}`, expected a name like `{}`",
                path.display(),
                odd.dir,
                file_name(&odd.dir)
            );
        }
        Ok(Some(Self {
            dir: dir.to_owned(),
            manifest,
        }))
    }

    /// Runs the plan on all clusters. A failure on one of them does not stop the others.
    pub(crate) async fn run(
        &self,
        stop: watch::Receiver<bool>,
    ) -> Vec<anyhow::Result<Option<EndedRun>>> {
        let bars = MultiProgress::new();
        let runs = self.manifest.clusters.iter().map(|cluster| {
            let (stop, bars) = (stop.clone(), &bars);
            async move {
                let start = self.start_of(cluster)?;
                let place = Kubernetes::new(start.id.clone());
                let plan = &start.plan;
                let display = Display::named(plan, &order(plan), bars, &cluster.context);
                go(place, start, stop, None, display).await
            }
        });
        join_all(runs).await
    }

    /// Returns the run of one cluster: a new one, or the interrupted one.
    fn start_of(&self, cluster: &ClusterRun) -> anyhow::Result<RunStart> {
        let dir = self.dir.join(&cluster.dir);
        if dir.join(layout::RUN).exists() {
            return RunStart::resume(&dir);
        }
        let mut plan = self.manifest.plan.clone();
        let settings = plan.kubernetes.get_or_insert_default();
        settings.context = Some(cluster.context.clone());
        Ok(RunStart {
            id: format!("{}-{}", self.manifest.id, cluster.dir),
            started_unix_ns: self.manifest.started_unix_ns,
            plan,
            text: self.manifest.plan_text.clone(),
            dir,
            resumed: None,
            added: None,
            note: None,
            profile: false,
        })
    }

    /// Prints the analysis of each cluster, how its run ended, and the comparison.
    pub(crate) fn conclude(
        &self,
        ended: &[anyhow::Result<Option<EndedRun>>],
        output: Output,
    ) -> anyhow::Result<ExitCode> {
        let mut codes = Vec::new();
        for (cluster, ended) in self.manifest.clusters.iter().zip(ended) {
            let context = &cluster.context;
            if let Ok(Some(done)) = ended
                && output == Output::Text
                && done.any_trials()
            {
                print(format!("=== cluster {context}\n\n"))?;
            }
            codes.push(match ended {
                Ok(Some(done)) => {
                    let output = (output == Output::Text).then_some(output);
                    let analysed = analyse(done, output);
                    // An error on one cluster does not stop the analysis of the others.
                    conclude(done, analysed, &format!("cluster {context}: "))
                        .unwrap_or_else(|error| failed(context, &error))
                }
                Ok(None) => exit::INTERRUPTED,
                Err(error) => failed(context, error),
            });
        }
        self.compare(output)?;
        let mut worst = [exit::INTERRUPTED, exit::INVALID].into_iter();
        let worst = worst.find(|code| codes.contains(code));
        if worst.is_some() {
            let dir = self.dir.display();
            say(format_args!(
                "Resume all clusters with: tare run --resume {dir}"
            ));
        }
        Ok(ExitCode::from(worst.unwrap_or(0)))
    }

    /// Compares the runs on disk, prints the comparison and saves it.
    pub(crate) fn compare(&self, output: Output) -> anyhow::Result<()> {
        let (comparison, missing) = tare_report::write_clusters(&self.dir, &self.manifest)?;
        output.print_styled(&comparison, |colour| {
            let text = tare_report::render_clusters(&comparison, colour);
            let file = self.dir.join(layout::CLUSTERS_TEXT);
            format!(
                "\n=== comparison of the clusters\n\n{text}\ncomparison: {}\n",
                file.display()
            )
        })?;
        for what in missing {
            say(format_args!("tare: {what}"));
        }
        Ok(())
    }
}

/// Prints an error of a cluster; returns the exit code.
fn failed(context: &str, error: &anyhow::Error) -> u8 {
    say(format_args!("tare: cluster {context}: {}", one_line(error)));
    exit::INVALID
}

/// Returns the name of a context in a form that the name of a directory can have.
fn file_name(context: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = context
        .chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect();
    match name.trim_start_matches('.') {
        "" => "cluster".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn contexts_become_directory_names() {
        assert_eq!(file_name("arn:aws:eks/blue"), "arn-aws-eks-blue");
        assert_eq!(file_name("../up"), "-up");
        assert_eq!(file_name(".."), "cluster");
        assert_eq!(file_name("kind-a.b_c"), "kind-a.b_c");
    }
}
