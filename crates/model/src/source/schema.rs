//! How located values look in a JSON Schema: like the values themselves.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::decode::Part;
use super::place::At;

macro_rules! transparent {
    ($wrapper:ident) => {
        impl<T: JsonSchema> JsonSchema for $wrapper<T> {
            fn inline_schema() -> bool {
                T::inline_schema()
            }
            fn schema_name() -> Cow<'static, str> {
                T::schema_name()
            }
            fn schema_id() -> Cow<'static, str> {
                T::schema_id()
            }
            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                T::json_schema(generator)
            }
        }
    };
}

transparent!(Part);
transparent!(At);

/// Either of two forms.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "names a schema, is never made")]
pub(crate) enum Either<A, B> {
    Short(A),
    Long(B),
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident, $schema:tt) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

text!(
    /// What [`crate::units::parse_duration`] reads.
    Duration,
    {
        "description": "A duration with its unit: 10s, 1m30s, 500ms, 2h.",
        "anyOf": [
            {"type": "string", "pattern": r"^([0-9.]+(h|m|min|s|sec|ms|us|µs|ns))+$|^0$"},
            {"const": 0}
        ]
    }
);
text!(
    /// What [`crate::load::Arrivals::parse`] reads.
    ArrivalsText,
    {
        "description": "constant, poisson, bursts:SLOTS, ramp:RATE..RATE, steps:RATE:DURATION,..., trace:FILE or wrk2.",
        "type": "string",
        "pattern": r"^(constant|poisson|wrk2|bursts:[0-9]+|ramp:.+[.][.].+|steps:.+:.+|trace:.+)$"
    }
);
text!(
    /// What [`crate::units::parse_rate`] reads.
    Rate,
    {
        "description": "Requests per second: 500, 500rps, 1.5krps, 500/s.",
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": r"^[0-9.]+ ?([kM]?(rps|/s)?)$"}
        ]
    }
);
text!(
    /// What [`crate::units::parse_share`] reads.
    Share,
    {
        "description": "A share with its sign: 5%, 0.5 %.",
        "type": "string",
        "pattern": r"^[0-9.]+ ?%$"
    }
);
