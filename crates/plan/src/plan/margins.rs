//! Margins: up to which share two figures count as the same. They are fixed before the run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::{Figure, Margin};
use crate::source::{Field, Share};

/// Up to these shares, a figure of one mesh counts as the same as that of another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Margins {
    /// Of the median latency.
    pub p50: f64,
    /// Of higher percentiles.
    pub p99: f64,
    /// Of CPU per request.
    pub cpu: f64,
    /// Of memory.
    pub memory: f64,
}

impl Default for Margins {
    fn default() -> Self {
        Self {
            p50: 0.05,
            p99: 0.10,
            cpu: 0.03,
            memory: 0.05,
        }
    }
}

impl Margins {
    /// The margin of a figure.
    #[must_use]
    pub fn of(&self, what: Figure) -> f64 {
        match what.margin() {
            Margin::P50 => self.p50,
            Margin::P99 => self.p99,
            Margin::Cpu => self.cpu,
            Margin::Memory => self.memory,
        }
    }
}

/// Up to which share two figures count as the same.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Margins",
    deny_unknown_fields,
    default,
    expecting = "the margins"
)]
pub(super) struct MarginsFile {
    /// Of the median. Default: 5%.
    p50: Field<Share>,
    /// Of higher percentiles. Default: 10%.
    p99: Field<Share>,
    /// Of CPU per request. Default: 3%.
    cpu: Field<Share>,
    /// Of memory. Default: 5%.
    memory: Field<Share>,
}

impl MarginsFile {
    pub(super) fn resolve(self) -> Option<Margins> {
        let default = Margins::default();
        Some(Margins {
            p50: self.p50.or(Share(default.p50))?.0,
            p99: self.p99.or(Share(default.p99))?.0,
            cpu: self.cpu.or(Share(default.cpu))?.0,
            memory: self.memory.or(Share(default.memory))?.0,
        })
    }
}
