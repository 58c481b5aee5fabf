//! What a service graph must fulfil, and the words for what it does not.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{Call, Mix, Service, ServiceEndpoint, ServiceGraph, ServiceProtocol};

/// Largest request or response body, in bytes.
pub const BYTES_MAX: u32 = 16 << 20;
/// Largest CPU time or delay, in microseconds.
pub const US_MAX: u32 = 60_000_000;
/// Most repetitions of one call.
pub const TIMES_MAX: u32 = 10_000;

/// What is wrong with a graph, and where.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{at}: {problem}")]
pub struct GraphError {
    /// Where, as `services[0].endpoints[1].calls[0].parallel[1].path`; a step of
    /// one call is named in its short form, as `calls[0].path`.
    pub at: String,
    /// What.
    pub problem: GraphProblem,
}

/// Kinds of wrong.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum GraphProblem {
    /// A name that could not be a host name's label.
    #[error(
        "found name {0:?}, expected 1 to 40 lower-case letters, digits and hyphens, a letter first"
    )]
    Name(String),
    /// A list without items.
    #[error("found none, expected at least one {0}")]
    Empty(&'static str),
    /// Two of one name.
    #[error("{what} {name:?} is there twice, expected different names")]
    Duplicate {
        /// Kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A name that nothing in the graph bears.
    #[error("found {what} {found:?}, expected one of: {expected}")]
    Unknown {
        /// Kind of thing.
        what: &'static str,
        /// What was written.
        found: String,
        /// The names that there are, with commas.
        expected: String,
    },
    /// A number outside its range.
    #[error("found {found}, expected {expected}")]
    Range {
        /// What was written.
        found: String,
        /// The range.
        expected: String,
    },
    /// A path or method name that cannot be one.
    #[error("found {found:?}, expected {expected}")]
    Path {
        /// What was written.
        found: String,
        /// What it has to look like.
        expected: &'static str,
    },
    /// A service that is both an application and synthetic, or neither.
    #[error("found {0}, expected either `app` or `endpoints`")]
    AppOrEndpoints(&'static str),
    /// `uses` beside synthetic endpoints.
    #[error("found `uses` at a service without `app`, expected the calls of its endpoints to tell")]
    UsesWithoutApp,
    /// An application that speaks something else.
    #[error("found protocol {found}, expected {expected} for app `{app}`")]
    AppProtocol {
        /// The application.
        app: &'static str,
        /// What was written.
        found: &'static str,
        /// What it speaks.
        expected: &'static str,
    },
    /// An application that misses one that it calls.
    #[error("app `{app}` calls `{needs}`, expected a service of that app among its `uses`")]
    AppNeeds {
        /// The application.
        app: &'static str,
        /// The application that it calls.
        needs: &'static str,
    },
    /// A synthetic call to a gRPC application.
    #[error(
        "{0:?} is a built-in gRPC application, expected a service with endpoints or an HTTP one"
    )]
    AppNotCallable(String),
    /// Something of an endpoint that its service has no use for.
    #[error("found {found} for {service:?}, expected {expected}")]
    NotOfService {
        /// What was written.
        found: String,
        /// The service.
        service: String,
        /// What fits it.
        expected: &'static str,
    },
    /// Services that call each other in a ring.
    #[error("calls form a cycle: {0}; expected every chain of calls to end")]
    Cycle(String),
    /// No mix that is used when none is named.
    #[error("found no mix \"default\", expected one")]
    NoDefaultMix,
}

type Checked = Result<(), GraphError>;

fn bad(at: impl Into<String>, problem: GraphProblem) -> GraphError {
    GraphError {
        at: at.into(),
        problem,
    }
}

pub(super) fn validate(graph: &ServiceGraph) -> Checked {
    name("name", &graph.name)?;
    if graph.services.is_empty() {
        return Err(bad("services", GraphProblem::Empty("service")));
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
        return Err(bad("mixes", GraphProblem::NoDefaultMix));
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
    Err(bad(at, GraphProblem::Name(text.to_owned())))
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
            let name = name.to_owned();
            return Err(bad(
                format!("{at}[{i}].{key}"),
                GraphProblem::Duplicate { what, name },
            ));
        }
    }
    Ok(())
}

fn unknown<'a>(
    what: &'static str,
    found: &str,
    expected: impl Iterator<Item = &'a str>,
) -> GraphProblem {
    GraphProblem::Unknown {
        what,
        found: found.to_owned(),
        expected: expected.collect::<Vec<_>>().join(", "),
    }
}

fn find<'a>(graph: &'a ServiceGraph, at: String, found: &str) -> Result<&'a Service, GraphError> {
    graph.service(found).ok_or_else(|| {
        let names = graph.services.iter().map(|s| s.name.as_str());
        bad(at, unknown("service", found, names))
    })
}

fn service(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
    match (s.app, s.endpoints.is_empty()) {
        (Some(_), false) => return Err(bad(at, GraphProblem::AppOrEndpoints("both"))),
        (None, true) => return Err(bad(at, GraphProblem::AppOrEndpoints("neither"))),
        (Some(_), true) => app(graph, at, s)?,
        (None, false) if !s.uses.is_empty() => {
            return Err(bad(format!("{at}.uses"), GraphProblem::UsesWithoutApp));
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

fn app(graph: &ServiceGraph, at: &str, s: &Service) -> Checked {
    let Some(app) = s.app else { return Ok(()) };
    if s.protocol != app.protocol() {
        let problem = GraphProblem::AppProtocol {
            app: app.name(),
            found: s.protocol.name(),
            expected: app.protocol().name(),
        };
        return Err(bad(format!("{at}.protocol"), problem));
    }
    let mut used = Vec::new();
    for (i, name) in s.uses.iter().enumerate() {
        used.push(find(graph, format!("{at}.uses[{i}]"), name)?.app);
    }
    match app.needs().iter().find(|n| !used.contains(&Some(**n))) {
        None => Ok(()),
        Some(needs) => Err(bad(
            format!("{at}.uses"),
            GraphProblem::AppNeeds {
                app: app.name(),
                needs: needs.name(),
            },
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
            let at = format!("{at}.calls[{i}].parallel");
            return Err(bad(at, GraphProblem::Empty("call")));
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
    let callee = find(graph, format!("{at}.service"), &c.service)?;
    if callee.app.is_some() && callee.protocol == ServiceProtocol::Grpc {
        let problem = GraphProblem::AppNotCallable(c.service.clone());
        return Err(bad(format!("{at}.service"), problem));
    }
    known_path(&format!("{at}.path"), callee, &c.path)?;
    at_most(&format!("{at}.request_bytes"), c.request_bytes, BYTES_MAX)?;
    if c.times == 0 {
        return Err(range(&format!("{at}.times"), 0, "at least 1"));
    }
    at_most(&format!("{at}.times"), c.times, TIMES_MAX)?;
    share(&format!("{at}.share"), c.share)
}

fn mix(graph: &ServiceGraph, at: &str, m: &Mix) -> Checked {
    name(&format!("{at}.name"), &m.name)?;
    if m.endpoints.is_empty() {
        return Err(bad(
            format!("{at}.endpoints"),
            GraphProblem::Empty("endpoint"),
        ));
    }
    for (i, e) in m.endpoints.iter().enumerate() {
        let at = format!("{at}.endpoints[{i}]");
        name(&format!("{at}.name"), &e.name)?;
        let target = find(graph, format!("{at}.service"), &e.service)?;
        known_path(&format!("{at}.path"), target, &e.path)?;
        at_most(&format!("{at}.request_bytes"), e.request_bytes, BYTES_MAX)?;
        let method = &e.method;
        let unfit = |field: &str, found: String, expected| {
            let service = e.service.clone();
            let problem = GraphProblem::NotOfService {
                found,
                service,
                expected,
            };
            Err(bad(format!("{at}.{field}"), problem))
        };
        if target.protocol == ServiceProtocol::Grpc && method != "GET" {
            let expected = "no method: it speaks gRPC, and the path names the call";
            return unfit("method", format!("{method:?}"), expected);
        }
        if target.app.is_some() && e.request_bytes > 0 {
            let expected = "none: the requests of a built-in application are its own";
            return unfit("request_bytes", e.request_bytes.to_string(), expected);
        }
        if method.is_empty() || !method.bytes().all(|b| b.is_ascii_uppercase()) {
            let problem = GraphProblem::Path {
                found: method.clone(),
                expected: "a request method in capitals, as GET or POST",
            };
            return Err(bad(format!("{at}.method"), problem));
        }
        if e.weight == 0 {
            return Err(range(&format!("{at}.weight"), 0, "at least 1"));
        }
    }
    Ok(())
}

/// `written` is a gRPC method, or a path with perhaps a query; the endpoint is the path's.
fn known_path(at: &str, callee: &Service, written: &str) -> Checked {
    let (bare, query) = match (callee.protocol, written.split_once('?')) {
        (ServiceProtocol::Http, Some(parts)) => parts,
        _ => (written, ""),
    };
    let mut known = match callee.app {
        Some(app) => app.paths().to_vec(),
        None => callee.endpoints.iter().map(|e| e.path.as_str()).collect(),
    };
    if !known.contains(&bare) {
        known.sort_unstable();
        return Err(bad(at, unknown("path", bare, known.into_iter())));
    }
    if query.bytes().any(|b| !b.is_ascii_graphic() || b == b'#') {
        let problem = GraphProblem::Path {
            found: written.to_owned(),
            expected: "a query of printable ASCII, the rest percent-encoded",
        };
        return Err(bad(at, problem));
    }
    Ok(())
}

fn path(at: &str, protocol: ServiceProtocol, text: &str) -> Checked {
    let (good, expected) = match protocol {
        ServiceProtocol::Http => (
            text.starts_with('/')
                && !text.starts_with("/tare/")
                && !text
                    .bytes()
                    .any(|b| !b.is_ascii_graphic() || b == b'?' || b == b'#'),
            "a path from / of printable ASCII, without a query and not under /tare/",
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
    let found = text.to_owned();
    Err(bad(at, GraphProblem::Path { found, expected }))
}

fn range(at: &str, found: impl ToString, expected: impl ToString) -> GraphError {
    let (found, expected) = (found.to_string(), expected.to_string());
    bad(at, GraphProblem::Range { found, expected })
}

fn at_most(at: &str, value: u32, max: u32) -> Checked {
    if value <= max {
        return Ok(());
    }
    Err(range(at, value, format!("at most {max}")))
}

fn share(at: &str, value: f64) -> Checked {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(range(at, value, "a share from 0 to 1"))
}

/// Takes away services that call nobody who is left, until none can be taken;
/// whoever stays is in a ring or leads to one.
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
            let words = ring[start..].join(" -> ");
            return Err(bad("services", GraphProblem::Cycle(words)));
        }
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
