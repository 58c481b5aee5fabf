//! The rules of a service graph.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

use thiserror::Error;

use crate::limits::CONNECTIONS_MAX;

use super::command;
use super::service_graph::{Mix, Service, ServiceEndpoint, ServiceGraph, ServiceProtocol};
use super::step::Call;

/// Largest request or response body, in bytes.
pub const BYTES_MAX: u32 = 16 << 20;
/// Largest CPU time or delay, in microseconds.
const US_MAX: u32 = 60_000_000;
/// Most replicas of a service.
pub(crate) const REPLICAS_MAX: u32 = 16;
/// Most repetitions of one call.
const TIMES_MAX: u32 = 10_000;

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
    if graph.services.is_empty() {
        return Err(empty("services", "service"));
    }
    let names = graph.services.iter().map(|s| s.name.as_str());
    unique("services", "service", "name", names)?;
    for (i, s) in graph.services.iter().enumerate() {
        name(&format!("services[{i}].name"), &s.name)?;
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
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = (1..=40).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.chars().all(letters);
    if good {
        return Ok(());
    }
    let expected = "1 to 40 lower-case letters, digits and hyphens, a letter first";
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
    let known = known.collect::<Vec<_>>().join(", ");
    bad(
        at,
        format!("unknown {what} {name:?}, expected one of: {known}"),
    )
}

fn find<'a>(graph: &'a ServiceGraph, at: &str, name: &str) -> Result<&'a Service, GraphError> {
    graph.service(name).ok_or_else(|| {
        let names = graph.services.iter().map(|s| s.name.as_str());
        unknown(at, "service", name, names)
    })
}

fn service(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
    if s.concurrency > CONNECTIONS_MAX || (s.concurrency > 0 && s.app.is_some()) {
        let expected = format!("0 to {CONNECTIONS_MAX}, and 0 in a service with `app`");
        return Err(found(format!("{at}.concurrency"), s.concurrency, expected));
    }
    at_least_1(&format!("{at}.replicas"), s.replicas)?;
    at_most(&format!("{at}.replicas"), s.replicas, REPLICAS_MAX)?;
    command(graph, at, s)?;
    external(graph, at, s)?;
    match (s.app, s.endpoints.is_empty()) {
        (Some(_), false) => return Err(found(at, "both", "either `app` or `endpoints`")),
        (None, true) => return Err(found(at, "neither", "either `app` or `endpoints`")),
        (Some(_), true) => app(graph, at, s)?,
        (None, false) if !s.uses.is_empty() => {
            let expected = "only `calls` of its endpoints";
            return Err(found(
                format!("{at}.uses"),
                "`uses` in a service without `app`",
                expected,
            ));
        }
        (None, false) => {}
    }
    let paths = s.endpoints.iter().map(|e| e.path.as_str());
    unique(&format!("{at}.endpoints"), "path", "path", paths)?;
    for (i, e) in s.endpoints.iter().enumerate() {
        endpoint(graph, &format!("{at}.endpoints[{i}]"), s, e)?;
    }
    Ok(())
}

fn external(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
    let mut requested = graph.mixes.iter().flat_map(|m| &m.endpoints);
    let wrong = if !s.external {
        return Ok(());
    } else if s.protocol != ServiceProtocol::Tcp {
        "another protocol than tcp"
    } else if !graph.callees(&s.name).is_empty() {
        "a service that makes calls"
    } else if s.replicas > 1 {
        "several replicas"
    } else if requested.any(|e| e.service == s.name) {
        "a service in a mix"
    } else {
        return Ok(());
    };
    let expected = "one replica with `protocol: tcp` that makes no calls and is in no mix";
    Err(found(format!("{at}.external"), wrong, expected))
}

/// Ports of the sidecars, which share the network of the program.
const SIDECAR_PORTS: [RangeInclusive<u16>; 3] = [15001..=15001, 15006..=15006, 15100..=32767];

/// Checks a service that is a program of the user. What tare's own servers do must not be set.
fn command(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
    let Some(command) = &s.command else {
        return Ok(());
    };
    let only = |key: &str, is_good: bool, found_value: &dyn Display, expected: &str| match is_good {
        true => Ok(()),
        false => Err(found(format!("{at}.{key}"), found_value, expected)),
    };
    let (protocol, ready) = (s.protocol.name(), &command.ready);
    let is_http = s.protocol == ServiceProtocol::Http;
    only(
        "protocol",
        is_http,
        &protocol,
        "http in a service with `command`",
    )?;
    only("app", s.app.is_none(), &"both", "either `app` or `command`")?;
    only("replicas", s.replicas == 1, &s.replicas, "1 with `command`")?;
    let is_zero = s.concurrency == 0;
    only("concurrency", is_zero, &s.concurrency, "0 with `command`")?;
    let has_program = command.run.first().is_some_and(|p| !p.is_empty());
    only("command.run", has_program, &"none", "a program")?;
    let is_path = ready.starts_with('/');
    only(
        "command.ready",
        is_path,
        &ready,
        "a path that begins with `/`",
    )?;
    let within = command.ready_within_s;
    let is_good = (1..=600).contains(&within);
    only("command.ready_within_s", is_good, &within, "1 to 600")?;
    if let Some(port) = command.port {
        let expected = "`port` only with `network: own`";
        only("command.port", command.network.is_own(), &port, expected)?;
        let is_free = port > 0 && !SIDECAR_PORTS.iter().any(|ports| ports.contains(&port));
        let expected = "1 to 65535, without 15001, 15006 and 15100 to 32767, which sidecars use";
        only("command.port", is_free, &port, expected)?;
    }
    let is_server = |other: &&Service| other.command.is_none();
    let mut servers = graph.services.iter().filter(is_server);
    if let Some(caller) =
        servers.find(|other| graph.callees(&other.name).contains(&s.name.as_str()))
    {
        let found_value = format!("a call by {:?}, which is a server of tare", caller.name);
        let expected = "only calls by the load and by services with `command`";
        return Err(found(format!("{at}.command"), found_value, expected));
    }
    let callees = graph.callees(&s.name);
    for text in command.texts() {
        if let Err(place) = command::fill(text, |name, of| command::known(name, of, &callees)) {
            let expected = "{port}, {host}, {address}, {instance}, or {url:NAME}, {address:NAME}, {host:NAME} or \
                            {port:NAME} of a service that its endpoints call";
            return Err(found(format!("{at}.command"), place, expected));
        }
    }
    for (i, e) in s.endpoints.iter().enumerate() {
        let plain =
            e.response_bytes == 0 && e.cpu_us == 0 && e.delay_us == 0 && e.error_rate == 0.0;
        let expected = "only `path` and `calls`: the program determines the rest";
        only(
            &format!("endpoints[{i}]"),
            plain,
            &"sizes, times or errors",
            expected,
        )?;
    }
    Ok(())
}

fn app(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
    let Some(app) = s.app else { return Ok(()) };
    if s.protocol != app.protocol() {
        let expected = format!("{} for app `{}`", app.protocol().name(), app.name());
        let protocol = format!("protocol {}", s.protocol.name());
        return Err(found(format!("{at}.protocol"), protocol, expected));
    }
    let mut used = Vec::new();
    for (i, name) in s.uses.iter().enumerate() {
        used.push(find(graph, &format!("{at}.uses[{i}]"), name)?.app);
    }
    match app.needs().iter().find(|n| !used.contains(&Some(**n))) {
        None => Ok(()),
        Some(needs) => Err(bad(
            format!("{at}.uses"),
            format!(
                "app `{}` calls `{}`, expected a service of that app among its `uses`",
                app.name(),
                needs.name()
            ),
        )),
    }
}

fn endpoint(graph: &ServiceGraph, at: &str, s: &Service, e: &ServiceEndpoint) -> Checked {
    path(&format!("{at}.path"), s.protocol, &e.path)?;
    at_most(&format!("{at}.response_bytes"), e.response_bytes, BYTES_MAX)?;
    at_most(&format!("{at}.cpu_us"), e.cpu_us, US_MAX)?;
    at_most(&format!("{at}.delay_us"), e.delay_us, US_MAX)?;
    share(&format!("{at}.error_rate"), e.error_rate)?;
    for (i, step) in e.calls.iter().enumerate() {
        if step.parallel.is_empty() {
            return Err(empty(format!("{at}.calls[{i}].parallel"), "call"));
        }
        for (j, c) in step.parallel.iter().enumerate() {
            let at = match step.parallel.len() {
                1 => format!("{at}.calls[{i}]"),
                _ => format!("{at}.calls[{i}].parallel[{j}]"),
            };
            call(graph, &at, c)?;
        }
    }
    Ok(())
}

fn call(graph: &ServiceGraph, at: &str, c: &Call) -> Checked {
    let callee = find(graph, &format!("{at}.service"), &c.service)?;
    if callee.app.is_some() && callee.protocol == ServiceProtocol::Grpc {
        let problem = format!(
            "{:?} is a built-in gRPC application, expected a service with endpoints or an HTTP one",
            c.service
        );
        return Err(bad(format!("{at}.service"), problem));
    }
    known_path(&format!("{at}.path"), callee, &c.path)?;
    at_most(&format!("{at}.request_bytes"), c.request_bytes, BYTES_MAX)?;
    at_least_1(&format!("{at}.times"), c.times)?;
    at_most(&format!("{at}.times"), c.times, TIMES_MAX)?;
    share(&format!("{at}.share"), c.share)
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

fn path(at: &str, protocol: ServiceProtocol, text: &str) -> Checked {
    let (good, expected) = match protocol {
        ServiceProtocol::Http | ServiceProtocol::Tcp | ServiceProtocol::Http2 => (
            text.starts_with('/')
                && !text.starts_with("/tare/")
                && !text
                    .bytes()
                    .any(|b| !b.is_ascii_graphic() || b == b'?' || b == b'#'),
            "a path of printable ASCII that begins with `/`, without a query and not under /tare/",
        ),
        ServiceProtocol::Grpc => (
            text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'),
            "a gRPC method name of letters, digits and underscores",
        ),
    };
    if good {
        return Ok(());
    }
    Err(found(at, format!("{text:?}"), expected))
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
    let mut left: Vec<&str> = graph.services.iter().map(|s| s.name.as_str()).collect();
    loop {
        let before = left.len();
        let snapshot = left.clone();
        left.retain(|s| graph.callees(s).iter().any(|c| snapshot.contains(c)));
        if left.is_empty() {
            return Ok(());
        }
        if left.len() == before {
            break;
        }
    }
    let mut ring = vec![left[0]];
    loop {
        let callees = graph.callees(ring[ring.len() - 1]);
        let Some(next) = callees.into_iter().find(|c| left.contains(c)) else {
            return Ok(());
        };
        let seen = ring.iter().position(|s| *s == next);
        ring.push(next);
        if let Some(start) = seen {
            let ring = ring[start..].join(" -> ");
            let problem =
                format!("calls form a cycle: {ring}, expected every chain of calls to end");
            return Err(bad("services", problem));
        }
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
