//! The tree that a text is read into.

use super::place::Place;
use super::problem::quoted;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// What can be written. Scalars keep their text: what it means is decided by who
/// asks for it, so that `200rps` and `5s` need no quotes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A text; `plain` without quotes.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    /// Keys are unique.
    Map(Vec<Entry>),
}

/// One key of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

impl Node {
    /// What it is, for "found ...".
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Scalar { text, plain: true } => quoted(text),
            Value::Scalar { text, plain: false } => format!("the text {}", quoted(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The entry of a map, if it is one and has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|e| e.key == key),
            _ => None,
        }
    }

    /// The item of a list, if it is one and has it.
    pub(crate) fn item(&self, index: usize) -> Option<&Self> {
        match &self.value {
            Value::List(items) => items.get(index),
            _ => None,
        }
    }

    /// The same as JSON, plain scalars by the rules of YAML's core schema.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Scalar { text, plain: false } => Json::String(text.clone()),
            Value::Scalar { text, plain: true } => plain_to_json(text),
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => Json::Object(
                entries
                    .iter()
                    .map(|e| (e.key.clone(), e.node.to_json()))
                    .collect(),
            ),
        }
    }
}

fn plain_to_json(text: &str) -> serde_json::Value {
    use serde_json::Value as Json;
    match text {
        "true" | "True" | "TRUE" => return Json::Bool(true),
        "false" | "False" | "FALSE" => return Json::Bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<u64>() {
        return Json::from(number);
    }
    if let Ok(number) = text.parse::<i64>() {
        return Json::from(number);
    }
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.contains(|c: char| c.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(number) if numeric && number.is_finite() => Json::from(number),
        _ => Json::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::plain_to_json;
    use serde_json::json;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for (text, value) in [
            ("true", json!(true)),
            ("12", json!(12)),
            ("-3", json!(-3)),
            ("0.5", json!(0.5)),
            ("1e3", json!(1000.0)),
            ("inf", json!("inf")),
            ("nan", json!("nan")),
            ("/a?b=1", json!("/a?b=1")),
            ("off", json!("off")),
        ] {
            assert_eq!(plain_to_json(text), value, "{text}");
        }
    }
}
