//! The rules of a service graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use thiserror::Error;

use super::application::Application;
use super::service_graph::{Mix, Service, ServiceGraph, ServiceProtocol};
use crate::text::nearest;

mod command;
mod service;

use service::service;

/// Largest request or response body, in bytes.
pub const BYTES_MAX: u32 = 16 << 20;
/// Most characters of a name.
const NAME_MAX: usize = 40;
/// Most characters of the name of a Kubernetes Service.
const ENTRY_NAME_MAX: usize = 63;
/// Most replicas of a service.
pub(crate) const REPLICAS_MAX: u32 = 16;

/// What is wrong with a graph, and where.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{at}: {problem}")]
pub struct GraphError {
    /// Where, such as `services[0].endpoints[1].calls[0].parallel[1].path`; a step of one call has
    /// its short form, such as `calls[0].path`.
    pub at: String,
    /// What was found, and what was expected.
    pub problem: String,
}

type Checked = Result<(), GraphError>;

fn bad(at: impl Into<String>, problem: impl Into<String>) -> GraphError {
    GraphError {
        at: at.into(),
        problem: problem.into(),
    }
}

/// A problem in the common form: what was found, and what was expected.
fn found(at: impl Into<String>, found: impl Display, expected: impl Display) -> GraphError {
    bad(at, format!("found {found}, expected {expected}"))
}

impl ServiceGraph {
    /// Checks that all parts are consistent. Code that uses a graph relies on this check.
    ///
    /// # Errors
    /// The first problem, and where it is.
    pub fn validate(&self) -> Result<(), GraphError> {
        validate(self)
    }
}

fn validate(graph: &ServiceGraph) -> Checked {
    name("name", &graph.name)?;
    let problem = graph.application.as_ref().and_then(Application::problem);
    if let Some((key, found_value, expected)) = problem {
        let at = format!("application.{key}");
        return Err(found(at.trim_end_matches('.'), found_value, expected));
    }
    if graph.services.is_empty() {
        return Err(empty("services", "service"));
    }
    let names = graph.services.iter().map(|s| s.name.as_str());
    unique("services", "service", "name", names)?;
    let max = graph
        .application
        .as_ref()
        .map_or(NAME_MAX, |_| ENTRY_NAME_MAX);
    for (i, s) in graph.services.iter().enumerate() {
        name_up_to(max, &format!("services[{i}].name"), &s.name)?;
    }
    for (i, s) in graph.services.iter().enumerate() {
        service(graph, &format!("services[{i}]"), s)?;
    }
    cycles(graph)?;
    let names = graph.mixes.iter().map(|m| m.name.as_str());
    unique("mixes", "mix", "name", names)?;
    if graph.mix("default").is_none() {
        return Err(bad("mixes", "found no mix \"default\", expected one"));
    }
    for (i, m) in graph.mixes.iter().enumerate() {
        mix(graph, &format!("mixes[{i}]"), m)?;
    }
    Ok(())
}

fn name(at: &str, text: &str) -> Checked {
    name_up_to(NAME_MAX, at, text)
}

fn name_up_to(max: usize, at: &str, text: &str) -> Checked {
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = (1..=max).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.chars().all(letters);
    if good {
        return Ok(());
    }
    let expected = format!("1 to {max} lower-case letters, digits and hyphens, a letter first");
    Err(found(at, format!("name {text:?}"), expected))
}

fn empty(at: impl Into<String>, what: &str) -> GraphError {
    found(at, "none", format!("at least one {what}"))
}

fn unique<'a>(
    at: &str,
    what: &'static str,
    key: &str,
    names: impl Iterator<Item = &'a str>,
) -> Checked {
    let mut seen = BTreeSet::new();
    for (i, name) in names.enumerate() {
        if !seen.insert(name) {
            let problem = format!("{what} {name:?} is defined twice, expected it once");
            return Err(bad(format!("{at}[{i}].{key}"), problem));
        }
    }
    Ok(())
}

fn unknown<'a>(
    at: &str,
    what: &str,
    name: &str,
    known: impl Iterator<Item = &'a str>,
) -> GraphError {
    let known: Vec<&str> = known.collect();
    let hint = nearest(name, known.iter().copied());
    let hint = hint.map(|meant| format!("; did you mean {meant:?}?"));
    bad(
        at,
        format!(
            "unknown {what} {name:?}, expected one of: {}{}",
            known.join(", "),
            hint.unwrap_or_default()
        ),
    )
}

fn find<'a>(graph: &'a ServiceGraph, at: &str, name: &str) -> Result<&'a Service, GraphError> {
    graph.service(name).ok_or_else(|| {
        let names = graph.services.iter().map(|s| s.name.as_str());
        unknown(at, "service", name, names)
    })
}

fn mix(graph: &ServiceGraph, at: &str, m: &Mix) -> Checked {
    name(&format!("{at}.name"), &m.name)?;
    if m.endpoints.is_empty() {
        return Err(empty(format!("{at}.endpoints"), "endpoint"));
    }
    for (i, e) in m.endpoints.iter().enumerate() {
        let at = format!("{at}.endpoints[{i}]");
        name(&format!("{at}.name"), &e.name)?;
        let target = find(graph, &format!("{at}.service"), &e.service)?;
        known_path(&format!("{at}.path"), target, &e.path)?;
        at_most(&format!("{at}.request_bytes"), e.request_bytes, BYTES_MAX)?;
        let method = &e.method;
        let of = &e.service;
        if target.protocol == ServiceProtocol::Grpc && method != "GET" {
            let expected = "no `method`: the path of a gRPC service is its method";
            let method = format!("{method:?} for {of:?}");
            return Err(found(format!("{at}.method"), method, expected));
        }
        if target.app.is_some() && e.request_bytes > 0 {
            let expected = "no `request_bytes`: the requests of a built-in application are fixed";
            let bytes = format!("{} for {of:?}", e.request_bytes);
            return Err(found(format!("{at}.request_bytes"), bytes, expected));
        }
        if method.is_empty() || !method.bytes().all(|b| b.is_ascii_uppercase()) {
            let expected = "an HTTP method in capital letters, such as GET or POST";
            return Err(found(
                format!("{at}.method"),
                format!("{method:?}"),
                expected,
            ));
        }
        at_least_1(&format!("{at}.weight"), e.weight)?;
    }
    Ok(())
}

/// Checks that `callee` has the endpoint of `written`: a gRPC method, or a path that may have a
/// query.
fn known_path(at: &str, callee: &Service, written: &str) -> Checked {
    let (bare, query) = match (callee.protocol, written.split_once('?')) {
        (protocol, Some(parts)) if protocol != ServiceProtocol::Grpc => parts,
        _ => (written, ""),
    };
    let mut known = match callee.app {
        Some(app) => app.paths().to_vec(),
        None => callee.endpoints.iter().map(|e| e.path.as_str()).collect(),
    };
    if !known.contains(&bare) {
        known.sort_unstable();
        return Err(unknown(at, "path", bare, known.into_iter()));
    }
    if query.bytes().any(|b| !b.is_ascii_graphic() || b == b'#') {
        let expected = "a query of printable ASCII, with other characters percent-encoded";
        return Err(found(at, format!("{written:?}"), expected));
    }
    Ok(())
}

fn at_least_1(at: &str, value: u32) -> Checked {
    if value > 0 {
        return Ok(());
    }
    Err(found(at, value, "at least 1"))
}

fn at_most(at: &str, value: u32, max: u32) -> Checked {
    if value <= max {
        return Ok(());
    }
    Err(found(at, value, format!("at most {max}")))
}

fn share(at: &str, value: f64) -> Checked {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(found(at, value, "a share from 0 to 1"))
}

/// Refuses calls that form a cycle. Removes services that call no remaining service, until none
/// can be removed: those left are in a cycle or lead to one.
fn cycles(graph: &ServiceGraph) -> Checked {
    let names = graph.services.iter().map(|s| s.name.as_str());
    let calls: BTreeMap<&str, Vec<&str>> = names.map(|name| (name, graph.callees(name))).collect();
    let callees = |name: &str| calls.get(name).map_or(&[][..], Vec::as_slice);
    let mut left: BTreeSet<&str> = calls.keys().copied().collect();
    loop {
        let calls_one = |name: &&str| callees(name).iter().any(|c| left.contains(c));
        let next: BTreeSet<&str> = left.iter().copied().filter(calls_one).collect();
        if next.is_empty() {
            return Ok(());
        }
        if next.len() == left.len() {
            break;
        }
        left = next;
    }
    let first = graph
        .services
        .iter()
        .find(|s| left.contains(s.name.as_str()));
    let mut ring: Vec<&str> = first.map(|s| s.name.as_str()).into_iter().collect();
    while let Some(last) = ring.last() {
        let Some(next) = callees(last).iter().find(|c| left.contains(*c)) else {
            break;
        };
        let seen = ring.iter().position(|s| s == next);
        ring.push(next);
        if let Some(start) = seen {
            let ring = ring[start..].join(" -> ");
            let problem =
                format!("calls form a cycle: {ring}, expected every chain of calls to end");
            return Err(bad("services", problem));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
