//! Serde over a tree: types are derived as for any other format, and every error has the location
//! of its node.
//!
//! One mistake does not hide the next: unknown keys and the errors of each [`super::Field`] are
//! added to the problems as soon as they are found, and decoding continues.

use std::cell::RefCell;
use std::fmt::Display;

use serde::Deserialize;
use serde::de::value::SeqDeserializer;
use serde::de::{
    self, DeserializeSeed, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::location::Location;
use super::problem::{Problem, Problems};
use super::tree::{Node, SHORT_KEY, Value};
use super::yaml;
use crate::text::{one_of, quoted};

/// Name of a tuple of a location and a value; the value is left out if it is invalid.
pub(super) const FIELD: &str = "$Field";
/// Name of a list that may be written as a single value.
pub(super) const LIST: &str = "$List";
/// Name of a struct that may be written as the value of its first key.
pub(super) const SHORT: &str = "$Short";

impl Problems {
    /// Decodes a tree. `None` after a problem.
    pub fn decode<T: for<'de> Deserialize<'de>>(&mut self, node: &Node) -> Option<T> {
        let problems = RefCell::new(std::mem::take(self));
        let decoder = NodeDeserializer {
            node,
            problems: &problems,
            form: "",
        };
        let decoded = decoder.run(std::marker::PhantomData::<T>);
        let decoded = decoded.map_err(|error| decoder.report(error));
        *self = problems.into_inner();
        decoded.ok()
    }
}

/// Keys that belong into a section of the map, where they are often written beside it.
struct Section {
    name: &'static str,
    keys: &'static [&'static str],
    help: &'static str,
}

const SECTIONS: [Section; 2] = [
    Section {
        name: "capacity",
        keys: &["slo", "min_rate", "max_rate", "step", "tolerance", "budget"],
        help: "`capacity` searches for the highest rate that meets `slo`: `load: {capacity: {slo: [p99<20ms]}}`; a load \
               with a `rate` has no objectives",
    },
    Section {
        name: "overload",
        keys: &["percent", "of", "recovery", "searches"],
        help: "`overload` offers shares of a capacity: `loads: [{capacity: {slo: [p99<20ms]}}, {overload: {percent: 120}}]`",
    },
];

/// The section of a map with these keys that the unknown `key` belongs into.
fn section_of(key: &str, keys: &[&str]) -> Option<&'static Section> {
    let mut sections = SECTIONS.iter();
    sections.find(|s| keys.contains(&s.name) && s.keys.contains(&key))
}

/// A problem, whose location is added later; `None` if it is reported already.
#[derive(Debug)]
pub(super) struct Error(Option<Problem>);

impl Error {
    fn new(found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self(Some(Problem::new(found, expected)))
    }

    fn one_of(found: &str, name: &str, known: &'static [&'static str]) -> Self {
        let mut problem = Problem::from_message(found);
        problem.one_of(name, known.iter().copied());
        Self(Some(problem))
    }

    /// Completes an error that has no location yet.
    fn at(mut self, location: Location, found: impl FnOnce() -> String) -> Self {
        if let Some(problem) = &mut self.0
            && problem.location.line == 0
        {
            problem.location = location;
            if problem.found.is_empty() {
                problem.found = format!("found {}", found());
            }
        }
        self
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_ref().map_or("", |problem| &problem.found))
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    /// An empty message means that the problems are reported already.
    fn custom<T: Display>(message: T) -> Self {
        let message = message.to_string();
        Self((!message.is_empty()).then(|| Problem::from_message(&message)))
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = expected.to_string();
        let words = match expected.as_str() {
            "u16" => "a whole number from 0 to 65535",
            "u32" => "a whole number from 0 to 4294967295",
            "u64" => "a whole number from 0",
            "f64" => "a number",
            "a boolean" => "`true` or `false`",
            "a sequence" => "a list",
            other => other,
        };
        Self::new("", words)
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, known: &'static [&'static str]) -> Self {
        Self::one_of("", variant, known)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::one_of(&format!("unknown key {}", quoted(field)), field, known)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("missing key `{field}`"), format!("`{field}: ...`"))
    }
}

#[derive(Clone, Copy)]
struct NodeDeserializer<'n> {
    node: &'n Node,
    problems: &'n RefCell<Problems>,
    /// [`LIST`] or [`SHORT`], if it may be written as a single value.
    form: &'static str,
}

impl<'n> NodeDeserializer<'n> {
    fn on(self, node: &'n Node) -> Self {
        let form = "";
        Self { node, form, ..self }
    }

    fn run<'de, S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        let result = seed.deserialize(self);
        result.map_err(|e| e.at(self.node.location, || self.node.describe()))
    }

    fn report(self, error: Error) {
        if let Some(problem) = error.0 {
            self.problems.borrow_mut().push(problem);
        }
    }

    /// Decodes a number. For a number in quotes, the error suggests to leave them out.
    fn number<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let result = de::Deserializer::deserialize_any(self, visitor);
        result.map_err(|mut error| {
            if let (Some(problem), Value::Scalar { text, plain: false }) =
                (&mut error.0, &self.node.value)
                && text.parse::<f64>().is_ok()
            {
                problem.help("leave out the quotes");
            }
            error
        })
    }

    /// The known keys of a struct that have a value. Reports unknown keys.
    fn entries(self, what: &str, keys: &'static [&'static str]) -> Result<Entries<'n>, Error> {
        let short = keys.first().copied().filter(|_| self.form == SHORT);
        let mut entries = Entries::of(self, Vec::new());
        match (&self.node.value, short) {
            (Value::Null, _) => {}
            (Value::Scalar { .. }, Some(key)) => {
                entries.rest.push((key, self.node.location, self.node));
            }
            (Value::Map(written), _) => {
                for e in written {
                    let key = match (e.key.as_str(), short) {
                        (SHORT_KEY, Some(key)) if self.node.entry(key).is_some() => continue,
                        (SHORT_KEY, Some(key)) => key,
                        (key, _) => key,
                    };
                    if !keys.contains(&key) {
                        let found = match key {
                            SHORT_KEY => {
                                format!("{} together with keys of {what}", e.node.describe())
                            }
                            _ => format!("unknown key {} in {what}", quoted(key)),
                        };
                        let mut problems = self.problems.borrow_mut();
                        let problem = problems.add(e.key_location, found);
                        problem.one_of(key, keys.iter().copied());
                        if let Some(section) = section_of(key, keys) {
                            problem.expected(format!("`{key}` in `{}`", section.name));
                            problem.help(section.help);
                        }
                        entries.has_unknown = true;
                    } else if !e.node.is_null() {
                        entries.rest.push((key, e.key_location, &e.node));
                    }
                }
            }
            _ => {
                let names = one_of(keys.iter().copied());
                let or = short.map_or_else(String::new, |key| {
                    format!("the value of `{key}` alone, or ")
                });
                return Err(Error::new("", format!("{what}: {or}a map with {names}")));
            }
        }
        entries.rest.reverse();
        Ok(entries)
    }
}

impl<'de> de::Deserializer<'de> for NodeDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::Null => visitor.visit_unit(),
            Value::Scalar { text, plain: true } => plain(text, visitor),
            Value::Scalar { text, .. } => visitor.visit_str(text),
            Value::List(items) => visitor.visit_seq(Items {
                rest: items.iter(),
                list: self,
            }),
            Value::Map(entries) => {
                let entries = entries.iter().rev();
                let entries = entries.map(|e| (e.key.as_str(), e.key_location, &e.node));
                visitor.visit_map(Entries::of(self, entries.collect()))
            }
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::Scalar { text, .. } => visitor.visit_str(text),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.number(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let form = match name {
            LIST | SHORT => name,
            _ => self.form,
        };
        visitor.visit_newtype_struct(Self { form, ..self })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            FIELD => visitor.visit_seq(Located {
                value: self,
                step: 0,
            }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::Scalar { text, .. } if self.form == LIST => {
                let Location { source, column, .. } = self.node.location;
                if !(text.contains(',') && self.problems.borrow().is_argument(source)) {
                    return visitor.visit_seq(Items {
                        rest: std::slice::from_ref(self.node).iter(),
                        list: self,
                    });
                }
                // On the command line, commas make a list.
                let list = format!("[{text}]");
                let list = yaml::parse(&mut self.problems.borrow_mut(), source, &list, column - 2);
                let list = list.ok_or(Error(None))?;
                self.on(&list).deserialize_any(visitor)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let what = (&visitor as &dyn Expected).to_string();
        let entries = self.entries(&what, keys)?;
        let has_unknown = entries.has_unknown;
        visitor.visit_map(entries).map_err(|mut error| {
            match &mut error.0 {
                // The unknown key is probably the missing one.
                Some(p) if has_unknown && p.found.starts_with("missing key") => error.0 = None,
                Some(p) if p.found.starts_with("missing key") && p.location.line == 0 => {
                    p.found = format!("{} in {what}", p.found);
                    if self.form == SHORT {
                        p.expected += ", or its value alone";
                    }
                }
                _ => {}
            }
            error
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match &self.node.value {
            Value::Scalar { text, .. } => visitor.visit_enum(text.as_str().into_deserializer()),
            _ => Err(Error::new("", one_of(words.iter().copied()))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u128 f32 char bytes byte_buf unit unit_struct tuple map
        identifier ignored_any
    }
}

/// Decodes a plain scalar under the rules of YAML's core schema.
fn plain<'de, V: Visitor<'de>>(text: &str, visitor: V) -> Result<V::Value, Error> {
    match text {
        "true" | "True" | "TRUE" => return visitor.visit_bool(true),
        "false" | "False" | "FALSE" => return visitor.visit_bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<u64>() {
        return visitor.visit_u64(number);
    }
    if let Ok(number) = text.parse::<i64>() {
        return visitor.visit_i64(number);
    }
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.contains(|c: char| c.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(number) if numeric && number.is_finite() => visitor.visit_f64(number),
        _ => visitor.visit_str(text),
    }
}

struct Items<'n> {
    rest: std::slice::Iter<'n, Node>,
    list: NodeDeserializer<'n>,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let next = self.rest.next();
        next.map(|node| self.list.on(node).run(seed)).transpose()
    }
}

struct Entries<'n> {
    map: NodeDeserializer<'n>,
    /// Key, location and value of each remaining entry, in reverse order.
    rest: Vec<(&'n str, Location, &'n Node)>,
    has_unknown: bool,
}

impl<'n> Entries<'n> {
    fn of(map: NodeDeserializer<'n>, rest: Vec<(&'n str, Location, &'n Node)>) -> Self {
        Self {
            map,
            rest,
            has_unknown: false,
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some(&(key, location, _)) = self.rest.last() else {
            return Ok(None);
        };
        let result = seed.deserialize(key.into_deserializer());
        result
            .map(Some)
            .map_err(|e: Error| e.at(location, || quoted(key)))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let (_, _, node) = self.rest.pop().ok_or(Error(None))?;
        self.map.on(node).run(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

/// The tuple of a [`super::Field`].
struct Located<'n> {
    value: NodeDeserializer<'n>,
    step: usize,
}

impl<'de> SeqAccess<'de> for Located<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        self.step += 1;
        if self.step == 1 {
            let l = self.value.node.location;
            let numbers = [l.source, l.line, l.column, l.width];
            let location = SeqDeserializer::new(numbers.into_iter());
            return seed.deserialize(location).map(Some);
        }
        match self.value.run(seed) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                self.value.report(error);
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        for (text, value) in [
            ("true", json!(true)),
            ("12", json!(12)),
            ("-3", json!(-3)),
            ("0.5", json!(0.5)),
            ("1e3", json!(1000.0)),
            ("inf", json!("inf")),
            ("nan", json!("nan")),
            ("/a?b=1", json!("/a?b=1")),
            ("off", json!("off")),
            ("~", json!(null)),
            ("'12'", json!("12")),
        ] {
            assert_eq!(
                crate::plan::yaml_to_json("a.yaml", text).unwrap(),
                value,
                "{text}"
            );
        }
    }
}
