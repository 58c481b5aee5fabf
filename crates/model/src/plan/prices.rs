//! What CPU and memory cost where the reader would run the mesh.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decode;
use crate::source::{Decoder, Node, Part, Shape};

/// Highest price of an hour.
const PRICE_MAX: f64 = 1e6;
/// Highest number of proxies and of requests per second that is reckoned for.
const SIZE_MAX: f64 = 1e9;

/// Prices and, where it is not the measured one, the size to reckon for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// One core for one hour, in `currency`.
    pub core_hour: f64,
    /// One GiB of memory for one hour.
    pub gib_hour: f64,
    /// Name of the currency; may be empty.
    pub currency: String,
    /// Requests per second; absent: each load's own rate.
    pub rps: Option<f64>,
    /// Number of proxies; absent: as many as were measured.
    pub proxies: Option<f64>,
}

/// Prices, for money per month at a size of your own.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "Prices", deny_unknown_fields)]
pub(super) struct PricesFile {
    /// Price of a core for an hour.
    core_hour: Part<f64>,
    /// Price of a GiB of memory for an hour.
    gib_hour: Part<f64>,
    /// Name of the currency, as EUR. Default: none.
    #[schemars(default)]
    currency: Part<String>,
    /// Requests per second to reckon for. Default: the rate of each load.
    #[schemars(default)]
    rps: Part<f64>,
    /// Proxies to reckon for. Default: as many as there were.
    #[schemars(default)]
    proxies: Part<f64>,
}

pub(super) static PRICES: Shape = Shape::Map {
    keys: &[
        ("core_hour", &Shape::Scalar),
        ("gib_hour", &Shape::Scalar),
        ("currency", &Shape::Scalar),
        ("rps", &Shape::Scalar),
        ("proxies", &Shape::Scalar),
    ],
    shorthand: None,
};

impl PricesFile {
    pub(super) fn decode(d: &mut Decoder, node: &Node) -> Option<Self> {
        let before = d.count();
        let fields = d.fields(node, &PRICES, "the prices")?;
        for key in ["core_hour", "gib_hour"] {
            if fields.get(key).is_none() && d.count() == before {
                d.problem(node.place, format!("prices without `{key}`"))
                    .expected("`core_hour` and `gib_hour`");
            }
        }
        let price = |d: &mut Decoder, n: &Node| number(d, n, PRICE_MAX, "a price like `0.04`");
        let size = |d: &mut Decoder, n: &Node| number(d, n, SIZE_MAX, "a number like `1000`");
        Some(Self {
            core_hour: d.part(&fields, "core_hour", price),
            gib_hour: d.part(&fields, "gib_hour", price),
            currency: d.part(&fields, "currency", decode::line),
            rps: d.part(&fields, "rps", size),
            proxies: d.part(&fields, "proxies", size),
        })
    }

    pub(super) fn resolve(self) -> Option<Prices> {
        let optional = |part: Part<f64>| match part {
            Part::Absent => Some(None),
            given => given.or_else(f64::default).map(Some),
        };
        Some(Prices {
            core_hour: self.core_hour.or(0.0)?,
            gib_hour: self.gib_hour.or(0.0)?,
            currency: self.currency.or_else(String::new)?,
            rps: optional(self.rps)?,
            proxies: optional(self.proxies)?,
        })
    }
}

fn number(d: &mut Decoder, node: &Node, most: f64, expected: &str) -> Option<f64> {
    let text = d.text(node)?;
    match text.trim().parse::<f64>() {
        Ok(value) if (0.0..=most).contains(&value) => Some(value),
        _ => {
            d.problem(node.place, format!("found {}", node.describe()))
                .expected(format!("{expected}, from 0 to {most}"));
            None
        }
    }
}
