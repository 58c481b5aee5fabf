//! From tree to [`PlanFile`]: types, units and ranges of each key by itself.

use super::file::{
    GraphEntry, LOAD, LoadFile, MESH, MeshEntry, PLAN, PlanFile, WORKLOAD, WorkloadFile,
};
use super::kubernetes::KubernetesSettings;
use super::prices::PricesFile;
use super::repeats;
use super::resolved::EnvironmentKind;
use crate::limits::{
    CONNECTIONS_MAX, HOUR_NS, INSTANCES_MAX, THREADS_MAX, TRIAL_TIMEOUT_NS_MAX, TRIAL_WINDOW_NS_MAX,
};
use crate::load::Pace;
use crate::mesh::SettingsFile;
use crate::source::{Decoder, Node, Part, Value};
use crate::units::{parse_duration, parse_rate};

/// Longest description or title, in bytes.
const TEXT_BYTES_MAX: usize = 400;

pub(super) fn plan(d: &mut Decoder, root: &Node) -> Option<PlanFile> {
    let fields = d.fields(root, &PLAN, "the plan")?;
    Some(PlanFile {
        name: d.part(&fields, "name", |d, n| d.name(n, "")),
        description: d.part(&fields, "description", line),
        environment: d.part(&fields, "environment", |d, n| {
            let words = [
                ("local", EnvironmentKind::Local),
                ("kubernetes", EnvironmentKind::Kubernetes),
            ];
            d.choice(n, &words)
        }),
        kubernetes: d.part(&fields, "kubernetes", kubernetes),
        workload: d.part(&fields, "workload", workload),
        mesh_files: d.part(&fields, "mesh_files", |d, n| {
            d.one_or_many(n, "paths", Decoder::text)
        }),
        meshes: d.part(&fields, "meshes", |d, n| match n.value {
            Value::Scalar { .. } => d.one_or_many(n, "meshes", mesh),
            _ => d.list(n, "meshes", mesh),
        }),
        baseline: d.part(&fields, "baseline", Decoder::text),
        load: d.part(&fields, "load", load),
        loads: d.part(&fields, "loads", |d, n| d.list(n, "loads", load)),
        repeats: d.part(&fields, "repeats", repeats::decode),
        seed: d.part(&fields, "seed", |d, n| d.integer(n, 0, u64::MAX)),
        prices: d.part(&fields, "prices", PricesFile::decode),
    })
}

/// Settings of the environment `kubernetes`.
fn kubernetes(d: &mut Decoder, node: &Node) -> Option<KubernetesSettings> {
    let settings = serde_path_to_error::deserialize::<_, KubernetesSettings>(node.to_json())
        .map_err(|e| format!("{}: {}", e.path(), e.inner()))
        .and_then(|s| s.check().map(|()| s));
    match settings {
        Ok(settings) => Some(settings),
        Err(found) => {
            d.problem(node.place, format!("in `kubernetes`: {found}"))
                .expected("what docs/kubernetes.md describes");
            None
        }
    }
}

/// A text on one line.
pub(super) fn line(d: &mut Decoder, node: &Node) -> Option<String> {
    let text = d.text(node)?;
    let text = text.trim();
    if text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control) {
        return Some(text.to_owned());
    }
    d.problem(node.place, format!("found a text of {} bytes", text.len()))
        .expected(format!("one line of at most {TEXT_BYTES_MAX}"));
    None
}

fn workload(d: &mut Decoder, node: &Node) -> Option<WorkloadFile> {
    let fields = d.fields(node, &WORKLOAD, "the workload")?;
    Some(WorkloadFile {
        graph: d.part(&fields, "graph", graph),
        instances: d.part(&fields, "instances", |d, n| d.count_of(n, 1, INSTANCES_MAX)),
        mix: d.part(&fields, "mix", Decoder::text),
    })
}

fn graph(d: &mut Decoder, node: &Node) -> Option<GraphEntry> {
    match &node.value {
        Value::Scalar { text, .. } => Some(GraphEntry::Name(text.clone())),
        Value::Map(entries) => match entries.as_slice() {
            [only] if only.key == "file" => Some(GraphEntry::File(d.text(&only.node)?)),
            _ => Some(GraphEntry::Inline(node.clone())),
        },
        _ => {
            d.problem(node.place, format!("found {}", node.describe()))
                .expected("the name of a graph, `file: ...`, or a graph with `services`");
            None
        }
    }
}

fn mesh(d: &mut Decoder, node: &Node) -> Option<MeshEntry> {
    let before = d.count();
    let fields = d.fields(node, &MESH, "a mesh of the plan")?;
    if fields.get("mesh").is_none() {
        if d.count() == before {
            d.problem(node.place, "an entry without `mesh`")
                .expected("`mesh: NAME`, or the name alone");
        }
        return None;
    }
    Some(MeshEntry {
        mesh: d.part(&fields, "mesh", Decoder::text),
        name: d.part(&fields, "name", |d, n| d.name(n, "/")),
        title: d.part(&fields, "title", line),
        settings: d.part(&fields, "settings", SettingsFile::decode),
        kubernetes: d.part(&fields, "kubernetes", |_, n| Some(n.clone())),
    })
}

fn load(d: &mut Decoder, node: &Node) -> Option<LoadFile> {
    let fields = d.fields(node, &LOAD, "the load")?;
    let duration = |d: &mut Decoder, fields: &_, key, low, high| {
        d.part(fields, key, |d, n| duration(d, n, low, high))
    };
    Some(LoadFile {
        name: d.part(&fields, "name", |d, n| d.name(n, "")),
        rate: d.part(&fields, "rate", |d, n| d.one_or_many(n, "rates", rate)),
        connections: d.part(&fields, "connections", |d, n| {
            d.one_or_many(n, "numbers", |d, n| d.count_of(n, 1, CONNECTIONS_MAX))
        }),
        threads: d.part(&fields, "threads", |d, n| d.count_of(n, 1, THREADS_MAX)),
        arrivals: d.part(&fields, "arrivals", Decoder::text),
        pace: d.part(&fields, "pace", |d, n| {
            d.choice(n, &[("sleep", Pace::Sleep), ("spin", Pace::Spin)])
        }),
        duration: duration(d, &fields, "duration", 1, TRIAL_WINDOW_NS_MAX),
        warmup: duration(d, &fields, "warmup", 0, TRIAL_WINDOW_NS_MAX),
        timeout: duration(d, &fields, "timeout", 1, TRIAL_TIMEOUT_NS_MAX),
    })
}

fn rate(d: &mut Decoder, node: &Node) -> Option<f64> {
    let value = d.unit(
        node,
        "requests per second, like `500`, `500rps` or `1.5krps`",
        parse_rate,
    )?;
    if value > 0.0 {
        return Some(value);
    }
    d.problem(node.place, format!("found {}", node.describe()))
        .expected("a rate above 0");
    None
}

fn duration(d: &mut Decoder, node: &Node, low_ns: u64, high_ns: u64) -> Option<u64> {
    let expected = "a duration with its unit, like `10s`, `1m30s` or `500ms`";
    let ns = d.unit(node, expected, parse_duration)?;
    if (low_ns..=high_ns).contains(&ns) {
        return Some(ns);
    }
    let above = if low_ns > 0 { "above 0 and " } else { "" };
    d.problem(node.place, format!("found {}", node.describe()))
        .expected(format!("a duration {above}up to {}h", high_ns / HOUR_NS));
    None
}

/// Where a mistake about the whole of something is pointed at: at its own place if
/// it was written, else at the beginning of `root`.
pub(super) fn place_of<T>(part: &Part<T>, root: &Node) -> crate::source::Place {
    part.place().unwrap_or(root.place)
}
