//! Renders the objects of an application with the programs of the user: kubectl or kustomize, and Helm.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tare_model::graph::Application;
use tokio::process::Command;

use super::text;
use crate::environment::EnvironmentError;
use crate::kube::mesh::{Helm, documents, items, tail};

/// Programs that render a folder of Kustomize, in the order of preference.
const KUSTOMIZE: [&[&str]; 2] = [&["kubectl", "kustomize"], &["kustomize", "build"]];

/// Renders the objects of an application. `name` is the release and its namespace, if it is a chart.
pub(crate) async fn render(
    helm: &Helm,
    application: &Application,
    name: &str,
) -> Result<Vec<Value>, EnvironmentError> {
    let mut objects = Vec::new();
    if let Some(chart) = &application.chart {
        objects = helm.render_chart(chart, name).await?;
    }
    if let Some(folder) = &application.kustomize {
        let text = kustomize(folder).await?;
        objects = parse(&format!("kustomize {folder}"), &text)?;
    }
    for path in &application.manifests {
        for file in files(Path::new(path))? {
            let text = std::fs::read_to_string(&file).map_err(cannot_read(&file))?;
            objects.extend(parse(&file.display().to_string(), &text)?);
        }
    }
    let objects: Vec<Value> = objects.into_iter().flat_map(items).collect();
    let source = "the application";
    if objects.is_empty() {
        return Err(EnvironmentError::start(
            source,
            "found no objects, expected manifests",
        ));
    }
    let incomplete = |o: &&Value| {
        let keys = ["/apiVersion", "/kind", "/metadata/name"];
        keys.iter().any(|key| text(o, key).is_empty())
    };
    match objects.iter().find(incomplete) {
        None => Ok(objects),
        Some(object) => {
            let kind = text(object, "/kind");
            let found =
                format!("found an object {kind:?} without `apiVersion`, `kind` or `metadata.name`");
            Err(EnvironmentError::start(source, found))
        }
    }
}

fn parse(name: &str, text: &str) -> Result<Vec<Value>, EnvironmentError> {
    documents(text).map_err(|found| EnvironmentError::start(name, format!("invalid YAML: {found}")))
}

fn cannot_read(path: &Path) -> impl FnOnce(io::Error) -> EnvironmentError {
    EnvironmentError::io(format!("read {} of the application", path.display()))
}

/// Returns a file, or the manifests of a folder in the order of their names. Folders in it are left out, as kubectl does.
fn files(path: &Path) -> Result<Vec<PathBuf>, EnvironmentError> {
    let is_folder = std::fs::metadata(path).map_err(cannot_read(path))?.is_dir();
    if !is_folder {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(cannot_read(path))?;
    let paths = entries.map(|entry| entry.map(|e| e.path()));
    let paths: Vec<PathBuf> = paths
        .collect::<io::Result<_>>()
        .map_err(cannot_read(path))?;
    let is_manifest = |path: &PathBuf| {
        let extension = path.extension().and_then(|e| e.to_str());
        matches!(extension, Some("yaml" | "yml" | "json")) && path.is_file()
    };
    let mut files: Vec<PathBuf> = paths.into_iter().filter(is_manifest).collect();
    files.sort();
    Ok(files)
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
    let what = format!("cannot render {folder}: found neither kubectl nor kustomize");
    let remedy = "install one of them on the PATH";
    Err(EnvironmentError::missing(what, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::plan::KubernetesSettings;

    async fn rendered(application: &Application) -> Result<Vec<Value>, String> {
        let helm = Helm::new(&KubernetesSettings::default());
        let objects = render(&helm, application, "shop").await;
        objects.map_err(|e| e.to_string())
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
        assert!(error.contains("without `apiVersion`"), "{error}");
        application.manifests = vec![dir.path().join("absent").display().to_string()];
        let error = rendered(&application).await.unwrap_err();
        assert!(error.contains("absent"), "{error}");
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
