//! A recorded trace of instants, as text and as JSON.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::quoted;
use crate::units::{UnitError, parse_duration};

/// Most slots of a recorded trace. It is part of the specification of a generator.
pub const TRACE_SLOTS_MAX: usize = 5_000_000;

/// Why arrivals, or the file of a trace, are refused: what was found and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ArrivalsError(pub(super) String);

impl From<UnitError> for ArrivalsError {
    fn from(error: UnitError) -> Self {
        Self(error.to_string())
    }
}

/// Recorded instants in nanoseconds, in order, the first one usually 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "TraceWire", into = "TraceWire")]
#[schemars(with = "TraceWire")]
pub struct Trace {
    /// Slots that count.
    slots: u64,
    length_ns: u64,
    warm: WarmParts,
    instants_ns: Option<Arc<[u64]>>,
}

/// The parts of a window whose requests are sent, and excluded from results as those of the warm-up are: of each `every_ns`, the
/// first `length_ns`. There are none by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WarmParts {
    /// From the start of one to the start of the next, in nanoseconds.
    pub every_ns: u64,
    /// Length of each, in nanoseconds.
    pub length_ns: u64,
}

impl WarmParts {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length_ns == 0 || self.every_ns == 0
    }

    /// Whether an instant is in one of them, in nanoseconds since the start of the window.
    #[must_use]
    pub fn contain(&self, ns: u64) -> bool {
        !self.is_empty() && ns % self.every_ns < self.length_ns
    }
}

/// A [`Trace`] in JSON.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TraceWire {
    /// Number of slots, without those of the warm parts.
    slots: u64,
    /// The last instant.
    length_ns: u64,
    /// Parts whose slots do not count.
    #[serde(default, skip_serializing_if = "WarmParts::is_empty")]
    warm: WarmParts,
    /// Gaps between the instants in nanoseconds, the first one from 0: LEB128 in
    /// base64. Absent in results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gaps_base64: Option<String>,
}

impl Trace {
    /// A trace of instants in nanoseconds, given in any order.
    ///
    /// # Errors
    /// [`ArrivalsError`] for no instants, or more than [`TRACE_SLOTS_MAX`].
    pub fn new(mut instants_ns: Vec<u64>) -> Result<Self, ArrivalsError> {
        let slots = instants_ns.len();
        if slots == 0 || slots > TRACE_SLOTS_MAX {
            return Err(ArrivalsError(format!(
                "found a trace of {slots} slots, expected 1 to {TRACE_SLOTS_MAX}"
            )));
        }
        instants_ns.sort_unstable();
        Ok(Self {
            slots: slots as u64,
            length_ns: instants_ns[slots - 1],
            warm: WarmParts::default(),
            instants_ns: Some(instants_ns.into()),
        })
    }

    /// The same instants, of which those in these parts do not count.
    ///
    /// # Errors
    /// [`ArrivalsError`] if none counts.
    pub fn with_warm_parts(mut self, warm: WarmParts) -> Result<Self, ArrivalsError> {
        self.warm = warm;
        self.slots = self.counted_before(u64::MAX);
        match self.slots {
            0 => Err(ArrivalsError(
                "found a trace whose slots all warm up, expected one that counts".to_owned(),
            )),
            _ => Ok(self),
        }
    }

    /// The parts whose slots do not count.
    #[must_use]
    pub fn warm(&self) -> WarmParts {
        self.warm
    }

    /// Reads a file of timestamps: one per line, in seconds with up to nine decimals, in any order
    /// and from any origin; the earliest becomes the start of the window. Text after a space, tab
    /// or comma, empty lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    /// [`ArrivalsError`] for the first line without a timestamp.
    pub fn parse(text: &str) -> Result<Self, ArrivalsError> {
        let mut instants = Vec::new();
        for (i, whole) in text.lines().enumerate() {
            let line = whole.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = line
                .split([' ', '\t', ','])
                .next()
                .filter(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
            let ns = number.and_then(|n| parse_duration(&format!("{n}s")).ok());
            instants.push(ns.ok_or_else(|| {
                let (number, found) = (i + 1, quoted(line));
                ArrivalsError(format!(
                    "line {number}: found {found}, expected an instant in seconds, like 0.0125"
                ))
            })?);
        }
        let first = instants.iter().copied().min().unwrap_or(0);
        instants.iter_mut().for_each(|ns| *ns -= first);
        Self::new(instants)
    }

    /// The instants in order; empty in a result.
    #[must_use]
    pub fn instants_ns(&self) -> &[u64] {
        self.instants_ns.as_deref().unwrap_or_default()
    }

    /// Number of slots.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// The last instant.
    pub(super) fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// Whether it includes the instants.
    pub(super) fn has_instants(&self) -> bool {
        self.instants_ns.is_some()
    }

    /// A copy without the instants.
    pub(super) fn without_instants(&self) -> Self {
        Self {
            instants_ns: None,
            ..*self
        }
    }

    /// Slots before an instant that count.
    pub(super) fn counted_before(&self, ns: u64) -> u64 {
        let counted = |all: &Arc<[u64]>| {
            let before = all.iter().take_while(|at| **at < ns);
            before.filter(|at| !self.warm.contain(**at)).count() as u64
        };
        self.instants_ns.as_ref().map_or(self.slots, counted)
    }

    pub(super) fn slots_before(&self, ns: u64) -> u64 {
        match &self.instants_ns {
            Some(all) => all.partition_point(|&at| at < ns) as u64,
            None => self.slots,
        }
    }
}

impl From<Trace> for TraceWire {
    fn from(trace: Trace) -> Self {
        let gaps_base64 = trace.instants_ns.map(|all| {
            let mut bytes = Vec::with_capacity(all.len() * 4);
            let mut before = 0;
            for &at in all.iter() {
                write_leb128(&mut bytes, at - before);
                before = at;
            }
            STANDARD.encode(bytes)
        });
        Self {
            slots: trace.slots,
            length_ns: trace.length_ns,
            warm: trace.warm,
            gaps_base64,
        }
    }
}

impl TryFrom<TraceWire> for Trace {
    type Error = ArrivalsError;

    fn try_from(wire: TraceWire) -> Result<Self, ArrivalsError> {
        let Some(text) = wire.gaps_base64 else {
            return Ok(Self {
                slots: wire.slots,
                length_ns: wire.length_ns,
                warm: wire.warm,
                instants_ns: None,
            });
        };
        let bad = |why: &str| ArrivalsError(format!("gaps_base64: {why}"));
        let bytes = STANDARD.decode(text).map_err(|e| bad(&e.to_string()))?;
        let mut instants = Vec::new();
        let mut rest = bytes.as_slice();
        let mut at: u64 = 0;
        while !rest.is_empty() {
            let gap = read_leb128(&mut rest)
                .ok_or_else(|| bad("truncated or too large LEB128 number"))?;
            at = at
                .checked_add(gap)
                .ok_or_else(|| bad("the instants exceed 64 bits"))?;
            instants.push(at);
        }
        let trace = Self::new(instants)?.with_warm_parts(wire.warm)?;
        if (trace.slots, trace.length_ns) != (wire.slots, wire.length_ns) {
            return Err(bad("the instants differ from slots and length_ns"));
        }
        Ok(trace)
    }
}

fn write_leb128(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn read_leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        n |= part << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Arrivals;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_trace_reads_back(mut instants in prop::collection::vec(0u64..1 << 50, 1..200)) {
            let arrivals = Arrivals::Trace(Trace::new(instants.clone()).unwrap());
            let json = serde_json::to_string(&arrivals).unwrap();
            let back: Arrivals = serde_json::from_str(&json).unwrap();
            instants.sort_unstable();
            prop_assert_eq!(&back, &arrivals);
            let Arrivals::Trace(trace) = &back else { panic!("expected a trace") };
            prop_assert_eq!(trace.instants_ns(), instants.as_slice());
            let described = serde_json::to_string(&arrivals.without_instants()).unwrap();
            prop_assert!(described.len() < 80, "{}", described);
            let back: Arrivals = serde_json::from_str(&described).unwrap();
            prop_assert!(back.check(1.0, 1).is_err(), "a trace without instants was accepted");
        }

        #[test]
        fn only_slots_outside_warm_parts_count(
            instants in prop::collection::vec(0u64..1_000, 1..200),
            every_ns in 1u64..300, length_ns in 1u64..300, until in 0u64..1_000,
        ) {
            let warm = WarmParts { every_ns, length_ns };
            let counted = |end: u64| instants.iter().filter(|at| **at < end && !warm.contain(**at)).count() as u64;
            match Trace::new(instants.clone()).unwrap().with_warm_parts(warm) {
                Err(_) => prop_assert_eq!(counted(1_000), 0),
                Ok(trace) => {
                    prop_assert_eq!(trace.slots(), counted(1_000));
                    prop_assert_eq!(trace.counted_before(until), counted(until));
                    let json = serde_json::to_string(&trace).unwrap();
                    prop_assert_eq!(&serde_json::from_str::<Trace>(&json).unwrap(), &trace);
                    prop_assert_eq!(trace.without_instants().counted_before(1), counted(1_000));
                }
            }
        }

        #[test]
        fn broken_traces_are_refused_without_panic(text in "[A-Za-z0-9+/=]{0,40}", slots: u64) {
            let wire = TraceWire { slots, length_ns: 5, warm: WarmParts::default(), gaps_base64: Some(text) };
            let trace = Trace::try_from(wire);
            prop_assert!(trace.is_err() || trace.unwrap().slots == slots);
        }
    }
}
