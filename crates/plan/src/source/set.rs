//! `--set path=value` and options of the same form: they change a tree before it is decoded, so that the
//! value is checked like one in the file.

use super::location::Location;
use super::problem::Problems;
use super::tree::{Entry, Node, SHORT_KEY, Value};
use super::yaml;
use crate::text::quoted;

/// An option with a value `path=value`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setter {
    /// Its name, such as `--set`.
    pub(crate) option: &'static str,
    /// An example of its value.
    pub(crate) example: &'static str,
}

/// Changes a setting of a plan.
pub(crate) const SET: Setter = Setter {
    option: "--set",
    example: "load.rate=500",
};

/// An argument of the command line.
#[derive(Debug, Clone, Copy)]
struct Argument {
    source: usize,
    /// Characters before the value of the option.
    before: usize,
}

/// Applies one `path=value` to `root`. Problems point at the argument.
pub(crate) fn apply(problems: &mut Problems, root: &mut Node, setter: Setter, text: &str) {
    let Setter { option, example } = setter;
    let source = Argument {
        source: problems.add_source(None, &format!("{option} {text}")),
        before: option.len() + 1,
    };
    let whole = locate(source, "", text);
    let Some((path, value)) = text.split_once('=') else {
        problems
            .add(whole, format!("found {} without `=`", quoted(text)))
            .expected(format!("a path and a value, like `{example}`"));
        return;
    };
    let Some(node) = walk(problems, source, root, path) else {
        return;
    };
    let location = locate(source, &format!("{path}="), value);
    if value.trim().is_empty() {
        let equals_sign = locate(source, path, "=");
        problems
            .add(equals_sign, "found nothing after `=`")
            .expected(format!("a value, like `{example}`"));
    } else if value.trim_start().starts_with(['[', '{', '"', '\'']) {
        // Brackets, braces and quotes are YAML.
        if let Some(value) = yaml::parse(problems, source.source, value.trim(), location.column - 1)
        {
            *node = value;
        }
    } else {
        let text = value.trim().to_owned();
        let value = Value::Scalar { text, plain: true };
        *node = Node { location, value };
    }
}

/// Location of `text`, without the blanks around it. In the argument it follows `before`.
fn locate(source: Argument, before: &str, text: &str) -> Location {
    let blanks = &text[..text.len() - text.trim_start().len()];
    Location {
        source: source.source,
        line: 1,
        column: 1 + source.before + before.chars().count() + blanks.chars().count(),
        width: text.trim().chars().count(),
    }
}

/// The node at `path`, created if it does not exist.
fn walk<'n>(
    problems: &mut Problems,
    source: Argument,
    root: &'n mut Node,
    path: &str,
) -> Option<&'n mut Node> {
    let mut node = root;
    let mut start = 0;
    for part in path.split('.') {
        let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        let location = locate(source, &path[..start], key);
        if key.trim().is_empty() {
            let found = format!("a name is missing in the path {}", quoted(path));
            problems
                .add(location, found)
                .expected("names separated by dots, like `loads[0].duration`");
            return None;
        }
        let before = path[..start].trim_end_matches('.');
        node = enter(problems, node, key.trim(), location, before)?;
        let mut index_start = start + key.len();
        for index in indices.split_inclusive(']') {
            let before = &path[..index_start];
            node = item(problems, node, index, locate(source, before, index), before)?;
            index_start += index.len();
        }
        start += part.len() + 1;
    }
    Some(node)
}

/// The value of `key` in the map at `path`. An absent value becomes an empty map first; a single
/// value becomes a map that has it under [`SHORT_KEY`].
fn enter<'n>(
    problems: &mut Problems,
    node: &'n mut Node,
    key: &str,
    location: Location,
    path: &str,
) -> Option<&'n mut Node> {
    let entry = |key: &str, node: Node| Entry {
        key: key.to_owned(),
        key_location: node.location,
        node,
    };
    if !matches!(node.value, Value::Map(_) | Value::List(_)) {
        let entries = match node.is_null() {
            true => Vec::new(),
            false => vec![entry(SHORT_KEY, node.clone())],
        };
        let value = Value::Map(entries);
        *node = Node { location, value };
    }
    let Value::Map(entries) = &mut node.value else {
        problems
            .add(location, format!("`{path}` is a list"))
            .expected(format!("an index first, like `{path}[0].{key}`"));
        return None;
    };
    let position = entries.iter().position(|e| e.key == key);
    let position = position.unwrap_or_else(|| {
        let value = Value::Null;
        entries.push(entry(key, Node { location, value }));
        entries.len() - 1
    });
    Some(&mut entries[position].node)
}

/// The item at `index`, such as `[0]`, of the list at `path`.
fn item<'n>(
    problems: &mut Problems,
    node: &'n mut Node,
    index: &str,
    location: Location,
    path: &str,
) -> Option<&'n mut Node> {
    let inner = index.strip_prefix('[').and_then(|i| i.strip_suffix(']'));
    let Some(number) = inner.and_then(|i| i.parse::<usize>().ok()) else {
        problems
            .add(location, format!("found {}", quoted(index)))
            .expected("an index, such as `[0]`");
        return None;
    };
    let items = match &mut node.value {
        Value::List(items) => items.as_mut_slice(),
        Value::Map(_) => {
            problems
                .add(location, format!("`{path}` is a map"))
                .expected("a path without an index here");
            return None;
        }
        _ => &mut [],
    };
    let expected = match items.len() {
        0 => format!("`{path}` to be written as a list in the plan"),
        1 => format!("`{path}[0]`, the only one"),
        len => format!("`{path}[0]` to `{path}[{}]`", len - 1),
    };
    let no_items = items.is_empty();
    let item = items.get_mut(number);
    if item.is_none() {
        let problem = problems.add(location, format!("the plan has no item `{path}[{number}]`"));
        problem.expected(expected);
        if no_items && path == "loads" {
            problem.help("in a plan with `load`, use a path such as `load.rate`");
        }
    }
    item
}
