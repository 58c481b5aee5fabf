//! References between the objects of an application that name their namespace: each instance has another one.
//!
//! What certainly names a namespace of the application is replaced. What may name one and may mean something else is
//! refused with its place: a wrong guess would be a policy that refuses everything or nothing.

mod fields;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::check::excludable;
use super::files::Files;
use super::{text, title};
use crate::mesh::group;

/// A namespace in the place of those of instances, while references are only counted.
const PLACEHOLDER: &str = "of-the-instance";
/// Most paths in a change.
const PATHS_SHOWN: usize = 3;

/// The services and namespaces of an application.
#[derive(Debug, Clone, Default)]
pub(crate) struct References {
    names: Names,
}

#[derive(Debug, Clone, Default)]
struct Names {
    services: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    /// One of them that no object names: only objects without a namespace would be there.
    unnamed: Option<String>,
    /// Labels of the application's Namespace objects, which are not deployed.
    labels: BTreeSet<(String, String)>,
}

/// What was found in an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Paths of the references that were replaced.
    pub(super) replaced: Vec<String>,
    /// Paths that cannot be decided, each with the reason.
    pub(super) unclear: Vec<String>,
}

/// Characters of the names of objects.
fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

impl References {
    /// Collects the names in `objects`. Those without a namespace would be in `unnamed`.
    pub(super) fn of(objects: &[Value], unnamed: &str) -> Self {
        let mut names = Names::default();
        let mut has_unnamed = false;
        for object in objects {
            let name = text(object, "/metadata/name").to_owned();
            if text(object, "/kind") != "Namespace" {
                match text(object, "/metadata/namespace") {
                    "" => has_unnamed = true,
                    namespace => {
                        names.namespaces.insert(namespace.to_owned());
                    }
                }
            }
            match text(object, "/kind") {
                "Service" => {
                    names.services.insert(name);
                }
                "Namespace" => {
                    names.namespaces.insert(name);
                    let labels = object["metadata"]["labels"].as_object();
                    let labels = labels.into_iter().flatten();
                    let labels = labels.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.into())));
                    names.labels.extend(labels);
                }
                _ => {}
            }
        }
        if has_unnamed && names.namespaces.insert(unnamed.to_owned()) {
            names.unnamed = Some(unnamed.to_owned());
        }
        Self { names }
    }

    /// Checks that all references in the objects are clear. Returns the changes that every instance needs: the object, and
    /// the places of its references.
    pub(super) fn examine(
        &self,
        objects: &[Value],
        files: &Files,
    ) -> Result<Vec<(String, String)>, String> {
        let (mut changes, mut problems) = (Vec::new(), Vec::new());
        for object in objects {
            let found = self.replace(&mut object.clone(), PLACEHOLDER);
            let place = files.place(object);
            problems.extend(
                found
                    .unclear
                    .iter()
                    .map(|why| format!("{place} is refused: {why}")),
            );
            let count = found.replaced.len();
            let mut paths = found
                .replaced
                .iter()
                .take(PATHS_SHOWN)
                .cloned()
                .collect::<Vec<_>>()
                .join(", ");
            if count > PATHS_SHOWN {
                paths += &format!(" and {} more", count - PATHS_SHOWN);
            }
            if count > 0 {
                let change = format!("namespace replaced by that of the instance in {paths}");
                changes.push((title(object), change));
            }
        }
        match problems.is_empty() {
            true => Ok(changes),
            false => Err(excludable(&problems)),
        }
    }

    /// Replaces each reference in an object by one to the namespace `to`.
    pub(super) fn replace(&self, object: &mut Value, to: &str) -> Found {
        let mut walk = Walk {
            names: &self.names,
            to,
            of_mesh: fields::is_of_mesh(group(object)),
            denies: text(object, "/spec/action") == "DENY",
            found: Found::default(),
        };
        let is_secret = object["kind"] == "Secret";
        let Some(parts) = object.as_object_mut() else {
            return walk.found;
        };
        for (key, value) in parts {
            match key.as_str() {
                // The namespace of the object itself is set, not replaced.
                "metadata" => walk.metadata(value),
                "data" if is_secret => walk.encoded(value),
                "apiVersion" | "kind" => {}
                _ => walk.value(value, &Place::root(key)),
            }
        }
        walk.found
    }
}

/// Where a value is in its object.
#[derive(Debug, Clone)]
struct Place {
    /// Its path, such as `spec.rules[0].from`.
    path: String,
    /// The name of its field; of the items of a list, that of the list.
    field: String,
    /// The field above it.
    above: String,
}

impl Place {
    fn root(key: &str) -> Self {
        Self {
            path: key.to_owned(),
            field: key.to_owned(),
            above: String::new(),
        }
    }

    fn field(&self, key: &str) -> Self {
        let is_plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric());
        Self {
            path: match is_plain {
                true => format!("{}.{key}", self.path),
                false => format!("{}[{key:?}]", self.path),
            },
            field: key.to_owned(),
            above: self.field.clone(),
        }
    }

    fn item(&self, index: usize) -> Self {
        Self {
            path: format!("{}[{index}]", self.path),
            ..self.clone()
        }
    }
}

struct Walk<'a> {
    names: &'a Names,
    to: &'a str,
    /// Whether the object is of a mesh, whose fields have known meanings.
    of_mesh: bool,
    /// Whether it is a policy that refuses what it names.
    denies: bool,
    found: Found,
}

impl Walk<'_> {
    fn metadata(&mut self, metadata: &mut Value) {
        let place = Place::root("metadata");
        let own = metadata.get_mut("namespace").map(Value::take);
        self.value(metadata, &place);
        if let Some(own) = own {
            metadata["namespace"] = own;
        }
    }

    /// The data of a Secret, in Base64.
    fn encoded(&mut self, data: &mut Value) {
        for (key, value) in data.as_object_mut().into_iter().flatten() {
            let bytes = value.as_str().and_then(|v| STANDARD.decode(v).ok());
            if let Some(text) = bytes.and_then(|b| String::from_utf8(b).ok()) {
                let mut plain = Value::from(text);
                let before = self.found.replaced.len();
                self.value(&mut plain, &Place::root("data").field(key));
                if self.found.replaced.len() > before {
                    *value = STANDARD.encode(plain.as_str().unwrap_or_default()).into();
                }
            }
        }
    }

    fn value(&mut self, value: &mut Value, place: &Place) {
        match value {
            Value::Array(list) => self.list(list, place),
            Value::Object(map) => self.map(map, place),
            Value::String(text) => self.text(text, place),
            _ => {}
        }
    }

    fn list(&mut self, list: &mut Vec<Value>, place: &Place) {
        let mut is_after_option = false;
        for (index, value) in list.iter_mut().enumerate() {
            let place = place.item(index);
            let is_option = value.as_str().is_some_and(fields::is_option);
            match value {
                Value::String(text) if is_after_option => self.names_in(text, &place),
                value => self.value(value, &place),
            }
            is_after_option = is_option;
        }
        if fields::is_namespace(&place.field) {
            // Two namespaces of the application have become one.
            let mut seen = false;
            list.retain(|v| *v != *self.to || !std::mem::replace(&mut seen, true));
        }
    }

    fn map(&mut self, map: &mut Map<String, Value>, place: &Place) {
        if fields::is_namespace_selector(place) {
            self.selector(map, place);
            return;
        }
        let naming = fields::naming(map);
        for field in naming.iter().copied() {
            match map.get_mut(field) {
                Some(Value::String(text)) => self.names_in(text, &place.field(field)),
                Some(Value::Array(list)) => {
                    for (index, value) in list.iter_mut().enumerate() {
                        if let Value::String(text) = value {
                            self.names_in(text, &place.field(field).item(index));
                        }
                    }
                }
                _ => {}
            }
        }
        let renamed: Vec<(String, String)> = map
            .keys()
            .map(|key| (key, words::replace_in_key(self.names, key, self.to)))
            .filter(|(key, new)| *key != new)
            .map(|(key, new)| (key.clone(), new))
            .collect();
        let fields = map.keys().map(|key| {
            let mut place = place.field(key);
            fields::alike(map, key).clone_into(&mut place.field);
            place
        });
        let fields: Vec<Place> = fields.collect();
        for ((key, value), place) in map.iter_mut().zip(fields) {
            if !naming.contains(&key.as_str()) {
                self.value(value, &place);
            }
        }
        for (key, new) in renamed {
            self.found.replaced.push(place.field(&key).path);
            if let Some(value) = map.remove(&key) {
                map.insert(new, value);
            }
        }
    }

    fn text(&mut self, text: &mut String, place: &Place) {
        if fields::is_namespace(&place.field) {
            self.names_in(text, place);
            return;
        }
        let mut replaced = words::replace(self.names, text, self.to);
        if self.of_mesh
            && fields::is_qualified(&place.field)
            && let Some((namespace, name)) = replaced.text.split_once('/')
            && self.names.namespaces.contains(namespace)
        {
            replaced.text = format!("{}/{name}", self.to);
        }
        self.check(&replaced, place);
        self.set(text, replaced.text, place);
    }

    /// Replaces the namespaces in a text that consists of them: one name, or several with commas.
    fn names_in(&mut self, text: &mut String, place: &Place) {
        let parts: Vec<&str> = text.split(',').collect();
        let is_own = |part: &str| self.names.namespaces.contains(part.trim());
        if parts.iter().any(|part| is_own(part)) {
            let excludes = self.denies || place.field.starts_with("not");
            if self.of_mesh && excludes && self.names.namespaces.len() > 1 {
                let found = format!(
                    "`{text}` in a policy that refuses it; an instance has one namespace for all those of the application, so \
                     the policy would refuse the whole application"
                );
                self.unclear(place, &found);
                return;
            }
            let new = parts.iter().map(|part| match is_own(part) {
                true => part.replace(part.trim(), self.to),
                false => (*part).to_owned(),
            });
            let new = new.collect::<Vec<_>>().join(",");
            self.set(text, new, place);
            return;
        }
        if let Some(namespace) = fields::pattern(self.names, text) {
            self.unclear(place, &format!("`{text}`, a pattern that covers the namespace `{namespace}` of the application; expected its whole name"));
            return;
        }
        let replaced = words::replace(self.names, text, self.to);
        self.check(&replaced, place);
        self.set(text, replaced.text, place);
    }

    /// Notes what is left in a text and may be a reference.
    fn check(&mut self, replaced: &words::Replaced, place: &Place) {
        let text = &replaced.text;
        if let Some(host) = &replaced.foreign {
            let found = format!(
                "`{host}`, a Service in a namespace of the application that is not one of its objects; \
                 expected the Service among the objects, or the name of one in another namespace"
            );
            self.unclear(place, &found);
        } else if self.of_mesh
            && let Some(namespace) = fields::left(self.names, text, &place.field)
        {
            let found = format!(
                "`{text}`, which may name the namespace `{namespace}` of the application; expected a form such as \
                 `cluster.local/ns/{namespace}/sa/NAME`, or NAME.{namespace} with one of its Services"
            );
            self.unclear(place, &found);
        }
    }

    fn set(&mut self, text: &mut String, new: String, place: &Place) {
        if *text != new {
            *text = new;
            self.found.replaced.push(place.path.clone());
        }
    }

    fn unclear(&mut self, place: &Place, found: &str) {
        self.found
            .unclear
            .push(format!("`{}` is {found}", place.path));
    }
}
