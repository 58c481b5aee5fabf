//! The workload of a plan: a graph by name, in a file, generated, or inline.

use super::file::{GraphEntry, GraphFile, ReadFile, WorkloadFile};
use super::resolved::Workload;
use crate::graph::{ServiceGraph, builtin, builtins, n_max};
use crate::source::{Count, Field, Location, Node, Problems, Short};
use crate::text::one_of;

pub(super) fn resolve(
    problems: &mut Problems,
    written: Field<Short<String, WorkloadFile>>,
    (root, folder): (&Node, &str),
    read_file: &ReadFile<'_>,
) -> Option<Workload> {
    let location = written.location().unwrap_or_default();
    let Short(file, _) = written.or_else(Short::default)?;
    let graph_location = file.graph.location().unwrap_or(location);
    let default = || GraphEntry::Name("emojivoto".to_owned());
    let mut graph = match file.graph.or_else(default)? {
        GraphEntry::Name(name) => by_name(problems, &name, graph_location),
        GraphEntry::Generate(settings) => match settings.generate.graph() {
            Ok(graph) => Some(graph),
            Err(problem) => {
                problems.add_at(graph_location, problem);
                None
            }
        },
        GraphEntry::Inline(graph) => valid(problems, *graph, root.find("workload.graph")),
        GraphEntry::File(GraphFile { file }) => match read_file(&file) {
            Ok(text) => read_graph(problems, &file, &text),
            Err(reason) => {
                problems
                    .add(graph_location, format!("cannot read the graph: {reason}"))
                    .expected("a path, relative to the plan");
                None
            }
        },
    }?;
    let store_location = file.store.location().unwrap_or(location);
    if let Some(store) = file.store.optional()? {
        if !graph.use_store(store) {
            problems
                .add(
                    store_location,
                    format!(
                        "the graph `{}` has no datastore outside the mesh",
                        graph.name
                    ),
                )
                .expected("a graph with `external: true` in a service, such as acme-air");
            return None;
        }
        if let Err(error) = graph.validate() {
            problems.add_message(store_location, &error.to_string());
            return None;
        }
    }
    let mix_location = file.mix.location().unwrap_or(location);
    let mix = file.mix.or_else(|| "default".to_owned())?;
    if graph.mix(&mix).is_none() {
        let names = graph.mixes.iter().map(|m| m.name.as_str());
        let found = format!("the graph `{}` has no mix `{mix}`", graph.name);
        problems.add(mix_location, found).one_of(&mix, names);
        return None;
    }
    if let Some(application) = &mut graph.application {
        application.start_at(folder);
    }
    let workload = Workload {
        graph,
        instances: file.instances.or(Count(1))?.0,
        mix,
    };
    let can = workload.replicable();
    let services = workload.graph.services.iter();
    for service in services.filter(|s| s.replicas > 1 && !can.contains(&s.name)) {
        let (name, replicas) = (&service.name, service.replicas);
        problems
            .add(mix_location, format!("`{name}` has {replicas} replicas"))
            .expected(format!(
                "one: `{name}` is in the mix `{}`, or no service calls it",
                workload.mix
            ))
            .help("only services that other services call, and not the load, can have replicas");
    }
    Some(workload)
}

/// Reads the graph of a file, as a plan with `workload: {graph: {file: ...}}` does.
///
/// # Errors
/// The problems of the file, each with its location.
pub fn graph_of_file(name: &str, text: &str) -> Result<ServiceGraph, Problems> {
    let mut problems = Problems::default();
    let graph = read_graph(&mut problems, name, text);
    problems.check(graph)
}

fn read_graph(problems: &mut Problems, name: &str, text: &str) -> Option<ServiceGraph> {
    let node = problems.read_file(name, text)?;
    let graph = problems.decode(&node)?;
    valid(problems, graph, &node)
}

fn by_name(problems: &mut Problems, name: &str, location: Location) -> Option<ServiceGraph> {
    let graph = builtin(name);
    let template = name.rsplit_once('-').and_then(|(kind, n)| {
        n.parse::<i64>().ok()?;
        Some((kind, n_max(kind)?))
    });
    if let (None, Some((kind, max))) = (&graph, template) {
        problems
            .add(location, format!("no graph `{name}`"))
            .expected(format!("N from 1 to {max} in `{kind}-N`"));
    } else if graph.is_none() {
        let all = builtins();
        problems
            .add(location, format!("unknown graph `{name}`"))
            .one_of(name, all.iter().map(|b| b.example))
            .expected(one_of(all.iter().map(|b| b.name)));
    }
    graph
}

fn valid(problems: &mut Problems, graph: ServiceGraph, node: &Node) -> Option<ServiceGraph> {
    if let Err(error) = graph.validate() {
        problems.add_message(node.find(&error.at).location, &error.problem);
        return None;
    }
    Some(graph)
}
