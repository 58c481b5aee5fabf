//! `--set path=value`: changes a tree before it is decoded, so that a set value is
//! held to the same rules as a written one.

use super::decode::{Decoder, one_of};
use super::place::Place;
use super::problem::quoted;
use super::shape::Shape;
use super::tree::{Entry, Node, Value};
use super::yaml;

/// Applies one `path=value` to `root`, which has `shape`. Problems point at the
/// argument.
pub(crate) fn apply(decoder: &mut Decoder, root: &mut Node, shape: &'static Shape, text: &str) {
    const PREFIX: &str = "--set ";
    let source = decoder.add_argument(&format!("{PREFIX}{text}"));
    let offset = PREFIX.len();
    let whole = Place {
        source,
        line: 1,
        column: 1 + offset,
        width: text.chars().count(),
    };
    let Some((path, value)) = text.split_once('=') else {
        decoder
            .problem(whole, format!("found {} without a `=`", quoted(text)))
            .expected("a path and a value, like `load.rate=500`");
        return;
    };
    let Some(steps) = parse_path(decoder, path, source, offset) else {
        return;
    };
    let value_offset = offset + path.chars().count() + 1;
    if value.trim().is_empty() {
        let place = Place {
            column: value_offset,
            width: 1,
            ..whole
        };
        decoder
            .problem(place, "nothing after the `=`")
            .expected("a value, like `load.rate=500`");
        return;
    }
    let mut setter = Setter {
        decoder,
        source,
        value,
        value_offset,
    };
    setter.walk(root, shape, &steps, "");
}

/// One step of a path.
enum Step {
    Key(String, Place),
    Index(usize, Place),
}

fn parse_path(
    decoder: &mut Decoder,
    path: &str,
    source: usize,
    offset: usize,
) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut column = 1 + offset;
    for part in path.split('.') {
        let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        let place = |column, text: &str| Place {
            source,
            line: 1,
            column,
            width: text.chars().count(),
        };
        let key_place = place(column, key);
        if key.trim().is_empty() {
            decoder
                .problem(
                    place(column, part),
                    format!("a name is missing in the path {}", quoted(path)),
                )
                .expected("names with points between them, like `loads[0].duration`");
            return None;
        }
        steps.push(Step::Key(key.trim().to_owned(), key_place));
        let mut at = column + key.chars().count();
        for index in indices.split_inclusive(']') {
            let inner = index.strip_prefix('[').and_then(|i| i.strip_suffix(']'));
            let Some(number) = inner.and_then(|i| i.parse::<usize>().ok()) else {
                decoder
                    .problem(place(at, index), format!("found {}", quoted(index)))
                    .expected("a position, from `[0]`");
                return None;
            };
            steps.push(Step::Index(number, place(at, index)));
            at += index.chars().count();
        }
        column += part.chars().count() + 1;
    }
    Some(steps)
}

struct Setter<'d> {
    decoder: &'d mut Decoder,
    source: usize,
    value: &'d str,
    value_offset: usize,
}

impl Setter<'_> {
    fn walk(&mut self, node: &mut Node, shape: &'static Shape, steps: &[Step], so_far: &str) {
        match steps.split_first() {
            None => {
                if let Some(new) = self.parse_value(shape) {
                    *node = new;
                }
            }
            Some((Step::Key(key, place), rest)) => {
                let Some(under) = shape.under(key) else {
                    self.unknown(key, *place, shape, so_far);
                    return;
                };
                expand(node, shape, *place);
                let Value::Map(entries) = &mut node.value else {
                    let found = node.describe();
                    self.decoder
                        .problem(
                            *place,
                            format!("{} has no keys: it is {found}", name_of(so_far)),
                        )
                        .expected("a path to something that has");
                    return;
                };
                let index = entries
                    .iter()
                    .position(|e| e.key == *key)
                    .unwrap_or_else(|| {
                        let null = Node {
                            place: *place,
                            value: Value::Null,
                        };
                        entries.push(Entry {
                            key: key.clone(),
                            key_place: *place,
                            node: null,
                        });
                        entries.len() - 1
                    });
                let path = if so_far.is_empty() {
                    key.clone()
                } else {
                    format!("{so_far}.{key}")
                };
                self.walk(&mut entries[index].node, under, rest, &path);
            }
            Some((Step::Index(index, place), rest)) => {
                let under = match shape {
                    Shape::List(item) => item,
                    Shape::Scalars => &Shape::Scalar,
                    Shape::Any => &Shape::Any,
                    Shape::Scalar | Shape::Map { .. } => {
                        self.decoder
                            .problem(*place, format!("{} is no list", name_of(so_far)))
                            .expected("a path without a position here");
                        return;
                    }
                };
                let len = match &node.value {
                    Value::List(items) => items.len(),
                    _ => 0,
                };
                match &mut node.value {
                    Value::List(items) if *index < len => {
                        self.walk(
                            &mut items[*index],
                            under,
                            rest,
                            &format!("{so_far}[{index}]"),
                        );
                    }
                    _ => self.no_item(*index, *place, len, so_far),
                }
            }
        }
    }

    fn unknown(&mut self, key: &str, place: Place, shape: &'static Shape, so_far: &str) {
        if matches!(shape, Shape::Map { .. }) {
            self.decoder
                .problem(
                    place,
                    format!("unknown key {} in {}", quoted(key), name_of(so_far)),
                )
                .expected(one_of(shape.keys()))
                .nearest(key, shape.keys());
        } else if matches!(shape, Shape::List(_)) {
            self.decoder
                .problem(place, format!("{} is a list", name_of(so_far)))
                .expected(format!("a position first, like `{so_far}[0].{key}`"));
        } else {
            self.decoder
                .problem(
                    place,
                    format!("{} is a single value, without keys", name_of(so_far)),
                )
                .expected(format!("`{so_far}=...`"));
        }
    }

    fn no_item(&mut self, index: usize, place: Place, len: usize, so_far: &str) {
        let expected = match len {
            0 => format!("`{so_far}` to be written as a list in the plan"),
            1 => format!("`{so_far}[0]`, the only one"),
            _ => format!("`{so_far}[0]` to `{so_far}[{}]`", len - 1),
        };
        self.decoder
            .problem(
                place,
                format!("there is no `{so_far}[{index}]` in the plan"),
            )
            .expected(expected);
    }

    /// Brackets, braces and quotes are YAML; where a list may stand, commas make one;
    /// everything else is the text as it is.
    fn parse_value(&mut self, shape: &'static Shape) -> Option<Node> {
        if self.value.trim_start().starts_with(['[', '{', '"', '\'']) {
            return yaml::parse(self.decoder, self.source, self.value, self.value_offset);
        }
        let takes_list = matches!(shape, Shape::Scalars | Shape::List(_));
        let is_list = matches!(shape, Shape::List(_)) || self.value.contains(',');
        if !(takes_list && is_list) {
            return Some(self.scalar(self.value, 1 + self.value_offset));
        }
        let mut column = 1 + self.value_offset;
        let mut items = Vec::new();
        for part in self.value.split(',') {
            items.push(self.scalar(part, column));
            column += part.chars().count() + 1;
        }
        let place = self.scalar(self.value, 1 + self.value_offset).place;
        Some(Node {
            place,
            value: Value::List(items),
        })
    }

    fn scalar(&self, raw: &str, column: usize) -> Node {
        let text = raw.trim();
        let lead = raw.chars().count() - raw.trim_start().chars().count();
        Node {
            place: Place {
                source: self.source,
                line: 1,
                column: column + lead,
                width: text.chars().count(),
            },
            value: Value::Scalar {
                text: text.to_owned(),
                plain: true,
            },
        }
    }
}

/// Makes room for keys: nothing becomes an empty map, a shorthand its long form.
fn expand(node: &mut Node, shape: &'static Shape, place: Place) {
    match (&node.value, shape.shorthand()) {
        (Value::Null, _) => {
            node.place = place;
            node.value = Value::Map(Vec::new());
        }
        (Value::Scalar { .. }, Some(key)) => {
            let inner = node.clone();
            node.value = Value::Map(vec![Entry {
                key: key.to_owned(),
                key_place: inner.place,
                node: inner,
            }]);
        }
        _ => {}
    }
}

fn name_of(path: &str) -> String {
    if path.is_empty() {
        "the plan".to_owned()
    } else {
        format!("`{path}`")
    }
}
