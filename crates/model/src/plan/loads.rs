//! The loads of a plan, from one entry or many.

use super::file::LoadFile;
use super::resolved::Load;
use crate::limits::{RATE_MAX, RATE_RPS_MAX};
use crate::load::{Arrivals, ArrivalsError, Pace};
use crate::source::{At, Decoder, Node, Part, Place, quoted};
use crate::units::exact_duration;

const SECOND_NS: u64 = 1_000_000_000;

/// A load and where it comes from.
pub(super) struct PlacedLoad {
    pub(super) load: Load,
    pub(super) place: Place,
    pub(super) connections_place: Place,
}

/// Every load with the place that its mistakes are pointed at.
pub(super) fn resolve(
    d: &mut Decoder,
    load: Part<LoadFile>,
    loads: Part<Vec<At<LoadFile>>>,
    root: &Node,
    read_file: &super::ReadFile<'_>,
) -> Option<Vec<PlacedLoad>> {
    let entries = match (load, loads) {
        (Part::Given(load), Part::Given(loads)) => {
            let place = key_place(root, "load").unwrap_or(load.place);
            drop(loads);
            d.problem(place, "both `load` and `loads`")
                .expected("one of them")
                .help("`--set loads[0].rate=...` changes a load of a list");
            return None;
        }
        (load, Part::Absent) => {
            let place = load.place().unwrap_or(root.place);
            vec![At {
                value: load.or_else(LoadFile::default)?,
                place,
            }]
        }
        (_, loads) => loads.or_else(Vec::new)?,
    };
    let mut all = Some(Vec::new());
    for At { value, place } in entries {
        match (&mut all, expand(d, value, place, read_file)) {
            (Some(list), Some(new)) => list.extend(new),
            _ => all = None,
        }
    }
    all
}

fn key_place(root: &Node, key: &str) -> Option<Place> {
    root.entry(key).map(|e| e.key_place)
}

/// The loads of one entry: every rate with every number of connections.
fn expand(
    d: &mut Decoder,
    entry: LoadFile,
    place: Place,
    read_file: &super::ReadFile<'_>,
) -> Option<Vec<PlacedLoad>> {
    let before = d.count();
    let arrivals = arrivals(d, entry.arrivals, read_file)?;
    let duration = At {
        place: entry.duration.place().unwrap_or(place),
        value: entry
            .duration
            .or(arrivals.own_window_ns().unwrap_or(10 * SECOND_NS))?,
    };
    let rates = rates(d, entry.rate, &arrivals, duration.value, place)?;
    let connections = entry
        .connections
        .or_else(|| vec![At { value: 32, place }])?;
    let threads = At {
        place: entry.threads.place().unwrap_or(place),
        value: entry.threads.or(1)?,
    };
    let given_name = match entry.name {
        Part::Broken => return None,
        Part::Absent => None,
        Part::Given(name) => Some(name.value),
    };
    for c in &connections {
        check_threads(d, c, &threads);
    }
    for rate in &rates {
        check_slots(d, rate, &duration);
    }
    if d.count() > before {
        return None;
    }
    let template = Load {
        name: String::new(),
        rate_rps: 0.0,
        connections: 0,
        threads: threads.value,
        arrivals,
        pace: entry.pace.or(Pace::default())?,
        duration_ns: duration.value,
        warmup_ns: entry.warmup.or(2 * SECOND_NS)?,
        timeout_ns: entry.timeout.or(10 * SECOND_NS)?,
    };
    let mut loads = Vec::new();
    for rate in &rates {
        for c in &connections {
            let mut parts: Vec<String> = given_name.iter().cloned().collect();
            if parts.is_empty() || rates.len() > 1 {
                parts.push(rate_name(rate.value, &template));
            }
            if connections.len() > 1 {
                parts.push(format!("{}c", c.value));
            }
            let load = Load {
                name: parts.join("-"),
                rate_rps: rate.value,
                connections: c.value,
                ..template.clone()
            };
            let several = connections.len() > 1;
            loads.push(PlacedLoad {
                load,
                place: if several { c.place } else { rate.place },
                connections_place: c.place,
            });
        }
    }
    Some(loads)
}

fn arrivals(
    d: &mut Decoder,
    written: Part<String>,
    read_file: &super::ReadFile<'_>,
) -> Option<Arrivals> {
    let place = written.place().unwrap_or_default();
    let text = written.or_else(|| "constant".to_owned())?;
    match Arrivals::parse(&text, read_file) {
        Ok(arrivals) => Some(arrivals),
        Err(ArrivalsError::Syntax { .. }) => {
            let words = ["constant", "poisson", "wrk2", "bursts", "ramp", "steps"];
            d.problem(place, format!("found {}", quoted(&text)))
                .expected(Arrivals::SYNTAX)
                .nearest(&text, words);
            None
        }
        Err(error) => {
            d.problem(place, format!("found arrivals with a mistake: {error}"))
                .expected(Arrivals::SYNTAX);
            None
        }
    }
}

/// The rates that are written, or the one that follows from the arrivals.
fn rates(
    d: &mut Decoder,
    written: Part<Vec<At<f64>>>,
    arrivals: &Arrivals,
    window_ns: u64,
    place: Place,
) -> Option<Vec<At<f64>>> {
    let Some(value) = arrivals.own_rate_rps(window_ns) else {
        return written.or_else(|| {
            vec![At {
                value: 200.0,
                place,
            }]
        });
    };
    if let Some(place) = written.place() {
        d.problem(place, format!("a rate beside the arrivals {arrivals}"))
            .expected("no `rate`: it follows from these arrivals");
        return None;
    }
    if value > 0.0 && value <= RATE_RPS_MAX {
        return Some(vec![At { value, place }]);
    }
    d.problem(
        place,
        format!("a mean rate of {value} per second: {arrivals}"),
    )
    .expected(format!("a mean above 0 and up to {RATE_MAX}"));
    None
}

/// `200rps`; where the arrivals have a rate of their own, their kind comes first.
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

fn check_threads(d: &mut Decoder, connections: &At<u32>, threads: &At<u32>) {
    if connections.value < threads.value {
        d.problem(
            threads.place,
            format!(
                "{} threads with {} connections",
                threads.value, connections.value
            ),
        )
        .expected(format!("at most {}", connections.value))
        .help("every thread needs a connection of its own: raise `connections` or lower `threads`");
    }
}

fn check_slots(d: &mut Decoder, rate: &At<f64>, duration: &At<u64>) {
    let slots = rate.value * duration.value as f64 / SECOND_NS as f64;
    if slots < 1.0 {
        let needed_ms = (1e3 / rate.value).ceil() as u64;
        d.problem(
            duration.place,
            format!(
                "not one request fits: {} per second for {}",
                rate.value,
                exact_duration(duration.value)
            ),
        )
        .expected(format!(
            "at least {}",
            exact_duration(needed_ms.saturating_mul(1_000_000))
        ))
        .help("raise `duration` or `rate`");
    }
}
