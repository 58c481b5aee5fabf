//! Fields that name namespaces, of Kubernetes and of the meshes.

use serde_json::{Map, Value};
use tare_plan::mesh::known_names;

use super::{Names, Place, Walk, words};

/// The label that every namespace has, with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Fields with identities, of which a namespace is a part.
const IDENTITIES: [&str; 6] = [
    PRINCIPALS,
    "notPrincipals",
    "identities",
    "serviceAccounts",
    "notServiceAccounts",
    "subjectAltNames",
];
const PRINCIPALS: &str = "principals";
/// Fields with hosts.
const HOSTS: [&str; 7] = [
    "host",
    "hosts",
    "notHosts",
    "hostname",
    "hostnames",
    "authority",
    "externalName",
];
/// Fields whose values begin with a namespace and a slash: `shop/*`.
const QUALIFIED: [&str; 4] = ["hosts", "gateways", "serviceAccounts", "notServiceAccounts"];

/// Whether the objects of a group are settings of a mesh.
pub(super) fn is_of_mesh(group: &str) -> bool {
    known_names().api_groups.iter().any(|g| g == group) || group.starts_with("gateway.")
}

/// Whether the values of a field are names of namespaces.
pub(super) fn is_namespace(field: &str) -> bool {
    let lower = field.to_ascii_lowercase();
    lower.ends_with("namespace")
        || lower.ends_with("namespaces")
        || lower.ends_with("exportto")
        || field == NAME_LABEL
}

/// Whether the values of a field of a mesh begin with a namespace and a slash.
pub(super) fn is_qualified(field: &str) -> bool {
    QUALIFIED.contains(&field)
}

/// Whether an argument of a program is an option whose value is a namespace, which is the next argument.
pub(super) fn is_option(argument: &str) -> bool {
    argument == "-n" || (argument.starts_with('-') && is_namespace(argument))
}

/// The fields of a map that another field of it makes names of namespaces: an environment variable, a condition, a
/// reference to an object, a rule of a role.
pub(super) fn naming(map: &Map<String, Value>) -> Vec<&'static str> {
    let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut fields = Vec::new();
    if is_namespace(text("name")) {
        fields.push("value");
    }
    if is_namespace(text("key")) {
        fields.extend(["values", "notValues"]);
    }
    if text("kind") == "Namespace" {
        fields.push("name");
    }
    let resources = map.get("resources").and_then(Value::as_array);
    if resources.is_some_and(|all| all.iter().any(|r| r == "namespaces")) {
        fields.push("resourceNames");
    }
    fields
}

/// The field that the value of a key in a map is like: the values of a condition on the source are identities.
pub(super) fn alike<'k>(map: &Map<String, Value>, key: &'k str) -> &'k str {
    let condition = map.get("key").and_then(Value::as_str).unwrap_or_default();
    match condition.starts_with("source.") && key.to_ascii_lowercase().ends_with("values") {
        true => PRINCIPALS,
        false => key,
    }
}

/// The namespace of the application that a pattern covers: `shop*`, `*hop`.
pub(super) fn pattern<'n>(names: &'n Names, text: &str) -> Option<&'n str> {
    let mut all = names.namespaces.iter();
    let found = match (text.strip_suffix('*'), text.strip_prefix('*')) {
        (Some(""), _) | (None, None) => None,
        (Some(start), _) => all.find(|n| n.starts_with(start)),
        (_, Some(end)) => all.find(|n| n.ends_with(end)),
    };
    found.map(String::as_str)
}

/// The namespace that is left in a field of a mesh and may be a reference.
pub(super) fn left<'t>(names: &Names, text: &'t str, field: &str) -> Option<&'t str> {
    let (is_identity, is_host) = (IDENTITIES.contains(&field), HOSTS.contains(&field));
    let places = words::words(names, text).into_iter();
    let mut left = places.filter(|&(start, end)| {
        let (before, after) = (&text[..start], &text[end..]);
        let is_end = after.is_empty() || after.starts_with([':', '/', '*', '$', '|']);
        // The name of a service account, or a trust domain, may be spelled alike.
        let is_other = before.ends_with("sa/")
            || before.contains("system:serviceaccount:")
            || (field.ends_with("erviceAccounts") && before.ends_with('/'))
            || after.starts_with("/ns/");
        let is_in_identity =
            !is_other && (before.ends_with(['/', '*', ':']) || after.starts_with(['/', '*']));
        (is_identity && is_in_identity) || (is_host && before.ends_with('.') && is_end)
    });
    left.next().map(|(start, end)| &text[start..end])
}

/// Whether a map selects namespaces by their labels.
pub(super) fn is_namespace_selector(place: &Place) -> bool {
    place.field == "namespaceSelector"
        || (place.field == "selector" && place.above == "namespaces")
        || place.field == "discoverySelectors"
}

impl Walk<'_> {
    /// A selector of namespaces. The namespaces of instances have the label with their name, but not those of the
    /// application's Namespace objects.
    pub(super) fn selector(&mut self, selector: &mut Map<String, Value>, place: &Place) {
        if let Some(Value::Object(labels)) = selector.get_mut("matchLabels") {
            let place = place.field("matchLabels");
            let mut is_own = false;
            for (key, value) in labels.clone() {
                let value = value.as_str().unwrap_or_default();
                let is_name = self.names.namespaces.contains(value);
                let label = (key.clone(), value.to_owned());
                let place = place.field(&key);
                if is_name && (key == NAME_LABEL || self.names.labels.contains(&label)) {
                    self.found.replaced.push(place.path);
                    labels.remove(&key);
                    is_own = true;
                } else if is_name || self.names.labels.contains(&label) {
                    self.by_label(&place, &key, value);
                }
            }
            if is_own {
                labels.insert(NAME_LABEL.to_owned(), self.to.into());
            }
        }
        let expressions = selector
            .get_mut("matchExpressions")
            .and_then(Value::as_array_mut);
        let place = place.field("matchExpressions");
        for (index, expression) in expressions.into_iter().flatten().enumerate() {
            let place = place.item(index);
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            if key == NAME_LABEL {
                self.value(expression, &place);
            } else if self.names.labels.iter().any(|(label, _)| *label == key) {
                self.by_label(&place, &key, "");
            } else {
                let values = expression["values"].as_array().into_iter().flatten();
                let mut values = values.filter_map(Value::as_str);
                if let Some(own) = values.find(|v| self.names.namespaces.contains(*v)) {
                    let own = own.to_owned();
                    self.by_label(&place, &key, &own);
                }
            }
        }
    }

    fn by_label(&mut self, place: &Place, key: &str, value: &str) {
        let label = match value {
            "" => key.to_owned(),
            value => format!("{key}: {value}"),
        };
        let found = format!(
            "a selector of a namespace of the application by its label `{label}`, which the namespaces of instances do not \
             have; expected `{NAME_LABEL}: NAMESPACE`"
        );
        self.unclear(place, &found);
    }
}
