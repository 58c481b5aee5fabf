//! The tree into which a file is parsed.

use super::location::Location;
use crate::text::quoted;

/// The key of a single value in a map that `--set` made of it to add other keys. No file can
/// contain this character.
pub(super) const SHORT_KEY: &str = "\0";

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Where it is.
    pub(crate) location: Location,
    /// What it is.
    pub(crate) value: Value,
}

/// A value as it was written. A scalar keeps its text, and the decoded type determines its
/// meaning, so that `200rps` and `5s` need no quotes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A single value; `plain` if it has no quotes.
    Scalar {
        /// As it was written.
        text: String,
        /// Whether it has no quotes.
        plain: bool,
    },
    /// The items in their order.
    List(Vec<Node>),
    /// Keys are unique.
    Map(Vec<Entry>),
}

/// One key of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// The key.
    pub(crate) key: String,
    /// Where the key is.
    pub(crate) key_location: Location,
    /// Its value.
    pub(crate) node: Node,
}

impl Node {
    /// Describes the node, for messages that begin with "found".
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Scalar { text, plain: true } => quoted(text),
            Value::Scalar { text, plain: false } => format!("the string {}", quoted(text)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(entries) => match entries.first() {
                Some(e) if e.key == SHORT_KEY => {
                    format!("keys under the single value {}", e.node.describe())
                }
                _ => "a map".to_owned(),
            },
        }
    }

    /// Whether it is nothing.
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The entry of `key`, if this node is a map that has it.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|e| e.key == key),
            _ => None,
        }
    }

    /// The node at a path like `services[0].endpoints[1].path`, or the deepest existing node on
    /// this path. The last key may contain points, as names of variables do.
    pub(crate) fn find(&self, path: &str) -> &Self {
        let mut node = self;
        let mut rest = path;
        loop {
            if let Some(entry) = node.entry(rest) {
                return &entry.node;
            }
            let (step, after) = rest.split_once(['.', '[']).unwrap_or((rest, ""));
            let next = match &node.value {
                Value::List(items) => step
                    .strip_suffix(']')
                    .and_then(|index| items.get(index.parse::<usize>().ok()?)),
                _ => node.entry(step).map(|entry| &entry.node),
            };
            match next {
                Some(next) if !after.is_empty() => (node, rest) = (next, after),
                Some(next) => return next,
                None => return node,
            }
        }
    }
}
