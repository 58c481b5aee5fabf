//! Runs Helm. Values go through its standard input, because they contain keys, which must be
//! neither on disk nor on a command line.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tare_plan::KubernetesSettings;
use tare_plan::graph::Chart;
use tare_plan::mesh::{HelmRelease, MeshKubernetes};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::Instant;

use super::capabilities::Capabilities;
use super::charts::{Charts, Located};
use super::install::values;
use super::role::items;
use crate::api::kubeconfig;
use tare_run::environment::EnvironmentError;

/// Maximum length of the part of Helm's output in a message, in bytes.
const OUTPUT_MAX: usize = 600;

/// The program Helm and the cluster that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Helm {
    program: PathBuf,
    kubeconfig: Option<String>,
    context: Option<String>,
    pub(super) charts: Charts,
}

impl Helm {
    /// Uses the program TARE_HELM, or `helm` on PATH, for the cluster of the settings.
    pub(crate) fn new(settings: &KubernetesSettings) -> Self {
        let program = std::env::var_os("TARE_HELM").map_or_else(|| "helm".into(), PathBuf::from);
        Self {
            program,
            kubeconfig: kubeconfig::path(settings),
            context: settings.context.clone(),
            charts: Charts::from_env(),
        }
    }

    #[cfg(test)]
    pub(super) fn of_test(program: PathBuf, charts: Charts) -> Self {
        Self {
            program,
            charts,
            ..Self::new(&KubernetesSettings::default())
        }
    }

    /// Returns Helm's version.
    pub(crate) async fn version(&self) -> Result<String, EnvironmentError> {
        let output = self.run(&["version", "--short"], None, None).await;
        output.map(|v| v.trim().to_owned())
    }

    /// Installs or upgrades a release.
    pub(crate) async fn install(
        &self,
        release: &HelmRelease,
        values: &Value,
        logs: &Path,
    ) -> Result<(), EnvironmentError> {
        let located = self.located(release.into()).await?;
        let arguments = arguments(&["upgrade", "--install"], release, &located);
        let log = logs.join(format!("helm-{}.log", release.name));
        let values = serde_json::to_vec(values).unwrap_or_default();
        self.run(&arguments, Some(&values), Some(&log))
            .await
            .map(drop)
    }

    /// Renders the objects of the charts of a mesh, with their custom resource definitions. Each has a namespace; those
    /// outside of namespaces have that of their release.
    pub(crate) async fn render(
        &self,
        mesh: &MeshKubernetes,
        capabilities: &Capabilities,
    ) -> Result<Vec<Value>, EnvironmentError> {
        let mut all = Vec::new();
        for release in &mesh.releases {
            let values = values(mesh, &release.name)?;
            let objects = self.render_release(release, &values, capabilities).await?;
            all.extend(objects.into_iter().map(|mut object| {
                let namespace = &mut object["metadata"]["namespace"];
                if namespace.is_null() {
                    *namespace = release.namespace.as_str().into();
                }
                object
            }));
        }
        Ok(all)
    }

    async fn render_release(
        &self,
        release: &HelmRelease,
        values: &Value,
        capabilities: &Capabilities,
    ) -> Result<Vec<Value>, EnvironmentError> {
        let located = self.located(release.into()).await?;
        let mut arguments = arguments(&["template"], release, &located);
        arguments.extend(["--include-crds", "--skip-tests"]);
        arguments.extend(capabilities.options());
        let values = serde_json::to_vec(values).unwrap_or_default();
        let text = self.run(&arguments, Some(&values), None).await?;
        let name = format!("helm template {}", release.name);
        manifests(&text).map_err(|found| EnvironmentError::start(name, found))
    }

    /// Renders the objects of a user's chart as a release and a namespace of this name, without its tests. Each has the
    /// file of its template.
    pub(crate) async fn render_chart(
        &self,
        chart: &Chart,
        name: &str,
        capabilities: &Capabilities,
    ) -> Result<Vec<(String, Vec<Value>)>, EnvironmentError> {
        let located = self.located(chart.into()).await?;
        let mut arguments = vec!["template", name, &located.chart, "--namespace", name];
        arguments.extend(["--include-crds", "--skip-tests"]);
        for file in &chart.values_files {
            arguments.extend(["--values", file]);
        }
        arguments.extend(["--values", "-"]);
        arguments.extend(&located.options);
        arguments.extend(capabilities.options());
        let values = serde_json::to_vec(&chart.values).unwrap_or_default();
        let text = self.run(&arguments, Some(&values), None).await?;
        let name = format!("helm template {name}");
        let parts = templates(&text).into_iter().map(|(file, text)| {
            let file = file.unwrap_or(&name).to_owned();
            let objects = documents(&text);
            let objects = objects.map_err(|found| EnvironmentError::start(file.clone(), found))?;
            Ok((file, objects))
        });
        parts.collect()
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

    pub(super) async fn run(
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
                Charts::Brought(_) => {
                    "add Helm to the image of tare with `tare image --with-helm FILE`"
                }
                Charts::Cache(_) => {
                    "install Helm 3.14 or later on the PATH, or set TARE_HELM to its path"
                }
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

/// Splits Helm's output into documents, each with the file of its template, which is a comment.
fn templates(text: &str) -> Vec<(Option<&str>, String)> {
    let mut parts = vec![(None, String::new())];
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            parts.push((None, String::new()));
        }
        if let Some(part) = parts.last_mut() {
            if let Some(file) = line.strip_prefix("# Source: ") {
                part.0 = part.0.or(Some(file.trim()));
            }
            part.1 += line;
        }
    }
    parts
}

/// Reads the objects of a chart. Each is a map, and so is its `metadata`, if it has any: its namespace can be set.
fn manifests(text: &str) -> Result<Vec<Value>, String> {
    let all: Vec<Value> = documents(text)?.into_iter().flat_map(items).collect();
    let is_map = |o: &Value| o["metadata"].is_object() || o["metadata"].is_null();
    if !all.iter().all(Value::is_object) {
        return Err("found a document that is not an object, expected manifests".to_owned());
    }
    match all.iter().find(|o| !is_map(o)) {
        None => Ok(all),
        Some(object) => {
            let kind = object["kind"].as_str().unwrap_or_default();
            Err(format!(
                "found an object {kind} whose `metadata` is not a map, expected one with a name"
            ))
        }
    }
}

/// Arguments for a release with its chart.
fn arguments<'a>(
    command: &[&'a str],
    release: &'a HelmRelease,
    located: &'a Located<'a>,
) -> Vec<&'a str> {
    let mut all = command.to_vec();
    all.extend([release.name.as_str(), &located.chart]);
    all.extend(["--namespace", &release.namespace, "--values", "-"]);
    all.extend(&located.options);
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
            namespace: "istio-system".into(),
            ..HelmRelease::default()
        };
        let remote = Located {
            chart: "istiod".into(),
            options: vec!["--repo", "https://charts.example", "--version", "1.2.3"],
        };
        assert_eq!(
            arguments(&["upgrade", "--install"], &release, &remote).join(" "),
            "upgrade --install istiod istiod --namespace istio-system --values - \
             --repo https://charts.example --version 1.2.3"
        );
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
        let parts = templates(text);
        let files: Vec<&str> = parts.iter().filter_map(|(file, _)| *file).collect();
        assert_eq!(files, ["a.yaml"]);
        let each = parts.iter().flat_map(|(_, text)| documents(text).unwrap());
        assert_eq!(each.collect::<Vec<_>>(), kinds);
        assert!(documents("a: [").is_err());
        let twice = documents("labels: {a: 1}\nb: 2\nlabels: {c: 3, c: 4}\n").unwrap();
        assert_eq!(twice, [json!({"labels": {"c": 4}, "b": 2})]);
    }

    #[test]
    fn an_object_of_a_chart_whose_namespace_cannot_be_set_is_refused() {
        for good in [
            "kind: A\n",
            "kind: A\nmetadata:\n",
            "kind: A\nmetadata: {name: a}\n",
        ] {
            assert_eq!(manifests(good).unwrap().len(), 1, "{good}");
        }
        for metadata in ["text", "[a]", "7"] {
            let list = format!("kind: List\nitems: [{{kind: A, metadata: {metadata}}}]\n");
            for text in [format!("kind: A\nmetadata: {metadata}\n"), list] {
                let error = manifests(&text).unwrap_err();
                assert!(error.contains("A whose `metadata` is not a map"), "{error}");
            }
        }
        let error = manifests("kind: A\n---\ntext\n").unwrap_err();
        assert!(error.contains("not an object"), "{error}");
    }
}
