//! Types for the fields of decoded files.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use super::de::FIELD;
use super::location::Location;

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Where.
    pub location: Location,
}

/// The value of one key: absent, invalid (its problems are reported already), or given. Absent and
/// invalid differ so that each mistake is reported only once.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Field<T> {
    /// The key is not there.
    #[default]
    Absent,
    /// Its problems are reported already.
    Invalid,
    /// The value.
    Given(Spanned<T>),
}

impl<T> Field<T> {
    /// The value, or `default` if the key is absent. `None` if the value is invalid.
    pub fn or(self, default: T) -> Option<T> {
        self.or_else(|| default)
    }

    /// Like [`Self::or`], with a default that is only made if it is needed.
    pub fn or_else(self, default: impl FnOnce() -> T) -> Option<T> {
        match self {
            Self::Absent => Some(default()),
            Self::Invalid => None,
            Self::Given(spanned) => Some(spanned.value),
        }
    }

    /// The value: `Some(None)` if the key is absent, `None` if the value is invalid.
    pub fn optional(self) -> Option<Option<T>> {
        match self {
            Self::Absent => Some(None),
            Self::Invalid => None,
            Self::Given(spanned) => Some(Some(spanned.value)),
        }
    }

    /// Whether the key is not there.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Where the value was written; `None` if it is absent or invalid.
    pub fn location(&self) -> Option<Location> {
        match self {
            Self::Given(spanned) => Some(spanned.location),
            _ => None,
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Located<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Located<T> {
            type Value = Field<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its location")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut tuple: A) -> Result<Field<T>, A::Error> {
                let location = tuple.next_element()?.unwrap_or_default();
                Ok(match tuple.next_element()? {
                    Some(value) => Field::Given(Spanned { value, location }),
                    None => Field::Invalid,
                })
            }
        }
        deserializer.deserialize_tuple_struct(FIELD, 2, Located(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Field<T> {
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

fn either<A: JsonSchema, B: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let forms = [
        generator.subschema_for::<A>(),
        generator.subschema_for::<B>(),
    ];
    json_schema!({"anyOf": forms})
}

/// One value or a list of them, at least one.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Items<T>")]
pub(crate) struct List<T>(pub(crate) Vec<Spanned<T>>);

#[derive(Deserialize)]
#[serde(rename = "$List")]
struct Items<T>(Vec<Field<T>>);

impl<T> TryFrom<Items<T>> for List<T> {
    type Error = &'static str;

    fn try_from(Items(fields): Items<T>) -> Result<Self, Self::Error> {
        if fields.is_empty() {
            return Err("found an empty list, expected at least one item");
        }
        let given = |field| match field {
            Field::Given(spanned) => Ok(spanned),
            // Its problems are reported already.
            _ => Err(""),
        };
        fields
            .into_iter()
            .map(given)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("List_of_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        either::<T, Vec<T>>(generator)
    }
}

/// A struct that may be written as the value of its first key alone, a `K`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Short<K, T>(pub(crate) T, pub(crate) PhantomData<K>);

impl<'de, K, T: Deserialize<'de>> Deserialize<'de> for Short<K, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename = "$Short")]
        struct Long<T>(T);

        Long::deserialize(deserializer).map(|Long(value)| Self(value, PhantomData))
    }
}

impl<K: JsonSchema, T: JsonSchema> JsonSchema for Short<K, T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Short_{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        either::<K, T>(generator)
    }
}
