//! From tree to values, collecting what is wrong on the way.

use super::nearest::nearest;
use super::place::{At, Place};
use super::problem::{Problem, Problems, quoted};
use super::shape::Shape;
use super::tree::{Node, Value};
use super::yaml;
use crate::units::UnitError;

/// One key's value: not written, written wrongly (the problem is on the list), or
/// given. The three are told apart so that one mistake is reported once.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Part<T> {
    #[default]
    Absent,
    Broken,
    Given(At<T>),
}

impl<T> Part<T> {
    /// The value, or the default where nothing was written. `None`: broken.
    pub(crate) fn or(self, default: T) -> Option<T> {
        self.or_else(|| default)
    }

    /// The same with a default that is made when it is needed.
    pub(crate) fn or_else(self, default: impl FnOnce() -> T) -> Option<T> {
        match self {
            Self::Absent => Some(default()),
            Self::Broken => None,
            Self::Given(at) => Some(at.value),
        }
    }

    /// Where it was written, if it was.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            Self::Given(at) => Some(at.place),
            _ => None,
        }
    }
}

/// The entries of a map whose keys are all known.
pub(crate) struct Fields<'n> {
    entries: Vec<(&'n str, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// What was written under `key`; nothing counts as not written.
    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        let found = self.entries.iter().find(|(k, _)| *k == key);
        found.map(|(_, node)| *node).filter(|node| !node.is_null())
    }
}

/// Reads sources and collects problems.
#[derive(Default)]
pub(crate) struct Decoder {
    problems: Problems,
}

/// Completes a problem that is already on the list.
pub(crate) struct Unfinished<'d> {
    problem: Problem,
    problems: &'d mut Problems,
}

impl Unfinished<'_> {
    pub(crate) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.problem.expected = expected.into();
        self
    }

    /// Expects one of these names.
    pub(crate) fn one_of<'c>(self, names: impl IntoIterator<Item = &'c str>) -> Self {
        self.expected(one_of(names))
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.problem.help = Some(help.into());
        self
    }

    /// Names the candidate nearest to `name`, if there is one.
    pub(crate) fn nearest<'c>(
        self,
        name: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Self {
        match nearest(name, candidates) {
            Some(candidate) => self.help(format!("did you mean `{candidate}`?")),
            None => self,
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.problems.push(self.problem.clone());
    }
}

/// `a`, `b` or `c`.
pub(crate) fn one_of<'c>(names: impl IntoIterator<Item = &'c str>) -> String {
    let names: Vec<String> = names.into_iter().map(|n| format!("`{n}`")).collect();
    match names.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

impl Decoder {
    /// Reads a file. `None` when there is no tree to go on with.
    pub(crate) fn read_file(&mut self, name: &str, text: &str) -> Option<Node> {
        let source = self.problems.add_file(name, text);
        yaml::parse(self, source, text, 0)
    }

    pub(super) fn add_argument(&mut self, text: &str) -> usize {
        self.problems.add_argument(text)
    }

    /// Puts a problem on the list; the rest is said by what it returns.
    pub(crate) fn problem(&mut self, place: Place, found: impl Into<String>) -> Unfinished<'_> {
        Unfinished {
            problem: Problem {
                place,
                found: found.into(),
                expected: String::new(),
                help: None,
            },
            problems: &mut self.problems,
        }
    }

    /// How many problems there are so far.
    pub(crate) fn count(&self) -> usize {
        self.problems.list().len()
    }

    pub(crate) fn into_problems(mut self) -> Problems {
        self.problems.sort();
        self.problems
    }

    fn mismatch(&mut self, node: &Node, expected: impl Into<String>) -> Unfinished<'_> {
        self.problem(node.place, format!("found {}", node.describe()))
            .expected(expected)
    }

    /// The entries of a map of `shape`; a single value counts as its shorthand.
    /// Unknown keys are problems, and do not hide the known ones.
    pub(crate) fn fields<'n>(
        &mut self,
        node: &'n Node,
        shape: &'static Shape,
        what: &str,
    ) -> Option<Fields<'n>> {
        match (&node.value, shape.shorthand()) {
            (Value::Map(entries), _) => {
                let mut known = Vec::new();
                for entry in entries {
                    if shape.under(&entry.key).is_some() {
                        known.push((entry.key.as_str(), &entry.node));
                    } else {
                        self.problem(
                            entry.key_place,
                            format!("unknown key {} in {what}", quoted(&entry.key)),
                        )
                        .expected(one_of(shape.keys()))
                        .nearest(&entry.key, shape.keys());
                    }
                }
                Some(Fields { entries: known })
            }
            (Value::Scalar { .. }, Some(key)) => Some(Fields {
                entries: vec![(key, node)],
            }),
            (Value::Null, _) => Some(Fields {
                entries: Vec::new(),
            }),
            (_, Some(key)) => {
                self.mismatch(
                    node,
                    format!(
                        "{what}: the {key}'s name, or a map with {}",
                        one_of(shape.keys())
                    ),
                );
                None
            }
            (_, None) => {
                self.mismatch(node, format!("{what}: a map with {}", one_of(shape.keys())));
                None
            }
        }
    }

    /// One key of a map, decoded by `decode`.
    pub(crate) fn part<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        decode: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Part<T> {
        match fields.get(key) {
            None => Part::Absent,
            Some(node) => match decode(self, node) {
                Some(value) => Part::Given(At {
                    value,
                    place: node.place,
                }),
                None => Part::Broken,
            },
        }
    }

    /// A list, each item decoded by `decode`; `None` when one of them is broken.
    pub(crate) fn list<T>(
        &mut self,
        node: &Node,
        of: &str,
        mut decode: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<At<T>>> {
        let Value::List(items) = &node.value else {
            self.mismatch(node, format!("a list of {of}"));
            return None;
        };
        if items.is_empty() {
            self.problem(node.place, "an empty list")
                .expected("at least one item");
            return None;
        }
        self.items(items, &mut decode)
    }

    /// One value or a list of them.
    pub(crate) fn one_or_many<T>(
        &mut self,
        node: &Node,
        of: &str,
        mut decode: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<At<T>>> {
        if matches!(node.value, Value::List(_)) {
            return self.list(node, of, decode);
        }
        self.items(std::slice::from_ref(node), &mut decode)
    }

    fn items<T>(
        &mut self,
        items: &[Node],
        decode: &mut impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<At<T>>> {
        let mut all = Some(Vec::new());
        for item in items {
            let decoded = decode(self, item);
            match (&mut all, decoded) {
                (Some(list), Some(value)) => list.push(At {
                    value,
                    place: item.place,
                }),
                _ => all = None,
            }
        }
        all
    }

    /// A text on one or more lines.
    pub(crate) fn text(&mut self, node: &Node) -> Option<String> {
        match &node.value {
            Value::Scalar { text, .. } => Some(text.clone()),
            _ => {
                self.mismatch(node, "a text");
                None
            }
        }
    }

    /// A name that is fit for a file name: letters, digits, `.`, `_`, `-` and what
    /// `also` holds; at most 64 characters.
    pub(crate) fn name(&mut self, node: &Node, also: &str) -> Option<String> {
        let text = self.text(node)?;
        let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c) || also.contains(c);
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts_well && text.len() <= 64 && text.chars().all(fits) {
            return Some(text);
        }
        let extra: String = also.chars().map(|c| format!(", `{c}`")).collect();
        self.mismatch(
            node,
            format!(
                "a name of 1 to 64 letters, digits, `.`, `_`, `-`{extra}, a letter or digit first"
            ),
        );
        None
    }

    /// A whole number within `low..=high`.
    pub(crate) fn integer(&mut self, node: &Node, low: u64, high: u64) -> Option<u64> {
        let expected = if high == u64::MAX {
            format!("a whole number from {low}")
        } else {
            format!("a whole number from {low} to {high}")
        };
        let Value::Scalar { text, plain } = &node.value else {
            self.mismatch(node, expected);
            return None;
        };
        match text.parse::<u64>() {
            Ok(_) if !plain => {
                self.mismatch(node, expected).help("leave out the quotes");
                None
            }
            Ok(number) if (low..=high).contains(&number) => Some(number),
            _ => {
                self.mismatch(node, expected);
                None
            }
        }
    }

    /// The same for counts of 32 bits.
    pub(crate) fn count_of(&mut self, node: &Node, low: u32, high: u32) -> Option<u32> {
        let number = self.integer(node, low.into(), high.into())?;
        u32::try_from(number).ok()
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&mut self, node: &Node) -> Option<bool> {
        match &node.value {
            Value::Scalar { text, plain: true } if text == "true" => Some(true),
            Value::Scalar { text, plain: true } if text == "false" => Some(false),
            _ => {
                self.mismatch(node, "`true` or `false`");
                None
            }
        }
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(&mut self, node: &Node, words: &[(&str, T)]) -> Option<T> {
        let names = words.iter().map(|(word, _)| *word);
        let Value::Scalar { text, .. } = &node.value else {
            self.mismatch(node, one_of(names));
            return None;
        };
        let found = words.iter().find(|(word, _)| word == text);
        if found.is_none() {
            self.mismatch(node, one_of(names.clone()))
                .nearest(text, names);
        }
        found.map(|(_, value)| *value)
    }

    /// What one of the parsers of `units` makes of a scalar.
    pub(crate) fn unit<T>(
        &mut self,
        node: &Node,
        expected: &str,
        parse: impl FnOnce(&str) -> Result<T, UnitError>,
    ) -> Option<T> {
        let Value::Scalar { text, .. } = &node.value else {
            self.mismatch(node, expected);
            return None;
        };
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                let found = quoted(text);
                let problem = match &error {
                    UnitError::NoUnit { suggestion, .. } => self
                        .problem(
                            node.place,
                            format!("found {found}, a number without its unit"),
                        )
                        .help(format!("did you mean `{suggestion}`?")),
                    UnitError::UnknownUnit { unit, .. } => self.problem(
                        node.place,
                        format!("found {found} with the unknown unit {}", quoted(unit)),
                    ),
                    UnitError::Negative { .. } => {
                        self.problem(node.place, format!("found {found}, which is negative"))
                    }
                    UnitError::TooLarge { most, .. } => self
                        .problem(node.place, format!("found {found}, which is too large"))
                        .help(format!("the maximum is {most}")),
                    UnitError::TooFine { unit, .. } => self.problem(
                        node.place,
                        format!("found {found}, which is not a whole number of {unit}"),
                    ),
                    UnitError::Empty { .. } | UnitError::Malformed { .. } => {
                        self.problem(node.place, format!("found {found}"))
                    }
                };
                problem.expected(expected);
                None
            }
        }
    }
}
