//! A program of the user as a service.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to start a program that is a service of the graph, in place of tare's own servers. Arguments and variables may
/// contain the places that [`fill`] describes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a command")]
pub struct Command {
    /// The program and its arguments. A program without a slash is searched in the PATH; a relative path starts at
    /// the directory in which tare runs.
    pub run: Vec<String>,
    /// Environment variables, in addition to those of tare.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Path that the program answers with a status from 200 to 399 once it is ready. Default: `/`.
    #[serde(default = "root", skip_serializing_if = "is_root")]
    pub ready: String,
    /// Time limit until it is ready, in seconds, 1 to 600. Default: 30.
    #[serde(default = "thirty", skip_serializing_if = "is_thirty")]
    pub ready_within_s: u32,
    /// Network of the program and of the processes that it starts. Default: `shared`.
    #[serde(default, skip_serializing_if = "is_shared")]
    pub network: ProgramNetwork,
    /// The port on which it listens, only with `network: own`. Default: 15080.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// Network of a program of the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", expecting = "`shared` or `own`")]
pub enum ProgramNetwork {
    /// That of tare: the program must listen on the address that tare gives it, and only there.
    #[default]
    Shared,
    /// A network namespace of its own: the program may listen on all addresses, and each instance on the same port.
    Own,
}

impl ProgramNetwork {
    /// Whether it is a network namespace of its own.
    #[must_use]
    pub fn is_own(self) -> bool {
        self == Self::Own
    }
}

fn is_shared(network: &ProgramNetwork) -> bool {
    !network.is_own()
}

fn root() -> String {
    "/".to_owned()
}

fn is_root(path: &str) -> bool {
    path == "/"
}

fn thirty() -> u32 {
    30
}

fn is_thirty(seconds: &u32) -> bool {
    *seconds == 30
}

/// Fills the places of a text: `{port}`, `{host}`, `{address}` (host and port) and `{instance}` of the service itself;
/// `{url:NAME}`, `{address:NAME}`, `{host:NAME}` and `{port:NAME}` of a service that it calls. Braces around
/// other texts, as in JSON, stay. `value` returns the value of a place by its name and the called service.
///
/// # Errors
/// The place that has no value.
pub fn fill(
    text: &str,
    value: impl Fn(&str, Option<&str>) -> Option<String>,
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled += before;
        let end = after.find('}');
        let place = end.map_or("", |end| &after[..end]);
        let (name, of) = match place.split_once(':') {
            Some((name, of)) => (name, Some(of)),
            None => (place, None),
        };
        let is_word = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        match end.filter(|_| is_word(name) && of.is_none_or(is_word)) {
            Some(end) => {
                filled += &value(name, of).ok_or_else(|| format!("{{{place}}}"))?;
                rest = &after[end + 1..];
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    Ok(filled + rest)
}

/// The places of a service itself.
pub(super) const OWN: [&str; 4] = ["port", "host", "address", "instance"];
/// The places of a service that it calls, before its name.
pub(super) const OF_CALLED: [&str; 4] = ["url", "address", "host", "port"];

/// The places that a service which calls `callees` can have, with any value.
pub(super) fn known(name: &str, of: Option<&str>, callees: &[&str]) -> Option<String> {
    let is_known = match of {
        None => OWN.contains(&name),
        Some(of) => OF_CALLED.contains(&name) && callees.contains(&of),
    };
    is_known.then(String::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_other_braces_stay() {
        let value = |name: &str, of: Option<&str>| match (name, of) {
            ("port", None) => Some("15080".to_owned()),
            ("url", Some("back")) => Some("http://x:1".to_owned()),
            _ => None,
        };
        let filled = |text: &str| fill(text, value);
        assert_eq!(filled("--port={port}"), Ok("--port=15080".to_owned()));
        assert_eq!(
            filled("{url:back}/a{port}"),
            Ok("http://x:1/a15080".to_owned())
        );
        for same in ["", "plain", r#"{"a": {"b": 1}}"#, "{}", "${", "a}b"] {
            assert_eq!(filled(same), Ok(same.to_owned()));
        }
        assert_eq!(filled("{url:front}"), Err("{url:front}".to_owned()));
        assert_eq!(filled("{prot}"), Err("{prot}".to_owned()));
    }
}
