//! From text to tree.
//!
//! YAML without its traps: no anchors and aliases (a plan is short, and they are
//! how a small file becomes a huge one), no tags, no second document, no key twice.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::decode::Decoder;
use super::place::Place;
use super::problem::quoted;
use super::tree::{Entry, Node, Value};

/// Longer texts are refused.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Deeper nesting is refused.
const DEPTH_MAX: usize = 32;
/// More values in all are refused.
const NODES_MAX: usize = 20_000;
/// More keys in one map are refused.
const KEYS_MAX: usize = 1_000;

/// Reads source `source` of `decoder`, whose text is `text`; `column_offset` is
/// added to the columns of the first line. `None` after a problem that leaves no tree.
pub(super) fn parse(
    decoder: &mut Decoder,
    source: usize,
    text: &str,
    column_offset: usize,
) -> Option<Node> {
    if text.len() > TEXT_BYTES_MAX {
        let place = Place {
            source,
            line: 1,
            column: 1,
            width: 0,
        };
        decoder
            .problem(place, format!("{} bytes of text", text.len()))
            .expected(format!("at most {TEXT_BYTES_MAX}"));
        return None;
    }
    // A byte order mark is no part of the text, and YAML editors do write it.
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder {
        decoder,
        source,
        column_offset,
        stack: Vec::new(),
        nodes: 0,
        root: None,
    };
    for event in EventStream(Parser::new_from_str(body)) {
        match event {
            Ok((event, span)) => builder.take(event, span)?,
            Err(error) => {
                builder.scan_problem(body, &error);
                return None;
            }
        }
    }
    let start = Place {
        source,
        line: 1,
        column: 1 + column_offset,
        width: 0,
    };
    Some(builder.root.unwrap_or(Node {
        place: start,
        value: Value::Null,
    }))
}

struct EventStream<'t>(Parser<'t, saphyr_parser::StrInput<'t>>);

impl<'t> Iterator for EventStream<'t> {
    type Item = Result<(Event<'t>, Span), ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_event()
    }
}

/// A list or a map that is still open.
enum Open {
    List(Place, Vec<Node>),
    Map(Place, Vec<Entry>, Option<(String, Place)>),
}

struct Builder<'d> {
    decoder: &'d mut Decoder,
    source: usize,
    column_offset: usize,
    stack: Vec<Open>,
    nodes: usize,
    root: Option<Node>,
}

impl Builder<'_> {
    fn place(&self, span: Span) -> Place {
        let (start, end) = (span.start, span.end);
        let offset = if start.line() <= 1 {
            self.column_offset
        } else {
            0
        };
        Place {
            source: self.source,
            line: start.line().max(1),
            column: start.col() + 1 + offset,
            width: if end.line() == start.line() {
                end.col().saturating_sub(start.col())
            } else {
                0
            },
        }
    }

    /// `None` when it makes no sense to read on.
    fn take(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        let place = self.place(span);
        match event {
            Event::Alias(_) => return self.refuse_anchor(place),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                return self.refuse_anchor(place);
            }
            Event::Scalar(_, _, _, Some(tag))
            | Event::SequenceStart(_, Some(tag))
            | Event::MappingStart(_, Some(tag)) => {
                self.decoder
                    .problem(place, format!("the tag {}", quoted(&tag.to_string())))
                    .expected("a value without a tag");
                return None;
            }
            Event::Scalar(text, style, ..) => {
                let value = scalar(&text, style);
                self.finish(place, value)?;
            }
            Event::SequenceStart(..) => self.open(place, Open::List(place, Vec::new()))?,
            Event::MappingStart(..) => self.open(place, Open::Map(place, Vec::new(), None))?,
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop()? {
                Open::List(at, items) => self.finish(at, Value::List(items))?,
                Open::Map(at, entries, _) => self.finish(at, Value::Map(entries))?,
            },
            Event::DocumentStart(_) if self.root.is_some() => {
                self.decoder
                    .problem(place, "a second document")
                    .expected("one document: nothing after `---`");
                return None;
            }
            _ => {}
        }
        Some(())
    }

    fn refuse_anchor(&mut self, place: Place) -> Option<()> {
        self.decoder
            .problem(place, "an anchor or alias (`&`, `*`)")
            .expected("the value itself")
            .help("write the value out, or put the text in quotes if it begins with `&` or `*`");
        None
    }

    fn open(&mut self, place: Place, open: Open) -> Option<()> {
        if self.stack.len() >= DEPTH_MAX {
            self.decoder
                .problem(place, format!("more than {DEPTH_MAX} levels of nesting"))
                .expected("fewer");
            return None;
        }
        if matches!(self.stack.last(), Some(Open::Map(_, _, None))) {
            return self.refuse_key(place);
        }
        self.stack.push(open);
        Some(())
    }

    fn refuse_key(&mut self, place: Place) -> Option<()> {
        self.decoder
            .problem(place, "a key that is no plain name")
            .expected("a name before the `:`");
        None
    }

    /// Puts a complete value where it belongs.
    fn finish(&mut self, place: Place, value: Value) -> Option<()> {
        let node = Node { place, value };
        self.nodes += 1;
        let crowded = matches!(self.stack.last(), Some(Open::Map(_, e, _)) if e.len() >= KEYS_MAX);
        if self.nodes > NODES_MAX || crowded {
            self.decoder
                .problem(place, "too much to be a plan")
                .expected(format!(
                    "at most {NODES_MAX} values, {KEYS_MAX} keys in a map"
                ));
            return None;
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, pending @ Some(_))) => {
                let (key, key_place) = pending.take()?;
                insert(self.decoder, entries, key, key_place, node);
            }
            Some(Open::Map(_, _, pending)) => {
                let Value::Scalar { text, .. } = node.value else {
                    return self.refuse_key(place);
                };
                *pending = Some((text, place));
            }
        }
        Some(())
    }

    fn scan_problem(&mut self, text: &str, error: &ScanError) {
        let marker = error.marker();
        let line = marker.line().max(1);
        let tab = text
            .lines()
            .take(line)
            .enumerate()
            .filter(|(_, l)| indentation(l).contains('\t'))
            .last();
        if let Some((index, found)) = tab {
            let column = 1 + indentation(found)
                .chars()
                .take_while(|c| *c != '\t')
                .count();
            let place = Place {
                source: self.source,
                line: index + 1,
                column,
                width: 1,
            };
            self.decoder
                .problem(place, "a tab in the indentation")
                .expected("spaces");
            return;
        }
        // What is missing at the end is missed behind the last line.
        let (line, column) = match text.lines().count() {
            lines if line > lines => {
                let last = text.lines().last().unwrap_or("");
                (lines.max(1), last.chars().count())
            }
            _ => (line, marker.col()),
        };
        let offset = if line == 1 { self.column_offset } else { 0 };
        let place = Place {
            source: self.source,
            line,
            column: column + 1 + offset,
            width: 0,
        };
        self.decoder
            .problem(place, format!("this is no YAML: {}", error.info()));
    }
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn insert(
    decoder: &mut Decoder,
    entries: &mut Vec<Entry>,
    key: String,
    key_place: Place,
    mut node: Node,
) {
    if let Some(first) = entries.iter().find(|e| e.key == key) {
        decoder
            .problem(key_place, format!("the key {} a second time", quoted(&key)))
            .expected("each key once")
            .help(format!("the first is on line {}", first.key_place.line));
        return;
    }
    if node.is_null() {
        // The parser sees nothing somewhere behind the key; people see the key.
        node.place = key_place;
    }
    entries.push(Entry {
        key,
        key_place,
        node,
    });
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    let plain = style == ScalarStyle::Plain;
    if plain && matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Value::Null;
    }
    Value::Scalar {
        text: text.to_owned(),
        plain,
    }
}
