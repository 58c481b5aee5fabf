//! The files with the manifests of an application: which ones a folder has, and what they are if not manifests.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tare_files::DOCUMENT_BYTES_MAX;

use super::title;
use tare_run::environment::EnvironmentError;

/// Names of the file of a folder that Kustomize renders.
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
/// Expressions that only Helm's templates use.
const HELM: [&str; 7] = [
    ".Values",
    ".Release",
    ".Chart",
    ".Capabilities",
    "include \"",
    "template \"",
    "define \"",
];
/// Most folders in a message.
const SHOWN: usize = 5;

/// The files in which objects were found, by kind and name.
#[derive(Debug, Clone, Default)]
pub(super) struct Files(BTreeMap<String, String>);

impl Files {
    pub(super) fn add(&mut self, file: &str, objects: &[Value]) {
        for object in objects {
            let files = self.0.entry(title(object)).or_default();
            if files.is_empty() {
                file.clone_into(files);
            } else if files != file {
                *files += &format!(" and {file}");
            }
        }
    }

    /// The file of an object, and its kind and name: `k8s/web.yaml: Deployment/web`.
    pub(super) fn place(&self, object: &Value) -> String {
        let title = title(object);
        match self.0.get(&title) {
            Some(file) => format!("{file}: {title}"),
            None => title,
        }
    }
}

/// Where manifests come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Source {
    File(PathBuf),
    /// A folder that Kustomize renders.
    Kustomization(PathBuf),
}

pub(super) fn cannot_read(path: &Path) -> impl FnOnce(io::Error) -> EnvironmentError {
    EnvironmentError::io(format!("read {} of the application", path.display()))
}

fn refused(path: &Path, found: impl ToString) -> EnvironmentError {
    EnvironmentError::start(path.display().to_string(), found.to_string())
}

/// Returns a file, or the manifests of a folder in the order of their names. Folders in it are left out, as kubectl does.
/// A folder with a kustomization is rendered, and not read.
pub(super) fn sources(path: &Path, is_kustomize: bool) -> Result<Vec<Source>, EnvironmentError> {
    let is_folder = metadata(path)?.is_dir();
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    if !is_folder {
        let above = path.parent().filter(|p| !p.as_os_str().is_empty());
        return Ok(vec![match KUSTOMIZATIONS.contains(&name) {
            true => Source::Kustomization(above.unwrap_or(Path::new(".")).to_owned()),
            false => Source::File(path.to_owned()),
        }]);
    }
    if is_kustomize || is_kustomization(path) {
        return Ok(vec![Source::Kustomization(path.to_owned())]);
    }
    if path.join("Chart.yaml").is_file() {
        let chart = path.display();
        return Err(refused(
            path,
            format!(
                "this folder is a Helm chart; use `chart: {{chart: {chart}}}` in place of `manifests`"
            ),
        ));
    }
    let entries = fs::read_dir(path).map_err(cannot_read(path))?;
    let paths = entries.map(|entry| entry.map(|e| e.path()));
    let mut paths: Vec<PathBuf> = paths
        .collect::<io::Result<_>>()
        .map_err(cannot_read(path))?;
    paths.sort();
    let is_manifest = |path: &&PathBuf| {
        let extension = path.extension().and_then(|e| e.to_str());
        matches!(extension, Some("yaml" | "yml" | "json")) && !path.is_dir()
    };
    let files: Vec<PathBuf> = paths.iter().filter(is_manifest).cloned().collect();
    if files.is_empty() {
        return Err(refused(path, nothing(&paths)));
    }
    Ok(files.into_iter().map(Source::File).collect())
}

fn metadata(path: &Path) -> Result<Metadata, EnvironmentError> {
    fs::metadata(path).map_err(cannot_read(path))
}

fn is_kustomization(folder: &Path) -> bool {
    KUSTOMIZATIONS
        .iter()
        .any(|name| folder.join(name).is_file())
}

/// What a folder without manifests has.
fn nothing(paths: &[PathBuf]) -> String {
    let folders: Vec<&PathBuf> = paths.iter().filter(|p| p.is_dir()).collect();
    let expected = "found no file that ends with .yaml, .yml or .json in this folder";
    if folders.is_empty() {
        return expected.to_owned();
    }
    let shown = folders.iter().take(SHOWN).map(|folder| {
        let what = match is_kustomization(folder) {
            true => " (a kustomization)",
            false if folder.join("Chart.yaml").is_file() => " (a Helm chart)",
            false => "",
        };
        format!("{}{what}", folder.display())
    });
    let mut shown = shown.collect::<Vec<_>>().join(", ");
    if folders.len() > SHOWN {
        shown += &format!(" and {} more", folders.len() - SHOWN);
    }
    format!("{expected}, only folders, which are not read; list those with manifests: {shown}")
}

/// Reads a file of manifests.
pub(super) fn read(path: &Path) -> Result<String, EnvironmentError> {
    tare_files::read_text(path, DOCUMENT_BYTES_MAX).map_err(cannot_read(path))
}

/// What a file is that has templates of Helm in the place of manifests; `None` if a text has none.
pub(super) fn template(path: &Path, text: &str) -> Option<String> {
    let mut expressions = text
        .split("{{")
        .skip(1)
        .filter_map(|rest| rest.split("}}").next());
    let found = expressions.find(|e| HELM.iter().any(|word| e.contains(word)))?;
    let found: String = found.trim().chars().take(60).collect();
    let mut above = path.ancestors().skip(1);
    let chart =
        above.find(|folder| !folder.as_os_str().is_empty() && folder.join("Chart.yaml").is_file());
    let remedy = match chart {
        Some(chart) => format!("use `chart: {{chart: {}}}`", chart.display()),
        None => "use `chart: {chart: FOLDER}` with the folder of its Chart.yaml".to_owned(),
    };
    Some(format!(
        "found the expression `{{{{ {found} }}}}` of a Helm template, expected manifests; {remedy} in place of \
         `manifests`, so that Helm renders it"
    ))
}

/// The texts of an object that are its own, not those of the files that it contains.
pub(super) fn template_in(path: &Path, object: &Value) -> Option<String> {
    match object {
        Value::String(text) => template(path, text),
        Value::Array(list) => list.iter().find_map(|v| template_in(path, v)),
        Value::Object(map) => {
            let of_files = ["data", "stringData", "binaryData", "annotations"];
            let own = map
                .iter()
                .filter(|(key, _)| !of_files.contains(&key.as_str()));
            own.into_iter()
                .find_map(|(key, v)| template(path, key).or_else(|| template_in(path, v)))
        }
        _ => None,
    }
}

/// What a document without the keys of an object is.
pub(super) fn other(document: &Value) -> String {
    let has = |key: &str| document.get(key).is_some_and(|v| !v.is_null());
    let kind = document
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let guess = match document {
        Value::Object(_) if has("services") && !has("kind") => {
            "; it looks like a file of Docker Compose, which `kompose convert` turns into manifests"
        }
        Value::Object(_) if has("name") && has("version") && has("apiVersion") => {
            "; it looks like the Chart.yaml of a Helm chart: use `chart: {chart: FOLDER}`"
        }
        Value::Object(_)
            if has("generateName") || document.pointer("/metadata/generateName").is_some() =>
        {
            "; expected a fixed name in place of `generateName`"
        }
        Value::Object(_) => "",
        _ => "; it is a list or a single value",
    };
    let kind: String = kind.chars().take(60).collect();
    format!(
        "found an object {kind:?} without `apiVersion`, `kind` or `metadata.name`, expected a manifest of Kubernetes{guess}"
    )
}
