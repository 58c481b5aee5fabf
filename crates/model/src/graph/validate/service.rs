//! The rules of a service.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::super::application;
use super::super::command;
use super::super::service_graph::{Service, ServiceEndpoint, ServiceGraph, ServiceProtocol};
use super::super::step::Call;
use super::super::store::Operation;
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
    if e.operation != Operation::Read && s.protocol != ServiceProtocol::Tcp {
        let expected = "`operation` only in a service with `protocol: tcp`";
        return Err(found(
            format!("{at}.operation"),
            format!("protocol {}", s.protocol.name()),
            expected,
        ));
    }
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
