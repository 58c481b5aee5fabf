//! Prices of CPU and memory, as given in a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::{Amount, Field, Line};

/// Highest price of an hour.
const PRICE_MAX: u32 = 1_000_000;
/// Highest number of proxies and of requests per second.
const SIZE_MAX: u32 = 1_000_000_000;

/// Prices, and the size for which costs are computed if it is not the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// One core for one hour, in `currency`.
    pub core_hour: f64,
    /// One GiB of memory for one hour.
    pub gib_hour: f64,
    /// Name of the currency; may be empty.
    pub currency: String,
    /// Requests per second; if absent, the rate of each load.
    pub rps: Option<f64>,
    /// Number of proxies; if absent, the measured number.
    pub proxies: Option<f64>,
}

/// Prices, for the cost per month at a chosen size.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "Prices", deny_unknown_fields, expecting = "the prices")]
pub(super) struct PricesFile {
    /// Price of a core for an hour.
    core_hour: Field<Amount<PRICE_MAX>>,
    /// Price of a GiB of memory for an hour.
    gib_hour: Field<Amount<PRICE_MAX>>,
    /// Name of the currency, such as EUR. Default: none.
    #[serde(default)]
    currency: Field<Line>,
    /// Requests per second for which costs are computed. Default: the rate of each load.
    #[serde(default)]
    rps: Field<Amount<SIZE_MAX>>,
    /// Number of proxies for which costs are computed. Default: the measured number.
    #[serde(default)]
    proxies: Field<Amount<SIZE_MAX>>,
}

impl PricesFile {
    pub(super) fn resolve(self) -> Option<Prices> {
        Some(Prices {
            core_hour: self.core_hour.or(Amount(0.0))?.0,
            gib_hour: self.gib_hour.or(Amount(0.0))?.0,
            currency: self.currency.or_else(Line::default)?.0,
            rps: self.rps.optional()?.map(|rps| rps.0),
            proxies: self.proxies.optional()?.map(|proxies| proxies.0),
        })
    }
}
