//! What determines the rate of a load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::capacity::CapacitySearch;
use super::overload::Overload;
use super::resolved::Load;
use crate::units::exact_duration;

/// What determines the rate of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "KindFields", into = "KindFields")]
#[schemars(with = "KindFields")]
pub enum LoadKind {
    /// The plan: an open loop.
    Open {
        /// Requests per second, above 0.
        rate_rps: f64,
    },
    /// The responses: each connection is a virtual user that sends its next request after the response
    /// to the previous one.
    Closed {
        /// Pause of a user between a response and the next request.
        think_ns: u64,
    },
    /// A search for the highest rate that meets objectives.
    Capacity(CapacitySearch),
    /// A share of a capacity that the same run found first.
    Overload(Overload),
}

/// A kind as it is written in files.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
struct KindFields {
    /// Slots per second; 0 in a search for the capacity, in a closed loop, and in an overload.
    rate_rps: f64,
    /// The search for the capacity, instead of a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capacity: Option<CapacitySearch>,
    /// A closed loop instead of a rate: each connection is a virtual user that sends its next
    /// request after the response to the previous one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    closed_loop: bool,
    /// Pause of a user of a closed loop between a response and the next request.
    #[serde(default, skip_serializing_if = "is_zero")]
    think_ns: u64,
    /// A share of a capacity instead of a rate, with the times before and after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    overload: Option<Overload>,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

impl TryFrom<KindFields> for LoadKind {
    type Error = String;

    fn try_from(fields: KindFields) -> Result<Self, String> {
        let think_ns = fields.think_ns;
        let rate_rps = Some(fields.rate_rps).filter(|rps| *rps != 0.0);
        match (
            rate_rps,
            fields.closed_loop,
            fields.capacity,
            fields.overload,
        ) {
            (Some(rate_rps), false, None, None) if rate_rps > 0.0 && think_ns == 0 => {
                Ok(Self::Open { rate_rps })
            }
            (None, true, None, None) => Ok(Self::Closed { think_ns }),
            (None, false, Some(search), None) if think_ns == 0 => Ok(Self::Capacity(search)),
            (None, false, None, Some(overload)) if think_ns == 0 => Ok(Self::Overload(overload)),
            _ => Err(
                "a load needs one of: `rate_rps` above 0, `closed_loop`, `capacity`, `overload`"
                    .into(),
            ),
        }
    }
}

impl From<LoadKind> for KindFields {
    fn from(kind: LoadKind) -> Self {
        let none = Self::default();
        match kind {
            LoadKind::Open { rate_rps } => Self { rate_rps, ..none },
            LoadKind::Closed { think_ns } => Self {
                closed_loop: true,
                think_ns,
                ..none
            },
            LoadKind::Capacity(search) => Self {
                capacity: Some(search),
                ..none
            },
            LoadKind::Overload(overload) => Self {
                overload: Some(overload),
                ..none
            },
        }
    }
}

impl Load {
    /// Requests per second, if the plan states them.
    #[must_use]
    pub fn rate_rps(&self) -> Option<f64> {
        match self.kind {
            LoadKind::Open { rate_rps } => Some(rate_rps),
            LoadKind::Closed { .. } | LoadKind::Capacity(_) | LoadKind::Overload(_) => None,
        }
    }

    /// Whether the plan states its rate.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rate_rps().is_some()
    }

    /// Whether it is a closed loop.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.kind, LoadKind::Closed { .. })
    }

    /// The search for the capacity, if it is one.
    #[must_use]
    pub fn capacity(&self) -> Option<&CapacitySearch> {
        match &self.kind {
            LoadKind::Capacity(search) => Some(search),
            LoadKind::Open { .. } | LoadKind::Closed { .. } | LoadKind::Overload(_) => None,
        }
    }

    /// The overload, if it is one.
    #[must_use]
    pub fn overload(&self) -> Option<&Overload> {
        match &self.kind {
            LoadKind::Overload(overload) => Some(overload),
            LoadKind::Open { .. } | LoadKind::Closed { .. } | LoadKind::Capacity(_) => None,
        }
    }

    /// The users of a closed loop: `60 users`, or `60 users with a think time of 100ms`.
    #[must_use]
    pub fn users(&self) -> String {
        match self.kind {
            LoadKind::Closed { think_ns } if think_ns > 0 => {
                let think = exact_duration(think_ns);
                format!("{} users with a think time of {think}", self.connections)
            }
            _ => format!("{} users", self.connections),
        }
    }

    /// Time that the generator takes: the window and its warm-up, or the budget of a search.
    #[must_use]
    pub fn own_time_ns(&self) -> u64 {
        match &self.kind {
            LoadKind::Capacity(search) => search.budget_ns,
            LoadKind::Open { .. } | LoadKind::Closed { .. } | LoadKind::Overload(_) => {
                self.duration_ns.saturating_add(self.warmup_ns)
            }
        }
    }

    /// Number of times that the generator runs in a trial, at most.
    #[must_use]
    pub fn steps_max(&self) -> u64 {
        let step_ns = self.duration_ns.saturating_add(self.warmup_ns).max(1);
        (self.own_time_ns() / step_ns).max(1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn load(kind: &Value) -> Result<Load, String> {
        let mut load = json!({
            "name": "x", "connections": 1, "threads": 1, "arrivals": "poisson",
            "pace": "sleep", "duration_ns": 1, "warmup_ns": 0, "timeout_ns": 1
        });
        let fields = kind.as_object().cloned().unwrap_or_default();
        load.as_object_mut()
            .into_iter()
            .for_each(|l| l.extend(fields.clone()));
        serde_json::from_value(load).map_err(|e| e.to_string())
    }

    #[test]
    fn each_kind_has_its_own_fields_in_files() {
        let overload = json!({
            "percent": 120, "of": "own", "overload_ns": 1, "objectives": [], "searches": 3
        });
        let search = json!({
            "objectives": [], "samples": 1, "min_rps": 1.0, "max_rps": 2.0, "start_rps": 1.0,
            "tolerance": 0.05, "budget_ns": 1
        });
        for kind in [
            json!({"rate_rps": 200.0}),
            json!({"rate_rps": 0.0, "closed_loop": true}),
            json!({"rate_rps": 0.0, "closed_loop": true, "think_ns": 5}),
            json!({"rate_rps": 0.0, "capacity": search}),
            json!({"rate_rps": 0.0, "overload": overload}),
        ] {
            let read = load(&kind).unwrap();
            let written = serde_json::to_value(&read.kind).unwrap();
            assert_eq!(written, kind);
            assert_eq!(load(&written).unwrap(), read);
        }
        for (kind, found) in [
            (json!({"rate_rps": 0.0}), "needs one of"),
            (json!({"rate_rps": -1.0}), "needs one of"),
            (
                json!({"rate_rps": 5.0, "closed_loop": true}),
                "needs one of",
            ),
            (json!({"rate_rps": 5.0, "think_ns": 5}), "needs one of"),
            (
                json!({"rate_rps": 0.0, "capacity": search, "overload": overload}),
                "needs one of",
            ),
            (
                json!({"rate_rps": 5.0, "other": 1}),
                "unknown field `other`",
            ),
        ] {
            let error = load(&kind).unwrap_err();
            assert!(error.contains(found), "{kind}: {error}");
        }
    }
}
