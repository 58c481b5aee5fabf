//! The loads of a plan, from one entry or many.

use super::file::LoadFile;
use super::resolved::Load;
use crate::load::{Arrivals, Pace};
use crate::source::{At, Decoder, Node, Part, Place};
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
        match (&mut all, expand(d, value, place)) {
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
fn expand(d: &mut Decoder, entry: LoadFile, place: Place) -> Option<Vec<PlacedLoad>> {
    let before = d.count();
    let one = |value| vec![At { value, place }];
    let rates = entry.rate.or_else(|| one(200.0))?;
    let connections = entry
        .connections
        .or_else(|| vec![At { value: 32, place }])?;
    let threads = At {
        place: entry.threads.place().unwrap_or(place),
        value: entry.threads.or(1)?,
    };
    let duration = At {
        place: entry.duration.place().unwrap_or(place),
        value: entry.duration.or(10 * SECOND_NS)?,
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
        arrivals: entry.arrivals.or(Arrivals::default())?,
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
                parts.push(format!("{}rps", rate.value));
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
