//! The rules of a service that is a program of the user.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::super::command::{self, Command};
use super::super::service_graph::{Service, ServiceGraph, ServiceProtocol};
use super::{Checked, found};
use crate::text::nearest;

/// Ports of the sidecars, which share the network of the program.
const SIDECAR_PORTS: [RangeInclusive<u16>; 3] = [15001..=15001, 15006..=15006, 15100..=32767];

/// Checks a service that is a program of the user. What tare's own servers do must not be set.
pub(super) fn command(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
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
    let is_path = ready.starts_with('/') && ready.bytes().all(|b| b.is_ascii_graphic());
    only(
        "command.ready",
        is_path,
        &format!("{ready:?}"),
        "a path of printable ASCII that begins with `/`",
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
    texts(graph, &format!("{at}.command"), s, command)?;
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

/// Checks the arguments and variables: names that no variable can have, and places without a value.
fn texts(graph: &ServiceGraph, at: &str, s: &Service, command: &Command) -> Checked {
    let callees = graph.callees(&s.name);
    let arguments = command.run.iter().enumerate();
    let arguments = arguments.map(|(i, text)| (format!("{at}.run[{i}]"), text));
    let variables = command.env.iter();
    let variables = variables.map(|(name, text)| (format!("{at}.env.{name}"), text));
    for (name, at) in command
        .env
        .keys()
        .map(|name| (name, format!("{at}.env.{name}")))
    {
        if name.is_empty() || name.contains('=') {
            let expected = "the name of a variable, without `=`";
            return Err(found(at, format!("{name:?}"), expected));
        }
    }
    for (at, text) in arguments.chain(variables) {
        let places = command::fill(text, |name, of| command::known(name, of, &callees));
        if let Err(place) = places {
            return Err(found(at, &place, permitted(graph, s, &place)));
        }
    }
    Ok(())
}

/// What is permitted in place of an unknown place, and what was probably meant.
fn permitted(graph: &ServiceGraph, s: &Service, place: &str) -> String {
    let inner = place.trim_matches(['{', '}']);
    let callees = graph.callees(&s.name);
    let of = inner
        .split_once(':')
        .filter(|(name, _)| command::OF_CALLED.contains(name));
    if let Some((_, of)) = of.filter(|(_, of)| graph.service(of).is_some()) {
        return format!(
            "a call of {of:?} in the `calls` of an endpoint of {:?}; the calls determine the services that a program \
             can have the address of, and these call {}",
            s.name,
            listed(&callees)
        );
    }
    let own = command::OWN.map(|name| format!("{{{name}}}"));
    let of_called = |callee: &&str| command::OF_CALLED.map(|name| format!("{{{name}:{callee}}}"));
    let called: Vec<String> = callees.iter().flat_map(of_called).collect();
    let all = own.iter().chain(&called).map(String::as_str);
    let hint = nearest(place, all).map(|meant| format!("; did you mean {meant}?"));
    let forms = command::OF_CALLED.map(|name| format!("{{{name}:NAME}}"));
    format!(
        "{}, or one of {} of a service that the `calls` of its endpoints name: {}{}",
        own.join(", "),
        forms.join(", "),
        listed(&callees),
        hint.unwrap_or_default()
    )
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => "no service".to_owned(),
        _ => names.join(", "),
    }
}
