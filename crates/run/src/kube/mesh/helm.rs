//! Runs Helm. Values go through its standard input, because they contain keys, which must be
//! neither on disk nor on a command line.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tare_model::graph::Chart;
use tare_model::mesh::HelmRelease;
use tare_model::plan::KubernetesSettings;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::Instant;

use crate::environment::EnvironmentError;
use crate::image::sha256;
use crate::kube::api::kubeconfig;
use crate::now::unix_ns;

/// Maximum length of the part of Helm's output in a message, in bytes.
const OUTPUT_MAX: usize = 600;

/// The program Helm and the cluster that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Helm {
    program: PathBuf,
    kubeconfig: Option<String>,
    context: Option<String>,
    /// Folder with charts of [`Helm::pack`], which are used instead of their repositories.
    charts: Option<PathBuf>,
}

impl Helm {
    /// Uses the program TARE_HELM, or `helm` on PATH, for the cluster of the settings.
    pub(crate) fn new(settings: &KubernetesSettings) -> Self {
        let program = std::env::var_os("TARE_HELM").map_or_else(|| "helm".into(), PathBuf::from);
        Self {
            program,
            kubeconfig: kubeconfig::path(settings),
            context: settings.context.clone(),
            charts: std::env::var_os("TARE_CHARTS").map(PathBuf::from),
        }
    }

    /// Returns Helm's version.
    pub(crate) async fn version(&self) -> Result<String, EnvironmentError> {
        let output = self.run(&["version", "--short"], None, None).await;
        output.map(|v| v.trim().to_owned())
    }

    /// Returns the chart of a release as an archive. A chart in a repository is downloaded.
    pub(crate) async fn pack(&self, release: &HelmRelease) -> Result<Vec<u8>, EnvironmentError> {
        let name = format!("helm pull {}", release.name);
        let chart = Path::new(&release.chart);
        let failed = |e: std::io::Error| EnvironmentError::start(name.as_str(), e);
        if release.repo.is_none() && chart.is_file() {
            return std::fs::read(chart).map_err(failed);
        }
        let folder = format!("tare-charts-{}-{}", std::process::id(), unix_ns());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir(&folder).map_err(failed)?;
        let to = folder.display().to_string();
        let is_folder = release.repo.is_none() && chart.is_dir();
        let verb = if is_folder { "package" } else { "pull" };
        let mut arguments = vec![verb, release.chart.as_str(), "--destination", &to];
        let options = [("--repo", &release.repo), ("--version", &release.version)];
        for (option, value) in options.into_iter().filter(|_| !is_folder) {
            arguments.extend(value.iter().flat_map(|value| [option, value]));
        }
        let packed = self.run(&arguments, None, None).await;
        let packed = packed.and_then(|_| only_file(&folder).map_err(failed));
        let _ = std::fs::remove_dir_all(&folder);
        packed
    }

    /// Name of the file with the packed chart of a release, in the folder of TARE_CHARTS.
    pub(crate) fn archive(release: &HelmRelease) -> String {
        let key = format!(
            "{}\n{:?}\n{:?}",
            release.chart, release.repo, release.version
        );
        let digest = sha256(key.as_bytes());
        format!("{}.tgz", &digest[digest.len() - 16..])
    }

    /// Path of the packed chart of a release, if there is one.
    fn packed(&self, release: &HelmRelease) -> Option<String> {
        let path = self.charts.as_ref()?.join(Self::archive(release));
        path.is_file().then(|| path.display().to_string())
    }

    /// Installs or upgrades a release.
    pub(crate) async fn install(
        &self,
        release: &HelmRelease,
        values: &Value,
        logs: &Path,
    ) -> Result<(), EnvironmentError> {
        let packed = self.packed(release);
        let arguments = arguments(&["upgrade", "--install"], release, packed.as_deref());
        let log = logs.join(format!("helm-{}.log", release.name));
        let values = serde_json::to_vec(values).unwrap_or_default();
        self.run(&arguments, Some(&values), Some(&log))
            .await
            .map(drop)
    }

    /// Renders the objects of a release, with its custom resource definitions, for a version of Kubernetes; without
    /// one, for that which Helm assumes.
    pub(crate) async fn render(
        &self,
        release: &HelmRelease,
        values: &Value,
        kubernetes: Option<&str>,
    ) -> Result<Vec<Value>, EnvironmentError> {
        let packed = self.packed(release);
        let mut arguments = arguments(&["template"], release, packed.as_deref());
        arguments.extend(["--include-crds", "--skip-tests"]);
        arguments.extend(
            kubernetes
                .iter()
                .flat_map(|version| ["--kube-version", version]),
        );
        let values = serde_json::to_vec(values).unwrap_or_default();
        let text = self.run(&arguments, Some(&values), None).await?;
        let name = format!("helm template {}", release.name);
        documents(&text).map_err(|found| EnvironmentError::start(name, found))
    }

    /// Renders the objects of a user's chart as a release and a namespace of this name, without its tests.
    pub(crate) async fn render_chart(
        &self,
        chart: &Chart,
        name: &str,
    ) -> Result<Vec<Value>, EnvironmentError> {
        let mut arguments = vec!["template", name, &chart.chart, "--namespace", name];
        arguments.extend(["--include-crds", "--skip-tests"]);
        for file in &chart.values_files {
            arguments.extend(["--values", file]);
        }
        arguments.extend(["--values", "-"]);
        for (option, value) in [("--repo", &chart.repo), ("--version", &chart.version)] {
            arguments.extend(value.iter().flat_map(|value| [option, value]));
        }
        let values = serde_json::to_vec(&chart.values).unwrap_or_default();
        let text = self.run(&arguments, Some(&values), None).await?;
        let name = format!("helm template {name}");
        documents(&text).map_err(|found| EnvironmentError::start(name, found))
    }

    /// Uninstalls a release. Succeeds if the release does not exist.
    pub(crate) async fn uninstall(
        &self,
        name: &str,
        namespace: &str,
    ) -> Result<(), EnvironmentError> {
        let arguments = [
            "uninstall",
            name,
            "--namespace",
            namespace,
            "--ignore-not-found",
            "--timeout",
            "60s",
        ];
        self.run(&arguments, None, None).await.map(drop)
    }

    async fn run(
        &self,
        arguments: &[&str],
        stdin: Option<&[u8]>,
        log: Option<&Path>,
    ) -> Result<String, EnvironmentError> {
        let failed = |e| EnvironmentError::io(format!("run {}", self.program.display()))(e);
        let mut command = Command::new(&self.program);
        command.args(arguments).kill_on_drop(true);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(path) = &self.kubeconfig {
            command.arg("--kubeconfig").arg(path);
        }
        if let Some(context) = &self.context {
            command.arg("--kube-context").arg(context);
        }
        let start = Instant::now();
        let mut child = command.spawn().map_err(|error| {
            let what = format!("failed to run Helm ({}): {error}", self.program.display());
            let remedy = match self.charts {
                Some(_) => "add Helm to the image of tare with `tare image --with-helm FILE`",
                None => "install Helm 3.14 or later on the PATH, or set TARE_HELM to its path",
            };
            EnvironmentError::missing(what, remedy)
        })?;
        if let Some(mut pipe) = child.stdin.take() {
            // If Helm ends early, its status below is the error.
            let _ = pipe.write_all(stdin.unwrap_or_default()).await;
        }
        let output = child.wait_with_output().await.map_err(failed)?;
        let (status, elapsed) = (output.status, start.elapsed());
        // The remaining arguments may contain a repository's credentials.
        let command = arguments[..arguments.len().min(3)].join(" ");
        tracing::debug!(command, %status, ?elapsed, "helm");
        let errors = String::from_utf8_lossy(&output.stderr);
        if let Some(log) = log {
            let _ = std::fs::write(log, errors.as_bytes());
        }
        if status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let (name, found) = (format!("helm {command}"), tail(errors.trim()));
        Err(EnvironmentError::start(name, found))
    }
}

/// Returns the end of a program's output, for a message.
pub(crate) fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(OUTPUT_MAX);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// Reads manifests as kubectl and Helm do: octal numbers follow YAML 1.1, and the last one of duplicate keys wins.
/// Messages have no excerpts, because manifests may contain secrets.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|e| e.to_string())
}

fn only_file(folder: &Path) -> std::io::Result<Vec<u8>> {
    let entry = std::fs::read_dir(folder)?.next();
    std::fs::read(entry.ok_or(std::io::ErrorKind::NotFound)??.path())
}

/// Arguments for a release, with its packed chart if there is one.
fn arguments<'a>(
    command: &[&'a str],
    release: &'a HelmRelease,
    packed: Option<&'a str>,
) -> Vec<&'a str> {
    let mut all = command.to_vec();
    all.extend([release.name.as_str(), packed.unwrap_or(&release.chart)]);
    all.extend(["--namespace", &release.namespace, "--values", "-"]);
    if packed.is_some() {
        return all;
    }
    if let Some(repo) = &release.repo {
        all.extend(["--repo", repo]);
    }
    if let Some(version) = &release.version {
        all.extend(["--version", version]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_command_line_has_repository_and_version_but_no_values() {
        let release = HelmRelease {
            name: "istiod".into(),
            chart: "istiod".into(),
            repo: Some("https://charts.example".into()),
            version: Some("1.2.3".into()),
            namespace: "istio-system".into(),
        };
        assert_eq!(
            arguments(&["upgrade", "--install"], &release, None).join(" "),
            "upgrade --install istiod istiod --namespace istio-system --values - \
             --repo https://charts.example --version 1.2.3"
        );
        assert_eq!(
            arguments(&["template"], &release, Some("/charts/a.tgz")).join(" "),
            "template istiod /charts/a.tgz --namespace istio-system --values -"
        );
        let local = HelmRelease {
            repo: None,
            version: None,
            chart: "/charts/istiod".into(),
            ..release
        };
        assert!(
            arguments(&["template"], &local, None)
                .join(" ")
                .ends_with("--values -")
        );
    }

    /// A script in place of Helm, which writes its arguments into the folder after `--destination`.
    fn stub(dir: &Path) -> Helm {
        let program = dir.join("helm");
        // Another process writes it: while this one has it open, it could not be executed.
        let script =
            r##"printf '#!/bin/sh\necho "$@" > "$4/chart-1.tgz"\n' > helm && chmod 755 helm"##;
        let written = std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(dir)
            .status();
        assert!(written.unwrap().success());
        Helm {
            program,
            charts: Some(dir.to_owned()),
            ..Helm::new(&KubernetesSettings::default())
        }
    }

    #[tokio::test]
    async fn a_chart_is_packed_once_and_found_again_by_its_origin() {
        let dir = tempfile::tempdir().unwrap();
        let helm = stub(dir.path());
        let release = HelmRelease {
            name: "istiod".into(),
            chart: "istiod".into(),
            repo: Some("https://charts.example".into()),
            version: Some("1.2.3".into()),
            namespace: "istio-system".into(),
        };
        let (file, archive) = (Helm::archive(&release), helm.pack(&release).await.unwrap());
        let asked = String::from_utf8(archive.clone()).unwrap();
        assert!(asked.starts_with("pull istiod --destination "), "{asked}");
        let origin = "--repo https://charts.example --version 1.2.3";
        assert!(asked.contains(origin), "{asked}");
        assert_eq!(helm.packed(&release), None);
        std::fs::write(dir.path().join(&file), archive).unwrap();
        let path = dir.path().join(&file).display().to_string();
        assert_eq!(helm.packed(&release), Some(path));
        let newer = HelmRelease {
            version: Some("1.2.4".into()),
            ..release.clone()
        };
        assert_eq!(helm.packed(&newer), None);
        let folder = HelmRelease {
            chart: dir.path().display().to_string(),
            repo: None,
            ..release
        };
        let archive = helm.pack(&folder).await.unwrap();
        assert!(archive.starts_with(b"package "));
    }

    #[test]
    fn a_rendered_chart_is_read_document_by_document() {
        let text =
            "---\n# Source: a.yaml\nkind: A\n---\n---\n# none\n---\nkind: B\nx: |\n  ---\n  y\n";
        let kinds: Vec<Value> = documents(text).unwrap();
        assert_eq!(
            kinds,
            [json!({"kind": "A"}), json!({"kind": "B", "x": "---\ny\n"})]
        );
        assert!(documents("a: [").is_err());
        let twice = documents("labels: {a: 1}\nb: 2\nlabels: {c: 3, c: 4}\n").unwrap();
        assert_eq!(twice, [json!({"labels": {"c": 4}, "b": 2})]);
    }
}
