//! RBAC of the simulated API server: the right that a request needs, and the rights that a printed
//! role grants.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::Value;

/// The right that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Right {
    pub(crate) verb: &'static str,
    group: String,
    /// Plural, with the subresource if the request has one.
    resource: String,
    namespace: String,
    name: String,
}

impl Right {
    /// Returns the right that a request needs; `None` for paths without a resource.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (name, sub) = (rest.get(1).copied(), rest.get(2).copied());
        let verb = match (method.as_str(), name) {
            ("GET", None) => "list",
            ("GET", Some(_)) => "get",
            ("POST", _) => "create",
            ("PATCH", _) => "patch",
            (_, None) => "deletecollection",
            _ => "delete",
        };
        Some(Self {
            verb,
            group: group.to_owned(),
            resource: sub.map_or(rest[0].to_owned(), |sub| format!("{}/{sub}", rest[0])),
            namespace: namespace.to_owned(),
            name: name.unwrap_or_default().to_owned(),
        })
    }

    /// Returns the same right with another verb.
    pub(crate) fn as_verb(&self, verb: &'static str) -> Self {
        Self {
            verb,
            ..self.clone()
        }
    }
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.verb, self.group, self.resource)
    }
}

/// The roles that `tare doctor --rbac` prints.
#[derive(Debug, Clone)]
pub(crate) struct Roles(Vec<Value>);

fn has(list: &Value, what: &str) -> bool {
    let mut all = list.as_array().into_iter().flatten();
    all.any(|v| v == what || v == "*")
}

impl Roles {
    pub(crate) fn read(yaml: &str) -> Self {
        let read =
            |text: &str| tare_plan::yaml_to_json("role", text).unwrap_or_else(|e| panic!("{e}"));
        Self(yaml.split("---\n").map(read).collect())
    }

    pub(crate) fn allow(&self, right: &Right) -> bool {
        self.0.iter().any(|role| {
            let of_namespace = &role["metadata"]["namespace"];
            let everywhere = role["kind"] == "ClusterRole";
            let here = everywhere || of_namespace == right.namespace.as_str();
            let mut rules = role["rules"].as_array().into_iter().flatten();
            here && rules.any(|rule| {
                has(&rule["apiGroups"], &right.group)
                    && has(&rule["resources"], &right.resource)
                    && has(&rule["verbs"], right.verb)
                    && (rule["resourceNames"].is_null() || has(&rule["resourceNames"], &right.name))
            })
        })
    }

    /// Returns all rights of the roles, in the format of [`Right`].
    pub(crate) fn all(&self) -> BTreeSet<String> {
        let list = |v: &Value| -> Vec<String> {
            let words = v.as_array().into_iter().flatten();
            words
                .filter_map(|w| w.as_str().map(str::to_owned))
                .collect()
        };
        let mut all = BTreeSet::new();
        for rule in self.0.iter().flat_map(|r| r["rules"].as_array()).flatten() {
            for group in list(&rule["apiGroups"]) {
                for resource in list(&rule["resources"]) {
                    for verb in list(&rule["verbs"]) {
                        all.insert(format!("{verb} {group} {resource}"));
                    }
                }
            }
        }
        all
    }
}
