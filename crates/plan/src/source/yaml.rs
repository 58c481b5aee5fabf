//! Parses YAML into a tree.
//!
//! A safe subset of YAML: no anchors and aliases (with them, a small file can expand to a huge
//! one), no tags, one document, unique keys.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use super::location::Location;
use super::problem::Problems;
use super::tree::{Entry, Node, Value};
use crate::text::quoted;

/// Largest file, in bytes.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Most levels of nesting.
const DEPTH_MAX: usize = 32;
/// Most values in a file.
const NODES_MAX: usize = 20_000;
/// Most keys in one map.
const KEYS_MAX: usize = 1_000;

const ANCHOR: &str = "anchors and aliases (`&`, `*`) are not supported, expected the value itself; \
                      write the value out, or put the text in quotes if it begins with `&` or `*`";
const WRONG_KEY: &str = "the key is not a plain name, expected a name before `:`";

impl Problems {
    /// Reads a file. `None` after a problem that leaves no tree.
    pub fn read_file(&mut self, name: &str, text: &str) -> Option<Node> {
        let source = self.add_source(Some(name), text);
        parse(self, source, text, 0)
    }
}

/// Reads source `source` of `problems`, whose text is `text`; `column_offset` is
/// added to the columns of the first line. `None` after a problem that leaves no tree.
pub(super) fn parse(
    problems: &mut Problems,
    source: usize,
    text: &str,
    column_offset: usize,
) -> Option<Node> {
    let start = Location {
        source,
        line: 1,
        column: 1 + column_offset,
        width: 0,
    };
    if text.len() > TEXT_BYTES_MAX {
        problems
            .add(start, format!("the file has {} bytes", text.len()))
            .expected(format!("at most {TEXT_BYTES_MAX} bytes (256 KiB)"));
        return None;
    }
    // Some editors write a byte order mark.
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder {
        problems,
        source,
        column_offset,
        stack: Vec::new(),
        nodes: 0,
        root: None,
    };
    let mut parser = Parser::new_from_str(body);
    while let Some(event) = parser.next_event() {
        match event {
            Ok((event, span)) => builder.take(event, span)?,
            Err(error) => {
                builder.scan_problem(body, &error);
                return None;
            }
        }
    }
    Some(builder.root.unwrap_or(Node {
        location: start,
        value: Value::Null,
    }))
}

/// A list or a map that is still open.
enum Open {
    List(Location, Vec<Node>),
    Map(Location, Vec<Entry>, Option<(String, Location)>),
}

struct Builder<'p> {
    problems: &'p mut Problems,
    source: usize,
    column_offset: usize,
    stack: Vec<Open>,
    nodes: usize,
    root: Option<Node>,
}

impl Builder<'_> {
    /// A location from a line, from 1, and a column, from 0.
    fn at(&self, line: usize, column: usize, width: usize) -> Location {
        let offset = if line <= 1 { self.column_offset } else { 0 };
        Location {
            source: self.source,
            line: line.max(1),
            column: column + 1 + offset,
            width,
        }
    }

    fn location(&self, span: Span) -> Location {
        let (start, end) = (span.start, span.end);
        let width = match end.line() == start.line() {
            true => end.col().saturating_sub(start.col()),
            false => 0,
        };
        self.at(start.line(), start.col(), width)
    }

    /// `None` after a problem that leaves no tree.
    fn take(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        let location = self.location(span);
        match event {
            Event::Alias(_) => return self.refuse(location, ANCHOR),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if anchor != 0 =>
            {
                return self.refuse(location, ANCHOR);
            }
            Event::Scalar(_, _, _, Some(tag))
            | Event::SequenceStart(_, Some(tag))
            | Event::MappingStart(_, Some(tag)) => {
                let tag = quoted(&tag.to_string());
                return self.refuse(
                    location,
                    &format!("found the tag {tag}, expected a value without a tag"),
                );
            }
            // Neither paths nor arguments of programs can contain it, and keys with it are tare's own.
            Event::Scalar(text, ..) if text.contains('\0') => {
                let found = format!("{} contains NUL (`\\0`)", quoted(&text));
                return self.refuse(location, &format!("{found}, expected a text without it"));
            }
            Event::Scalar(text, style, ..) => {
                let value = scalar(&text, style);
                self.finish(location, value)?;
            }
            Event::SequenceStart(..) => self.open(location, Open::List(location, Vec::new()))?,
            Event::MappingStart(..) => {
                self.open(location, Open::Map(location, Vec::new(), None))?
            }
            Event::SequenceEnd | Event::MappingEnd => match self.stack.pop()? {
                Open::List(at, items) => self.finish(at, Value::List(items))?,
                Open::Map(at, entries, _) => self.finish(at, Value::Map(entries))?,
            },
            Event::DocumentStart(_) if self.root.is_some() => {
                let found = "found a second document, expected only one; remove `---` and the text after it";
                return self.refuse(location, found);
            }
            _ => {}
        }
        Some(())
    }

    /// Adds the problem of a message that leaves no tree.
    fn refuse(&mut self, location: Location, message: &str) -> Option<()> {
        self.problems.add_message(location, message);
        None
    }

    fn open(&mut self, location: Location, open: Open) -> Option<()> {
        if self.stack.len() >= DEPTH_MAX {
            let message = format!("the nesting is too deep, expected at most {DEPTH_MAX} levels");
            return self.refuse(location, &message);
        }
        if matches!(self.stack.last(), Some(Open::Map(_, _, None))) {
            return self.refuse(location, WRONG_KEY);
        }
        self.stack.push(open);
        Some(())
    }

    /// Adds a complete value to the innermost open list or map.
    fn finish(&mut self, location: Location, value: Value) -> Option<()> {
        let node = Node { location, value };
        self.nodes += 1;
        let crowded = matches!(self.stack.last(), Some(Open::Map(_, e, _)) if e.len() >= KEYS_MAX);
        if self.nodes > NODES_MAX || crowded {
            let message = format!(
                "the file is too large, expected at most {NODES_MAX} values, and {KEYS_MAX} keys in a map"
            );
            return self.refuse(location, &message);
        }
        match self.stack.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Map(_, entries, pending @ Some(_))) => {
                let (key, key_location) = pending.take()?;
                insert(self.problems, entries, key, key_location, node);
            }
            Some(Open::Map(_, _, pending)) => {
                let Value::Scalar { text, .. } = node.value else {
                    return self.refuse(location, WRONG_KEY);
                };
                *pending = Some((text, location));
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
            let column = indentation(found)
                .chars()
                .take_while(|c| *c != '\t')
                .count();
            let location = self.at(index + 1, column, 1);
            self.problems
                .add(location, "found a tab in the indentation")
                .expected("spaces");
            return;
        }
        // The parser reports a missing end after the last line.
        let (line, column) = match text.lines().count() {
            lines if line > lines => {
                let last = text.lines().last().unwrap_or("");
                (lines.max(1), last.chars().count())
            }
            _ => (line, marker.col()),
        };
        let location = self.at(line, column, 0);
        self.problems
            .add(location, format!("invalid YAML: {}", error.info()));
    }
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn insert(
    problems: &mut Problems,
    entries: &mut Vec<Entry>,
    key: String,
    key_location: Location,
    mut node: Node,
) {
    if let Some(first) = entries.iter().find(|e| e.key == key) {
        problems
            .add(key_location, format!("duplicate key {}", quoted(&key)))
            .expected("each key once")
            .help(format!("it is also on line {}", first.key_location.line));
        return;
    }
    if node.is_null() {
        // The parser locates an absent value somewhere after the key.
        node.location = key_location;
    }
    entries.push(Entry {
        key,
        key_location,
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
