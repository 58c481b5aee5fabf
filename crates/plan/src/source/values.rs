//! Single values as they are written in files: how they are decoded, and their JSON Schemas.

use std::borrow::Cow;
use std::fmt::{self, Display};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};

use crate::limits::HOUR_NS;
use crate::load::Objective;
use crate::text::quoted;
use crate::units::{parse_bytes, parse_duration, parse_rate, parse_share};

/// Longest description or title, in bytes.
const LINE_BYTES_MAX: usize = 400;

/// Decodes a scalar with `parse`. Any other value is an error that states `expected`.
pub fn scalar<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    expected: &str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    struct Scalar<'e, F>(&'e str, F);

    impl<T, E: Display, F: Fn(&str) -> Result<T, E>> Visitor<'_> for Scalar<'_, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<D: Error>(self, text: &str) -> Result<T, D> {
            self.1(text).map_err(D::custom)
        }
    }
    deserializer.deserialize_str(Scalar(expected, parse))
}

/// A name that can be part of a file name; with `SLASH`, `/` is allowed too.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Name<const SLASH: bool = false>(pub String);

impl<const SLASH: bool> Name<SLASH> {
    /// `text` as a name, or what was found and what was expected.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let also = if SLASH { "/" } else { "" };
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c) || also.contains(c);
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well && text.len() <= 64 && text.chars().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        let slash = if SLASH { ", `/`" } else { "" };
        Err(format!(
            "found {}, expected a name of 1 to 64 letters, digits, `.`, `_`, `-`{slash}, a letter or digit first",
            quoted(text)
        ))
    }
}

impl<'de, const SLASH: bool> Deserialize<'de> for Name<SLASH> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a name", Self::new)
    }
}

/// A text on one line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line(pub String);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "one line of text", |text| {
            let text = text.trim();
            if text.len() <= LINE_BYTES_MAX && !text.contains(char::is_control) {
                return Ok(Self(text.to_owned()));
            }
            Err(format!(
                "found {} bytes of text, expected one line of at most {LINE_BYTES_MAX} bytes",
                text.len()
            ))
        })
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Count<const MIN: u32, const MAX: u32>(pub(crate) u32);

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Range(u32, u32);

        impl Visitor<'_> for Range {
            type Value = u32;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from {} to {}", self.0, self.1)
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<u32, E> {
                match u32::try_from(number) {
                    Ok(n) if (self.0..=self.1).contains(&n) => Ok(n),
                    _ => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
                }
            }
        }
        deserializer.deserialize_u32(Range(MIN, MAX)).map(Self)
    }
}

/// A decimal number from 0 to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Amount<const MAX: u32>(pub(crate) f64);

impl<'de, const MAX: u32> Deserialize<'de> for Amount<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = format!("a number like `0.04`, from 0 to {MAX}");
        scalar(deserializer, &expected, |text| match text.trim().parse() {
            Ok(value) if (0.0..=f64::from(MAX)).contains(&value) => Ok(Self(value)),
            _ => Err(format!("found {}, expected {expected}", quoted(text))),
        })
    }
}

/// What [`parse_duration`] reads, in nanoseconds: from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Duration<const MIN: u64, const MAX: u64>(pub(crate) u64);

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Duration<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(
            deserializer,
            "a duration with its unit, like `10s`",
            |text| {
                let ns = parse_duration(text).map_err(|e| e.to_string())?;
                if (MIN..=MAX).contains(&ns) {
                    return Ok(Self(ns));
                }
                let above = if MIN > 0 { "above 0 and " } else { "" };
                let (found, hours) = (quoted(text), MAX / HOUR_NS);
                Err(format!(
                    "found {found}, expected a duration {above}up to {hours}h"
                ))
            },
        )
    }
}

/// What [`parse_bytes`] reads, up to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bytes<const MAX: u32>(pub(crate) u32);

impl<'de, const MAX: u32> Deserialize<'de> for Bytes<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(deserializer, "a size, like `64KiB`", |text| {
            let bytes = parse_bytes(text).map_err(|e| e.to_string())?;
            match u32::try_from(bytes) {
                Ok(bytes) if bytes <= MAX => Ok(Self(bytes)),
                _ => Err(format!(
                    "found {}, expected at most {MAX} bytes",
                    quoted(text)
                )),
            }
        })
    }
}

/// What [`parse_rate`] reads, above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate(pub(crate) f64);

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(
            deserializer,
            "requests per second, like `500`",
            |text| match parse_rate(text).map_err(|e| e.to_string())? {
                rate if rate > 0.0 => Ok(Self(rate)),
                _ => Err(format!("found {}, expected a rate above 0", quoted(text))),
            },
        )
    }
}

/// What [`parse_share`] reads, above 0 and up to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Share(pub(crate) f64);

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scalar(
            deserializer,
            "a percentage, like `5%`",
            |text| match parse_share(text).map_err(|e| e.to_string())? {
                share if share > 0.0 && share <= 1.0 => Ok(Self(share)),
                _ => Err(format!(
                    "found {}, expected a percentage above 0 and up to 100%",
                    quoted(text)
                )),
            },
        )
    }
}

/// What [`Objective::parse`] reads.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectiveText(pub(crate) Objective);

impl<'de> Deserialize<'de> for ObjectiveText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let objective = scalar(
            deserializer,
            "an objective, like `p99<20ms`",
            Objective::parse,
        );
        objective.map(Self)
    }
}

macro_rules! schema {
    ($name:ident $(<$($param:ident: $kind:ty),+>)?, $inline:expr, $schema:tt) => {
        impl $(<$(const $param: $kind),+>)? JsonSchema for $name $(<$($param),+>)? {
            fn inline_schema() -> bool {
                $inline
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

schema!(Name<SLASH: bool>, true, {"type": "string"});
schema!(Line, true, {"type": "string"});
schema!(Amount<MAX: u32>, true, {
    "type": "number",
    "minimum": 0,
    "maximum": MAX
});
schema!(Count<MIN: u32, MAX: u32>, true, {
    "type": "integer",
    "minimum": MIN,
    "maximum": MAX
});
schema!(Duration<MIN: u64, MAX: u64>, false, {
    "description": "A duration with its unit: 10s, 1m30s, 500ms, 2h.",
    "anyOf": [
        {"type": "string", "pattern": r"^([0-9.]+(h|m|min|s|sec|ms|us|µs|ns))+$|^0$"},
        {"const": 0}
    ]
});
schema!(Bytes<MAX: u32>, true, {
    "description": "A size: 0, 100B, 64KiB.",
    "anyOf": [
        {"type": "string", "pattern": r"^[0-9.]+ ?([kKmMgGtT]i?)?[bB]?$"},
        {"type": "integer", "minimum": 0, "maximum": MAX}
    ]
});
schema!(Rate, false, {
    "description": "Requests per second: 500, 500rps, 1.5krps, 500/s.",
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": r"^[0-9.]+ ?([kM]?(rps|/s)?)$"}
    ]
});
schema!(Share, false, {
    "description": "A percentage: 5%, 0.5 %.",
    "type": "string",
    "pattern": r"^[0-9.]+ ?%$"
});

/// Schema of what [`crate::load::Arrivals::parse`] reads.
pub(crate) struct ArrivalsText;

schema!(ArrivalsText, false, {
    "description": "constant, poisson, bursts:SLOTS, ramp:RATE..RATE, steps:RATE:DURATION,..., trace:FILE or wrk2.",
    "type": "string",
    "pattern": r"^(constant|poisson|wrk2|bursts:[0-9]+|ramp:.+[.][.].+|steps:.+:.+|trace:.+)$"
});
schema!(ObjectiveText, false, {
    "description": "An objective: p99<20ms (p50 to p99.999, max, mean), errors<0.1% or achieved>99%.",
    "type": "string",
    "pattern": r"^ *((p[0-9.]+|max|mean|errors) *<=?|achieved *>=?) *[0-9.]+ ?[a-zµ%0-9.]+$"
});
