//! An application of the user on a cluster: Kubernetes objects in the place of tare's own servers.

use std::collections::BTreeMap;
use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::service_graph::{Service, ServiceGraph, ServiceProtocol};

/// The objects of an application, from one of `manifests`, `kustomize` and `chart`. The services of the graph are its
/// entry points. Relative paths start at the directory of the plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an application")]
pub struct Application {
    /// Files of manifests, and folders with such files (`.yaml`, `.yml`, `.json`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// A folder with a `kustomization.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kustomize: Option<String>,
    /// A Helm chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chart: Option<Chart>,
    /// Images to replace: from the image in the objects, or its name without a tag, to the image to use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub images: BTreeMap<String, String>,
    /// Objects that are not deployed, such as `Deployment/vote-bot`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

/// A Helm chart of the user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a chart")]
pub struct Chart {
    /// A folder or an archive, which begins with `./`, `../` or `/`; a chart in `repo`; or `oci://REGISTRY/CHART`.
    pub chart: String,
    /// Address of its repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Its version. Default: the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Files of Helm values. What they contain is not stored with the results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values_files: Vec<String>,
    /// Helm values, over those of the files.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub values: Map<String, Value>,
}

impl Chart {
    /// Whether it is a folder or an archive on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        ["./", "../", "/"].iter().any(|p| self.chart.starts_with(p))
    }
}

impl Application {
    /// Makes relative paths, which start at `folder`, start at the directory in which tare runs. `folder` is empty
    /// or ends with `/`.
    pub(crate) fn start_at(&mut self, folder: &str) {
        let chart = self.chart.as_mut();
        let of_chart = chart.into_iter().flat_map(|chart| {
            let local = chart.is_local();
            let path = Some(&mut chart.chart).filter(|_| local);
            path.into_iter().chain(&mut chart.values_files)
        });
        let paths = self.manifests.iter_mut().chain(&mut self.kustomize);
        for path in paths.chain(of_chart) {
            // A path without a folder would be the name of a chart.
            if !path.starts_with('/') && !folder.is_empty() {
                let path_in_folder = path.strip_prefix("./").unwrap_or(path);
                *path = match folder.starts_with(['/', '.']) {
                    true => format!("{folder}{path_in_folder}"),
                    false => format!("./{folder}{path_in_folder}"),
                };
            }
        }
    }

    /// The first rule that it does not meet: the key, what was found, and what was expected.
    pub(super) fn problem(&self) -> Option<(&'static str, String, &'static str)> {
        let ways = [
            !self.manifests.is_empty(),
            self.kustomize.is_some(),
            self.chart.is_some(),
        ];
        let ways = ways.into_iter().filter(|way| *way).count();
        if ways != 1 {
            let found = format!("{ways} of `manifests`, `kustomize` and `chart`");
            return Some(("", found, "one of them"));
        }
        let has_both_parts = |name: &&String| {
            let parts = name.split_once('/');
            parts.is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty())
        };
        if let Some(name) = self.exclude.iter().find(|name| !has_both_parts(name)) {
            return Some((
                "exclude",
                format!("{name:?}"),
                "KIND/NAME, such as `Deployment/vote-bot`",
            ));
        }
        let chart = self.chart.as_ref()?;
        let is_local = chart.is_local() || chart.chart.starts_with("oci://");
        match (is_local, &chart.repo) {
            (true, Some(repo)) => {
                let found = format!("`repo: {repo}` with `{}`", chart.chart);
                Some(("chart", found, "no `repo` for a path or an address"))
            }
            (false, None) => {
                let expected = "`repo`, or a path that begins with `./`, `../` or `/`";
                Some((
                    "chart",
                    format!("{:?} without `repo`", chart.chart),
                    expected,
                ))
            }
            _ => None,
        }
    }
}

/// The first rule that a service does not meet: the key, what was found, and what was expected. Of an entry point of
/// an application, only the port and the paths are known.
pub(super) fn service_problem(
    graph: &ServiceGraph,
    s: &Service,
) -> Option<(String, String, &'static str)> {
    let Some(_) = &graph.application else {
        let port = s.port?;
        let expected = "no port: only the entry points of an `application` have one";
        return Some(("port".to_owned(), format!("port {port}"), expected));
    };
    let wrong = |key: &str, found: &dyn Display, expected| {
        Some((key.to_owned(), found.to_string(), expected))
    };
    if !matches!(s.protocol, ServiceProtocol::Http | ServiceProtocol::Tcp) {
        return wrong(
            "protocol",
            &s.protocol.name(),
            "http or tcp with `application`",
        );
    }
    match s.port {
        None => return wrong("port", &"no `port`", "the port of the Kubernetes Service"),
        Some(0) => return wrong("port", &0, "1 to 65535"),
        Some(_) => {}
    }
    let others = [
        ("app", s.app.is_some()),
        ("command", s.command.is_some()),
        ("uses", !s.uses.is_empty()),
        ("external", s.external),
        ("replicas", s.replicas > 1),
        ("concurrency", s.concurrency > 0),
    ];
    if let Some((key, _)) = others.into_iter().find(|(_, is_set)| *is_set) {
        return wrong(
            key,
            &format!("`{key}`"),
            "only `name`, `protocol`, `port` and `endpoints` with `application`",
        );
    }
    let more = s
        .endpoints
        .iter()
        .position(|e| !e.is_plain() || !e.calls.is_empty())?;
    let key = format!("endpoints[{more}]");
    wrong(
        &key,
        &"more than a path",
        "only `path`: the application determines the rest",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn application(value: Value) -> Application {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn relative_paths_start_at_the_directory_of_the_plan() {
        let at = |folder: &str, path: &str| {
            let mut a = application(
                json!({"manifests": [path], "chart": {"chart": path, "values_files": ["v.yaml"]}}),
            );
            a.start_at(folder);
            let chart = a.chart.unwrap();
            [
                a.manifests[0].clone(),
                chart.chart,
                chart.values_files[0].clone(),
            ]
        };
        assert_eq!(at("", "./k8s/"), ["./k8s/", "./k8s/", "v.yaml"]);
        assert_eq!(
            at("plans/", "./k8s"),
            ["./plans/k8s", "./plans/k8s", "./plans/v.yaml"]
        );
        assert_eq!(
            at("../p/", "../k8s"),
            ["../p/../k8s", "../p/../k8s", "../p/v.yaml"]
        );
        assert_eq!(at("/a/", "/k8s"), ["/k8s", "/k8s", "/a/v.yaml"]);
        assert_eq!(
            at("plans/", "podinfo")[1],
            "podinfo",
            "a chart of a repository"
        );
    }

    #[test]
    fn an_application_has_one_source() {
        let problem = |value: Value| application(value).problem().map(|(_, found, _)| found);
        assert_eq!(problem(json!({"manifests": ["a"]})), None);
        assert_eq!(problem(json!({"chart": {"chart": "./a"}})), None);
        assert_eq!(
            problem(json!({"chart": {"chart": "a", "repo": "https://x"}})),
            None
        );
        let none = problem(json!({})).unwrap();
        assert!(none.starts_with("0 of"), "{none}");
        let two = problem(json!({"manifests": ["a"], "kustomize": "b"})).unwrap();
        assert!(two.starts_with("2 of"), "{two}");
        assert!(problem(json!({"chart": {"chart": "podinfo"}})).is_some());
        assert!(problem(json!({"chart": {"chart": "./a", "repo": "https://x"}})).is_some());
        assert!(problem(json!({"manifests": ["a"], "exclude": ["vote-bot"]})).is_some());
    }
}
