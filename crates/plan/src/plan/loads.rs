//! The loads of a plan, from one entry or many.

use super::capacity::{self, Special};
use super::churn;
use super::file::{LoadFile, ReadFile};
use super::load_kind::LoadKind;
use super::overload;
use super::resolved::Load;
use crate::limits::{LIST_MAX, RATE_MAX, RATE_RPS_MAX, SECOND_NS};
use crate::load::{Arrivals, Pace, TRIAL_WARMUP_NS, step_warmup_ns};
use crate::source::{Count, Duration, Field, List, Location, Node, Problems, Rate, Spanned};
use crate::units::exact_duration;

/// A load with the locations for its problems.
pub(super) struct PlacedLoad {
    pub(super) load: Load,
    pub(super) location: Location,
    pub(super) connections_location: Location,
}

/// Resolves all loads, each with the locations for its problems.
pub(super) fn resolve(
    problems: &mut Problems,
    load: Field<LoadFile>,
    loads: Field<List<LoadFile>>,
    root: &Node,
    read_file: &ReadFile<'_>,
) -> Option<Vec<PlacedLoad>> {
    let entries = match (load, loads) {
        (Field::Given(load), Field::Given(_)) => {
            let location = root.entry("load").map_or(load.location, |e| e.key_location);
            problems
                .add(location, "found both `load` and `loads`")
                .expected("one of them")
                .help("`--set loads[0].rate=...` changes a load of a list");
            return None;
        }
        (load, Field::Absent) => {
            let location = load.location().unwrap_or(root.location);
            let value = load.or_else(LoadFile::default)?;
            vec![Spanned { value, location }]
        }
        (_, loads) => loads.optional()??.0,
    };
    if let Some(first_too_many) = entries.get(LIST_MAX) {
        too_many(problems, entries.len(), first_too_many.location);
        return None;
    }
    let mut all = Some(Vec::new());
    for Spanned { value, location } in entries {
        match (&mut all, expand(problems, value, location, read_file)) {
            (Some(list), Some(new)) => list.extend(new),
            _ => all = None,
        }
    }
    overload::complete(problems, all.as_mut()?)?;
    all
}

/// Reports a number of loads above the limit, before they are made.
pub(super) fn too_many(problems: &mut Problems, loads: usize, location: Location) {
    problems
        .add(location, format!("{loads} loads"))
        .expected(format!("at most {LIST_MAX}"));
}

/// The loads of one entry: every rate with every number of connections.
fn expand(
    problems: &mut Problems,
    mut entry: LoadFile,
    location: Location,
    read_file: &ReadFile<'_>,
) -> Option<Vec<PlacedLoad>> {
    let before = problems.list().len();
    if let Some(loads) = overload::resolve(problems, &mut entry, location)? {
        return Some(loads);
    }
    if let Some(special) = capacity::resolve(problems, &mut entry, location)? {
        return without_rate(problems, special, entry, location, read_file);
    }
    let arrivals = arrivals(problems, entry.arrivals, read_file)?;
    let duration_location = entry.duration.location().unwrap_or(location);
    let window_ns = Duration(arrivals.own_window_ns().unwrap_or(10 * SECOND_NS));
    let Duration(duration_ns) = entry.duration.or(window_ns)?;
    let rates = rates(problems, entry.rate, &arrivals, duration_ns, location)?;
    let connections = match entry.connections.optional()? {
        Some(List(connections)) => connections,
        None => {
            let value = Count(32);
            vec![Spanned { value, location }]
        }
    };
    let number = rates.len().saturating_mul(connections.len());
    if number > LIST_MAX {
        let last = match connections.len() > rates.len() {
            true => connections.last().map(|c| c.location),
            false => rates.last().map(|r| r.location),
        };
        too_many(problems, number, last.unwrap_or(location));
        return None;
    }
    let threads_location = entry.threads.location().unwrap_or(location);
    let Count(threads) = entry.threads.or(Count(1))?;
    let given_name = entry.name.optional()?;
    for connections in connections.iter().map(|c| c.value.0) {
        check_threads(problems, threads, connections, threads_location);
    }
    for rate_rps in rates.iter().map(|r| r.value.0) {
        check_duration(problems, rate_rps, duration_ns, duration_location);
    }
    if problems.list().len() > before {
        return None;
    }
    let template = Load {
        name: String::new(),
        kind: LoadKind::Open { rate_rps: 0.0 },
        connections: 0,
        threads,
        arrivals,
        pace: entry.pace.or(Pace::default())?,
        duration_ns,
        warmup_ns: entry.warmup.or(Duration(TRIAL_WARMUP_NS))?.0,
        timeout_ns: entry.timeout.or(Duration(10 * SECOND_NS))?.0,
        requests_per_connection: entry.requests_per_connection.optional()?.map(|n| n.0),
        streams: entry.streams.optional()?.map(|n| n.0),
        churn: churn::resolve(entry.churn)?,
    };
    let mut loads = Vec::new();
    for rate in &rates {
        let Rate(rate_rps) = rate.value;
        for c in &connections {
            let Count(per_load) = c.value;
            let mut parts: Vec<String> = given_name.iter().map(|name| name.0.clone()).collect();
            if parts.is_empty() || rates.len() > 1 {
                parts.push(rate_name(rate_rps, &template));
            }
            let several = connections.len() > 1;
            if several {
                parts.push(format!("{per_load}c"));
            }
            let load = Load {
                name: parts.join("-"),
                kind: LoadKind::Open { rate_rps },
                connections: per_load,
                ..template.clone()
            };
            loads.push(PlacedLoad {
                load,
                location: if several { c.location } else { rate.location },
                connections_location: c.location,
            });
        }
    }
    Some(loads)
}

/// The load of a search for the capacity, or of a closed loop.
fn without_rate(
    problems: &mut Problems,
    special: Special,
    entry: LoadFile,
    location: Location,
    read_file: &ReadFile<'_>,
) -> Option<Vec<PlacedLoad>> {
    let arrivals_location = entry.arrivals.location().unwrap_or(location);
    let arrivals = arrivals(problems, entry.arrivals, read_file)?;
    if arrivals.own_rate_rps(SECOND_NS).is_some() {
        problems
            .add(
                arrivals_location,
                format!("the arrivals {arrivals} do not work with `capacity`"),
            )
            .expected("constant, poisson or bursts:N")
            .help("the search chooses the rates");
        return None;
    }
    let threads_location = entry.threads.location().unwrap_or(location);
    let Count(threads) = entry.threads.or(Count(1))?;
    let connections = special.connections;
    check_threads(problems, threads, connections.value, threads_location);
    let duration_ns = match special.step_ns {
        Some(step_ns) => step_ns,
        None => entry.duration.or(Duration(10 * SECOND_NS))?.0,
    };
    let warmup_ns = match special.step_ns {
        Some(step_ns) => step_warmup_ns(step_ns),
        None => entry.warmup.or(Duration(TRIAL_WARMUP_NS))?.0,
    };
    let load = Load {
        name: entry.name.optional()?.map_or(special.name, |name| name.0),
        kind: special.kind,
        connections: connections.value,
        threads,
        arrivals,
        pace: entry.pace.or(Pace::default())?,
        duration_ns,
        warmup_ns,
        timeout_ns: entry.timeout.or(Duration(10 * SECOND_NS))?.0,
        requests_per_connection: entry.requests_per_connection.optional()?.map(|n| n.0),
        streams: entry.streams.optional()?.map(|n| n.0),
        churn: churn::resolve(entry.churn)?,
    };
    Some(vec![PlacedLoad {
        load,
        location,
        connections_location: connections.location,
    }])
}

/// Checks what a load of a sweep may have made invalid.
pub(super) fn check(problems: &mut Problems, load: &Load, location: Location) {
    check_threads(problems, load.threads, load.connections, location);
    if let Some(rate_rps) = load.rate_rps() {
        check_duration(problems, rate_rps, load.duration_ns, location);
    }
}

fn check_threads(problems: &mut Problems, threads: u32, connections: u32, location: Location) {
    if connections < threads {
        let found = format!("{threads} threads with {connections} connections");
        problems
            .add(location, found)
            .expected(format!("at most {connections}"))
            .help("every thread needs a connection of its own: raise `connections` or lower `threads`");
    }
}

fn check_duration(problems: &mut Problems, rate_rps: f64, duration_ns: u64, location: Location) {
    if rate_rps * duration_ns as f64 / (SECOND_NS as f64) < 1.0 {
        let needed_ms = (1e3 / rate_rps).ceil() as u64;
        let needed = exact_duration(needed_ms.saturating_mul(1_000_000));
        let duration = exact_duration(duration_ns);
        let found = format!("fewer than one request in {duration} at {rate_rps} rps");
        problems
            .add(location, found)
            .expected(format!("a duration of at least {needed}"))
            .help("raise `duration` or `rate`");
    }
}

fn arrivals(
    problems: &mut Problems,
    written: Field<String>,
    read_file: &ReadFile<'_>,
) -> Option<Arrivals> {
    let location = written.location().unwrap_or_default();
    let text = written.or_else(|| "poisson".to_owned())?;
    match Arrivals::parse(&text, read_file) {
        Ok(arrivals) => Some(arrivals),
        Err(error) => {
            problems.add_message(location, &error.to_string());
            None
        }
    }
}

/// The rates in the plan, or the one that the arrivals determine.
fn rates(
    problems: &mut Problems,
    written: Field<List<Rate>>,
    arrivals: &Arrivals,
    window_ns: u64,
    location: Location,
) -> Option<Vec<Spanned<Rate>>> {
    let one = |rps: f64| {
        let value = Rate(rps);
        vec![Spanned { value, location }]
    };
    let written_location = written.location();
    let Some(mean_rps) = arrivals.own_rate_rps(window_ns) else {
        let rates = written.optional()?;
        return Some(rates.map_or_else(|| one(200.0), |list| list.0));
    };
    if let Some(location) = written_location {
        problems
            .add(
                location,
                format!("found both a rate and the arrivals {arrivals}"),
            )
            .expected("no `rate`, because these arrivals determine it");
        return None;
    }
    if mean_rps > 0.0 && mean_rps <= RATE_RPS_MAX {
        return Some(one(mean_rps));
    }
    problems
        .add(
            location,
            format!("found a mean rate of {mean_rps} per second: {arrivals}"),
        )
        .expected(format!("a mean above 0 and up to {RATE_MAX}"));
    None
}

/// Name of a load: `200rps` or, if the arrivals determine the rate, with their kind:
/// `ramp-200rps`.
fn rate_name(rate_rps: f64, load: &Load) -> String {
    match load.arrivals.own_rate_rps(load.duration_ns) {
        None => format!("{rate_rps}rps"),
        Some(own) => {
            let text = load.arrivals.to_string();
            let kind = text.split([':', ' ']).next().unwrap_or_default();
            format!("{kind}-{}rps", own.round())
        }
    }
}
