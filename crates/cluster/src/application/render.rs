//! Renders the objects of an application with the programs of the user: kubectl or kustomize, and Helm.

use std::io;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tare_plan::graph::Application;
use tokio::process::Command;

use super::files::{self, Files, Source};
use super::text;
use crate::mesh::{Capabilities, Helm, documents, items, tail};
use tare_run::environment::EnvironmentError;

/// Programs that render a folder of Kustomize, in the order of preference.
const KUSTOMIZE: [&[&str]; 2] = [&["kubectl", "kustomize"], &["kustomize", "build"]];

/// The objects of an application, and where each comes from.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) objects: Vec<Value>,
    pub(super) files: Files,
}

impl Objects {
    /// Adds the documents of a file. Fails for those that are no objects.
    pub(super) fn add(
        &mut self,
        file: &str,
        documents: Vec<Value>,
    ) -> Result<(), EnvironmentError> {
        for object in documents.into_iter().flat_map(items) {
            if object.is_null() {
                continue;
            }
            let keys = ["/apiVersion", "/kind", "/metadata/name"];
            let is_complete = keys.iter().all(|key| !text(&object, key).is_empty());
            if !(is_complete
                && is_word(text(&object, "/kind"))
                && is_word(text(&object, "/apiVersion")))
            {
                return Err(EnvironmentError::start(file, files::other(&object)));
            }
            self.files.add(file, std::slice::from_ref(&object));
            self.objects.push(object);
        }
        Ok(())
    }

    /// Adds the objects of a file of manifests.
    fn add_file(&mut self, path: &Path) -> Result<(), EnvironmentError> {
        let (name, text) = (path.display().to_string(), files::read(path)?);
        let objects = parse(&name, &text).map_err(|error| match files::template(path, &text) {
            Some(found) => EnvironmentError::start(&name, found),
            None if text.contains("{{") => {
                let remedy = "the file has `{{`: if it is a template, render it first";
                EnvironmentError::start(&name, format!("{error}; {remedy}"))
            }
            None => error,
        })?;
        if let Some(found) = objects.iter().find_map(|o| files::template_in(path, o)) {
            return Err(EnvironmentError::start(name, found));
        }
        self.add(&name, objects)
    }

    async fn add_kustomization(&mut self, folder: &str) -> Result<(), EnvironmentError> {
        let name = format!("kustomize {folder}");
        let text = kustomize(folder).await?;
        self.add(&name, parse(&name, &text)?)
    }
}

/// Whether a text has only the characters of kinds and versions of the API.
fn is_word(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || "./-".contains(c))
}

/// Renders the objects of an application. `name` is the release and its namespace, if it is a chart.
pub(super) async fn render(
    helm: &Helm,
    application: &Application,
    name: &str,
    capabilities: &Capabilities,
) -> Result<Objects, EnvironmentError> {
    let mut objects = Objects::default();
    if let Some(chart) = &application.chart {
        for (file, documents) in helm.render_chart(chart, name, capabilities).await? {
            objects.add(&file, documents)?;
        }
    }
    let kustomize = application.kustomize.iter().map(|folder| (folder, true));
    let manifests = application.manifests.iter().map(|path| (path, false));
    for (path, is_kustomization) in kustomize.chain(manifests) {
        let path = Path::new(path);
        for source in files::sources(path, is_kustomization)? {
            match source {
                Source::File(file) => objects.add_file(&file)?,
                Source::Kustomization(folder) => {
                    objects
                        .add_kustomization(&folder.display().to_string())
                        .await?;
                }
            }
        }
    }
    if objects.objects.is_empty() {
        let found = "found no objects, expected manifests";
        return Err(EnvironmentError::start("the application", found));
    }
    Ok(objects)
}

pub(super) fn parse(name: &str, text: &str) -> Result<Vec<Value>, EnvironmentError> {
    documents(text).map_err(|found| EnvironmentError::start(name, format!("invalid YAML: {found}")))
}

async fn kustomize(folder: &str) -> Result<String, EnvironmentError> {
    for words in KUSTOMIZE {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(folder);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let name = format!("{} {folder}", words.join(" "));
        return match command.output().await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => Err(EnvironmentError::start(name, error)),
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(output) => {
                let errors = String::from_utf8_lossy(&output.stderr);
                Err(EnvironmentError::start(name, tail(errors.trim())))
            }
        };
    }
    let what =
        format!("cannot render the kustomization {folder}: found neither kubectl nor kustomize");
    let remedy = "install one of them on the PATH; or render it elsewhere, and use the file under `manifests`";
    Err(EnvironmentError::missing(what, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::KubernetesSettings;

    async fn rendered(application: &Application) -> Result<Vec<Value>, String> {
        let helm = Helm::new(&KubernetesSettings::default());
        let objects = render(&helm, application, "shop", &Capabilities::assumed()).await;
        objects.map(|o| o.objects).map_err(|e| e.to_string())
    }

    #[tokio::test]
    async fn manifests_of_a_folder_are_read_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let object =
            |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
        let write = |file: &str, text: String| std::fs::write(dir.path().join(file), text).unwrap();
        write(
            "20.yml",
            object("b") + "---\n# nothing\n---\n" + &object("c"),
        );
        write("10.yaml", object("a"));
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}}]}"#;
        write("30.json", list.to_owned());
        write("README.md", "not YAML: [".to_owned());
        std::fs::create_dir(dir.path().join("overlays")).unwrap();
        let mut application = Application {
            manifests: vec![dir.path().display().to_string()],
            ..Application::default()
        };
        let objects = rendered(&application).await.unwrap();
        let names: Vec<&str> = objects.iter().map(|o| text(o, "/metadata/name")).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
        write(
            "40.yaml",
            "kind: Secret\nstringData: {a: hush, b: [}\n".to_owned(),
        );
        let error = rendered(&application).await.unwrap_err();
        assert!(
            error.contains("40.yaml: invalid YAML") && !error.contains("hush"),
            "{error}"
        );
        write("40.yaml", "kind: ConfigMap\n".to_owned());
        let error = rendered(&application).await.unwrap_err();
        assert!(
            error.contains("40.yaml: found an object \"ConfigMap\" without `apiVersion`"),
            "{error}"
        );
        application.manifests = vec![dir.path().join("absent").display().to_string()];
        let error = rendered(&application).await.unwrap_err();
        assert!(error.contains("absent"), "{error}");
    }

    /// Writes the files of a folder, reads it as manifests, and returns the error.
    async fn refused(files: &[(&str, &str)], path: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let application = Application {
            manifests: vec![dir.path().join(path).display().to_string()],
            ..Application::default()
        };
        rendered(&application).await.unwrap_err()
    }

    #[tokio::test]
    async fn what_is_not_a_manifest_is_named_with_its_file_and_the_remedy() {
        let service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";
        let templated = "apiVersion: v1\nkind: Service\nmetadata: {name: '{{ .Release.Name }}'}\n";
        let broken = "{{- if .Values.on }}\napiVersion: v1\n{{- end }}\n";
        for (files, path, parts) in [
            (
                &[
                    ("k/overlays/dev/kustomization.yaml", ""),
                    ("k/base/a.yaml", service),
                ][..],
                "k",
                &[
                    "/k: found no file that ends with",
                    "/k/base, ",
                    "/k/overlays",
                ][..],
            ),
            (
                &[("k/overlays/dev/kustomization.yaml", "")],
                "k/overlays",
                &["/k/overlays/dev (a kustomization)"],
            ),
            (
                &[("k/README.md", "")],
                "k",
                &["found no file that ends with .yaml, .yml or .json"],
            ),
            (
                &[("c/Chart.yaml", ""), ("c/templates/a.yaml", templated)],
                "c/templates",
                &[
                    "/c/templates/a.yaml: found the expression `{{ .Release.Name }}` of a Helm template",
                    "/c}`",
                ],
            ),
            (
                &[("t/a.yaml", broken)],
                "t",
                &[
                    "/t/a.yaml: found the expression `{{ - if .Values.on }}` of a Helm template",
                    "folder of its Chart.yaml",
                ],
            ),
            (
                &[("c/Chart.yaml", ""), ("c/values.yaml", "")],
                "c",
                &["/c: this folder is a Helm chart; use `chart: {chart: "],
            ),
            (
                &[("t/a.yaml", "name: {{ name }\n")],
                "t",
                &["/t/a.yaml: ", "invalid YAML", "the file has `{{`"],
            ),
            (
                &[("t/compose.yaml", "services: {web: {image: web}}\n")],
                "t",
                &["/t/compose.yaml: ", "Docker Compose"],
            ),
            (
                &[("t/a.yaml", "- 1\n- 2\n")],
                "t",
                &["/t/a.yaml: ", "a list or a single value"],
            ),
            (
                &[(
                    "t/a.yaml",
                    "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n",
                )],
                "t",
                &["/t/a.yaml: ", "`generateName`"],
            ),
        ] {
            let error = refused(files, path).await;
            for part in parts {
                assert!(error.contains(part), "no `{part}` in {error}");
            }
        }
    }

    #[tokio::test]
    async fn templates_in_the_files_of_an_application_are_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {x: '{{ .Values.a }}'}}\n\
                    data: {alert: '{{ include \"x\" . }}', y: '{{ .Labels.a }}'}\n";
        std::fs::write(dir.path().join("a.yaml"), text).unwrap();
        let application = Application {
            manifests: vec![dir.path().display().to_string()],
            ..Application::default()
        };
        assert_eq!(rendered(&application).await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_folder_with_a_kustomization_is_rendered_and_its_files_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let write =
            |file: &str| std::fs::write(dir.path().join(file), "not: a manifest\n").unwrap();
        write("kustomization.yaml");
        write("a.yaml");
        for path in [dir.path().to_owned(), dir.path().join("kustomization.yaml")] {
            let sources = files::sources(&path, false).unwrap();
            assert_eq!(sources, [Source::Kustomization(dir.path().to_owned())]);
        }
        let file = dir.path().join("a.yaml");
        assert_eq!(
            files::sources(&file, false).unwrap(),
            [Source::File(file.clone())]
        );
    }

    /// kubectl reads YAML 1.1 here.
    #[test]
    fn numbers_of_file_modes_are_octal_and_quoted_scalars_are_text() {
        let read = parse(
            "a",
            "mode: 0644\nnew: 0o644\nport: \"8080\"\nversion: '1.10'\ncpu: 100m\nflag: true\n",
        );
        let expected = serde_json::json!({"mode": 420, "new": 420, "port": "8080", "version": "1.10",
            "cpu": "100m", "flag": true});
        assert_eq!(read.unwrap(), [expected]);
    }
}
