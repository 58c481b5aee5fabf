//! References between the objects of an application that name their namespace: each instance has another one.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::text;

/// The services and namespaces of an application.
#[derive(Debug, Clone, Default)]
pub(crate) struct References {
    services: BTreeSet<String>,
    namespaces: BTreeSet<String>,
}

impl References {
    /// Collects the names in `objects`, and the namespace in which a chart is rendered.
    pub(super) fn of(objects: &[Value], chart_namespace: &str) -> Self {
        let mut references = Self::default();
        references.namespaces.insert(chart_namespace.to_owned());
        for object in objects {
            let name = text(object, "/metadata/name").to_owned();
            let namespace = text(object, "/metadata/namespace");
            if !namespace.is_empty() {
                references.namespaces.insert(namespace.to_owned());
            }
            match text(object, "/kind") {
                "Service" => references.services.insert(name),
                "Namespace" => references.namespaces.insert(name),
                _ => false,
            };
        }
        references
    }

    /// Replaces each reference in all texts of an object by one to the namespace `to`.
    pub(super) fn replace(&self, object: &mut Value, to: &str) {
        let data = (object["kind"] == "Secret").then(|| object["data"].take());
        self.walk(object, to);
        if let Some(mut data) = data.filter(|d| !d.is_null()) {
            for value in data
                .as_object_mut()
                .into_iter()
                .flat_map(|d| d.values_mut())
            {
                let bytes = value.as_str().and_then(|v| STANDARD.decode(v).ok());
                if let Some(text) = bytes.and_then(|b| String::from_utf8(b).ok()) {
                    *value = STANDARD.encode(self.in_text(&text, to)).into();
                }
            }
            object["data"] = data;
        }
        if object["data"].is_null() {
            object.as_object_mut().map(|o| o.remove("data"));
        }
    }

    fn walk(&self, value: &mut Value, to: &str) {
        match value {
            Value::Array(list) => list.iter_mut().for_each(|v| self.walk(v, to)),
            Value::Object(map) => {
                for (key, value) in map {
                    // Such as the subject of a role binding.
                    match value {
                        Value::String(name)
                            if key == "namespace" && self.namespaces.contains(name) =>
                        {
                            to.clone_into(name);
                        }
                        value => self.walk(value, to),
                    }
                }
            }
            Value::String(text) => *text = self.in_text(text, to),
            _ => {}
        }
    }

    /// Replaces the namespace in `SERVICE.NAMESPACE` and `SERVICE.NAMESPACE.svc...`, where both are of the application.
    fn in_text(&self, text: &str, to: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(dot) = rest.find('.') {
            let (before, after) = (&rest[..dot], &rest[dot + 1..]);
            let service = &before[before
                .rfind(|c| !in_name(c))
                .map_or(0, |i| i + char_len(before, i))..];
            let namespace = &after[..after.find(|c| !in_name(c)).unwrap_or(after.len())];
            let tail = &after[namespace.len()..];
            out += before;
            out.push('.');
            // After a reference, the rest cannot be another reference of the same service.
            if self.services.contains(service) && self.namespaces.contains(namespace) && ends(tail)
            {
                out += to;
                rest = tail;
            } else {
                rest = after;
            }
        }
        out + rest
    }
}

/// Length of the character at `index`.
fn char_len(text: &str, index: usize) -> usize {
    text[index..].chars().next().map_or(1, char::len_utf8)
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Whether the name of a service ends here, or continues with `.svc`: `web.shop.com` is no service.
fn ends(tail: &str) -> bool {
    let Some(rest) = tail.strip_prefix('.') else {
        return true;
    };
    match rest.strip_prefix("svc") {
        Some(rest) => !rest.starts_with(in_name),
        None => !rest.starts_with(in_name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn references() -> References {
        let objects = [
            json!({"kind": "Namespace", "metadata": {"name": "emojivoto"}}),
            json!({"kind": "Service", "metadata": {"name": "voting-svc", "namespace": "emojivoto"}}),
            json!({"kind": "Service", "metadata": {"name": "db", "namespace": "data"}}),
        ];
        References::of(&objects, "shop")
    }

    #[test]
    fn only_services_of_the_application_get_another_namespace() {
        let replaced = |text: &str| references().in_text(text, "t-0");
        for (text, expected) in [
            ("voting-svc.emojivoto:8080", "voting-svc.t-0:8080"),
            (
                "http://voting-svc.emojivoto/a?b=db.data",
                "http://voting-svc.t-0/a?b=db.t-0",
            ),
            (
                "voting-svc.emojivoto.svc.cluster.local",
                "voting-svc.t-0.svc.cluster.local",
            ),
            (
                "db-0.db.data.svc,db-1.db.data.svc",
                "db-0.db.t-0.svc,db-1.db.t-0.svc",
            ),
            ("db.shop.", "db.t-0."),
            ("postgres://u:p@db.data/x", "postgres://u:p@db.t-0/x"),
            ("höhe→db.data", "höhe→db.t-0"),
        ] {
            assert_eq!(replaced(text), expected);
        }
        for same in [
            "voting-svc:8080",
            "voting-svc.other",
            "db.data.com",
            "db.data.svcx",
            "other.emojivoto",
            "x-db.data",
            "db.data-2",
            "emojivoto",
            "a.b.c.",
            "..",
            "",
        ] {
            assert_eq!(replaced(same), same);
        }
    }

    #[test]
    fn references_in_secrets_and_subjects_are_replaced() {
        let mut binding = json!({"kind": "RoleBinding", "subjects": [
            {"kind": "ServiceAccount", "name": "a", "namespace": "emojivoto"},
            {"kind": "ServiceAccount", "name": "b", "namespace": "kube-system"}]});
        references().replace(&mut binding, "t-0");
        assert_eq!(binding["subjects"][0]["namespace"], "t-0");
        assert_eq!(binding["subjects"][1]["namespace"], "kube-system");
        let mut secret = json!({"kind": "Secret", "stringData": {"a": "db.data"},
            "data": {"url": STANDARD.encode("db.data:5432"), "key": STANDARD.encode([0xff, 0xfe])}});
        references().replace(&mut secret, "t-0");
        let expected = json!({"kind": "Secret", "stringData": {"a": "db.t-0"},
            "data": {"url": STANDARD.encode("db.t-0:5432"), "key": STANDARD.encode([0xff, 0xfe])}});
        assert_eq!(secret, expected);
        let mut map =
            json!({"kind": "ConfigMap", "data": {"conf": "proxy_pass http://db.data;\n"}});
        references().replace(&mut map, "t-0");
        assert_eq!(map["data"]["conf"], "proxy_pass http://db.t-0;\n");
    }
}
