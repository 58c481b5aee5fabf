//! The rules of a service.

use super::super::application;
use super::super::service_graph::{Service, ServiceEndpoint, ServiceGraph, ServiceProtocol};
use super::super::step::Call;
use super::super::store::Operation;
use super::command::command;
use super::{
    BYTES_MAX, Checked, REPLICAS_MAX, at_least_1, at_most, bad, empty, find, found, known_path,
    share, unique,
};
use crate::limits::CONNECTIONS_MAX;

/// Largest CPU time or delay, in microseconds.
const US_MAX: u32 = 60_000_000;
/// Most repetitions of one call.
const TIMES_MAX: u32 = 10_000;

pub(super) fn service(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
    if s.concurrency > CONNECTIONS_MAX || (s.concurrency > 0 && s.app.is_some()) {
        let expected = format!("0 to {CONNECTIONS_MAX}, and 0 in a service with `app`");
        return Err(found(format!("{at}.concurrency"), s.concurrency, expected));
    }
    if let Some((key, found_value, expected)) = application::service_problem(graph, s) {
        return Err(found(format!("{at}.{key}"), found_value, expected));
    }
    at_least_1(&format!("{at}.replicas"), s.replicas)?;
    at_most(&format!("{at}.replicas"), s.replicas, REPLICAS_MAX)?;
    // The places of a command are of the services that its calls name.
    for (step_at, c) in calls(at, s) {
        find(graph, &format!("{step_at}.service"), &c.service)?;
    }
    command(graph, at, s)?;
    external(graph, at, s)?;
    store(graph, at, s)?;
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

/// Checks a real datastore. What only tare's own servers can do must not be set.
fn store(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
    let Some(store) = s.store else { return Ok(()) };
    let mut requested = graph.mixes.iter().flat_map(|m| &m.endpoints);
    let wrong = [
        (
            s.protocol != ServiceProtocol::Tcp,
            "another protocol than tcp",
        ),
        (s.app.is_some(), "`app` as well"),
        (s.command.is_some(), "`command` as well"),
        (s.replicas > 1, "several replicas"),
        (s.concurrency > 0, "`concurrency`"),
        (requested.any(|e| e.service == s.name), "a service in a mix"),
    ];
    if let Some((_, wrong)) = wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        let expected = "one replica with `protocol: tcp` and `endpoints` that is in no mix";
        return Err(found(format!("{at}.store"), wrong, expected));
    }
    for (i, e) in s.endpoints.iter().enumerate() {
        let wrong = [
            ("cpu_us", e.cpu_us > 0),
            ("delay_us", e.delay_us > 0),
            ("error_rate", e.error_rate > 0.0),
            ("calls", !e.calls.is_empty()),
        ];
        if let Some((key, _)) = wrong.iter().find(|(_, is_set)| *is_set) {
            let expected = format!(
                "only `path`, `response_bytes` and `operation` with `store: {}`",
                store.name()
            );
            return Err(found(
                format!("{at}.endpoints[{i}].{key}"),
                format!("`{key}`"),
                expected,
            ));
        }
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
    if e.operation != Operation::Read && s.protocol != ServiceProtocol::Tcp {
        let expected = "`operation` only in a service with `protocol: tcp`";
        return Err(found(
            format!("{at}.operation"),
            format!("protocol {}", s.protocol.name()),
            expected,
        ));
    }
    if let Some(i) = e.calls.iter().position(|step| step.parallel.is_empty()) {
        return Err(empty(format!("{at}.calls[{i}].parallel"), "call"));
    }
    calls_of(at.to_owned(), e).try_for_each(|(at, c)| call(graph, &at, c))
}

/// The calls of a service, and where they are.
fn calls<'s>(at: &str, s: &'s Service) -> impl Iterator<Item = (String, &'s Call)> {
    let endpoints = s.endpoints.iter().enumerate();
    endpoints.flat_map(move |(i, e)| calls_of(format!("{at}.endpoints[{i}]"), e))
}

/// The calls of an endpoint, and where they are.
fn calls_of(at: String, e: &ServiceEndpoint) -> impl Iterator<Item = (String, &Call)> {
    let steps = e.calls.iter().enumerate();
    steps.flat_map(move |(i, step)| {
        let at = format!("{at}.calls[{i}]");
        let single = step.parallel.len() == 1;
        let calls = step.parallel.iter().enumerate();
        calls.map(move |(j, c)| match single {
            true => (at.clone(), c),
            false => (format!("{at}.parallel[{j}]"), c),
        })
    })
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
