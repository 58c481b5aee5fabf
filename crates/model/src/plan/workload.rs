//! The workload of a plan: a graph by name, from a file, or written out.

use super::file::{GraphEntry, WorkloadFile};
use super::resolved::Workload;
use crate::graph::{ServiceGraph, builtin, builtins};
use crate::source::{Decoder, Node, Part, Place};

pub(super) fn resolve(
    d: &mut Decoder,
    written: Part<WorkloadFile>,
    read_file: &super::ReadFile<'_>,
) -> Option<Workload> {
    let place = written.place().unwrap_or_default();
    let file = written.or_else(WorkloadFile::default)?;
    let instances = file.instances.or(1);
    let graph = match file.graph {
        Part::Broken => None,
        Part::Absent => by_name(d, "emojivoto", place),
        Part::Given(at) => match at.value {
            GraphEntry::Name(name) => by_name(d, &name, at.place),
            GraphEntry::Inline(node) => decode(d, &node),
            GraphEntry::File(path) => match read_file(&path) {
                Ok(text) => d.read_file(&path, &text).and_then(|node| decode(d, &node)),
                Err(reason) => {
                    d.problem(at.place, format!("cannot read the graph: {reason}"))
                        .expected("a path, seen from the plan");
                    None
                }
            },
        },
    }?;
    let mix_place = file.mix.place().unwrap_or(place);
    let mix = file.mix.or_else(|| "default".to_owned())?;
    if graph.mix(&mix).is_none() {
        let names = graph.mixes.iter().map(|m| m.name.as_str());
        d.problem(
            mix_place,
            format!("the graph `{}` has no mix `{mix}`", graph.name),
        )
        .one_of(names.clone())
        .nearest(&mix, names);
        return None;
    }
    Some(Workload {
        graph,
        instances: instances?,
        mix,
    })
}

fn by_name(d: &mut Decoder, name: &str, place: Place) -> Option<ServiceGraph> {
    let graph = builtin(name);
    if graph.is_none() {
        let all = builtins();
        let names = all.iter().map(|b| b.name);
        let examples = all.iter().map(|b| b.example);
        d.problem(place, format!("there is no graph `{name}`"))
            .one_of(names)
            .nearest(name, examples);
    }
    graph
}

/// Decodes a graph that is written out, and validates it.
fn decode(d: &mut Decoder, node: &Node) -> Option<ServiceGraph> {
    let json = node.to_json();
    match serde_path_to_error::deserialize::<_, ServiceGraph>(json) {
        Ok(graph) => match graph.validate() {
            Ok(()) => Some(graph),
            Err(error) => {
                let place = find(node, &error.at).place;
                d.problem(place, format!("in `{}`: {}", error.at, error.problem));
                None
            }
        },
        Err(error) => {
            let path = error.path().to_string();
            report(d, node, &path, &error.into_inner().to_string());
            None
        }
    }
}

/// Puts what serde says into words for people, points at the key itself where it is
/// unknown, and finds the name that was meant among those that serde lists.
fn report(d: &mut Decoder, root: &Node, path: &str, message: &str) {
    let words: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let key = words.first().copied().unwrap_or("");
    let mut place = find(root, path).place;
    if message.starts_with("unknown field") {
        let parent = path.strip_suffix(key).unwrap_or(path);
        if let Some(entry) = find(root, parent.trim_end_matches('.')).entry(key) {
            place = entry.key_place;
        }
    }
    let (found, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let found = found
        .strip_prefix("invalid type: ")
        .or_else(|| found.strip_prefix("invalid value: "))
        .map_or_else(|| found.to_owned(), |rest| format!("found {rest}"));
    let expected = match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "f64" => "a number",
        "a string" => "a text",
        "a sequence" => "a list",
        other => other,
    };
    let problem = d
        .problem(place, format!("in the graph: {found}"))
        .expected(expected);
    if message.starts_with("unknown ") {
        problem.nearest(key, words.iter().skip(1).copied());
    }
}

/// The node at a path like `services[0].endpoints[1].path`, or the deepest one on
/// the way there.
fn find<'n>(node: &'n Node, path: &str) -> &'n Node {
    let mut at = node;
    for part in path.split('.') {
        let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            match at.entry(key) {
                Some(entry) => at = &entry.node,
                None => return at,
            }
        }
        for index in indices.split(['[', ']']).filter(|i| !i.is_empty()) {
            match index.parse().ok().and_then(|i| at.item(i)) {
                Some(item) => at = item,
                None => return at,
            }
        }
    }
    at
}
