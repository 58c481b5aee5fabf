//! `tare workload`.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use tare_plan::graph;
use tare_plan::graph::{ServiceGraph, ServiceProtocol};
use tare_plan::graph_of_file;
use tare_records::worker::WorkloadSpec;
use tare_workload::LocalInstance;

use crate::cmd::input::read_text;
use crate::cmd::run::plan::is_path;
use crate::terminal;

/// Show or serve the example applications (service graphs)
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub(crate) struct Args {
    /// Worker mode: read the specification of one service (JSON) from FILE, or from standard input
    /// with `-`, serve it, and write records to standard output
    #[arg(long, value_name = "FILE", required = true)]
    spec: Option<PathBuf>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the built-in service graphs
    List,
    /// Print a service graph as YAML
    Show {
        /// Name of a built-in graph, for example emojivoto or chain-5, or a file with a graph
        #[arg(value_name = "NAME|FILE")]
        name: String,
    },
    /// Serve a whole instance in one process on loopback ports, to try it out
    Serve {
        /// Name of a built-in graph, for example emojivoto or chain-5, or a file with a graph
        #[arg(value_name = "NAME|FILE")]
        name: String,
        /// Seed of error rates and probabilities
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Worker mode: answer every gRPC call on an address with an empty message
    #[command(hide = true)]
    Answer {
        /// Address and port to listen on
        listen: String,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match (args.action, args.spec) {
        (Some(Action::List), _) => list()?,
        (Some(Action::Show { name }), _) => show(&name)?,
        (Some(Action::Serve { name, seed }), _) => play(&name, seed)?,
        (Some(Action::Answer { listen }), _) => tare_workload::run_answers(&listen)?,
        (None, Some(spec)) => serve(&spec)?,
        (None, None) => bail!("expected --spec FILE or one of: list, show, serve"),
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(path: &Path) -> anyhow::Result<()> {
    let spec = match path.to_str() {
        Some("-") => read_spec(io::stdin().lock()),
        _ => tare_files::open(path)
            .map_err(Into::into)
            .and_then(read_spec),
    };
    let spec = spec.with_context(|| {
        format!(
            "failed to read the workload specification {}",
            path.display()
        )
    })?;
    tare_workload::run_worker(&spec, terminal::raw_out().lock()).map_err(Into::into)
}

/// Reads one JSON document. The writer may keep the pipe open, so this does not wait for its end.
fn read_spec(from: impl Read) -> anyhow::Result<WorkloadSpec> {
    let reader = io::BufReader::new(from);
    let mut documents = serde_json::Deserializer::from_reader(reader).into_iter();
    let first = documents.next();
    Ok(first.context("empty input: expected one JSON document")??)
}

fn list() -> io::Result<()> {
    let mut out = terminal::out();
    for b in graph::builtins() {
        writeln!(out, "{:<17} {}", b.name, b.title)?;
    }
    writeln!(out)?;
    writeln!(
        out,
        "N is a number from 1 to 50 (generated-N: to 200). `tare workload show emojivoto` prints one."
    )
}

fn show(name: &str) -> anyhow::Result<()> {
    let yaml = serde_saphyr::to_string(&find(name)?)?;
    writeln!(terminal::out(), "{}", yaml.trim_end())?;
    Ok(())
}

/// Returns a built-in graph, or that of a file.
fn find(name: &str) -> anyhow::Result<ServiceGraph> {
    let path = Path::new(name);
    if is_path(name) || (graph::builtin(name).is_none() && path.is_file()) {
        return graph_of_file(name, &read_text(path)?)
            .map_err(|errors| anyhow::anyhow!("invalid service graph\n\n{errors}"));
    }
    graph::builtin(name).with_context(|| {
        let known: Vec<_> = graph::builtins().iter().map(|b| b.name).collect();
        let known = known.join(", ");
        format!(
            "unknown service graph {name:?}: expected one of {known} (N from 1 to 50), or a file"
        )
    })
}

fn play(name: &str, seed: u64) -> anyhow::Result<()> {
    let graph = find(name)?;
    check_own(&graph)?;
    let tallies = tare_workload::run_instance(&graph, seed, |instance| {
        // The services continue even if these lines cannot be written.
        let _ = describe(&graph, instance);
    })?;
    let mut out = terminal::out();
    for (service, tally) in tallies {
        let failed = |name| tally.failed.get(name).copied().unwrap_or(0);
        for (endpoint, served) in &tally.served {
            let failed = failed(endpoint);
            writeln!(
                out,
                "{service} {endpoint}: {served} served, {failed} failed"
            )?;
        }
        for (endpoint, failed) in &tally.failed {
            if !tally.served.contains_key(endpoint) {
                writeln!(out, "{service} {endpoint}: 0 served, {failed} failed")?;
            }
        }
    }
    Ok(())
}

/// Refuses a graph with programs that only `tare run` starts.
fn check_own(graph: &ServiceGraph) -> anyhow::Result<()> {
    if graph.application.is_some() {
        bail!(
            "the graph {} is an application for a cluster, expected services of tare itself: `tare run` deploys it",
            graph.name
        );
    }
    for service in &graph.services {
        let key = match (&service.command, &service.store) {
            (Some(_), _) => "command",
            (_, Some(_)) => "store",
            _ => continue,
        };
        bail!(
            "the service {} has `{key}`, expected services of tare itself: `tare run` starts that program",
            service.name
        );
    }
    Ok(())
}

fn describe(graph: &ServiceGraph, instance: &LocalInstance) -> io::Result<()> {
    let mut out = terminal::out();
    for (name, protocol, address) in instance.services() {
        writeln!(out, "{name:<16} {}://{address}", protocol.name())?;
    }
    let endpoints = graph
        .mix("default")
        .map(|m| m.endpoints.as_slice())
        .unwrap_or_default();
    writeln!(out, "\ntry:")?;
    let mut shown = Vec::new();
    for endpoint in endpoints {
        let served = instance.server(&endpoint.service);
        let (false, Some(server)) = (shown.contains(&&endpoint.name), served) else {
            continue;
        };
        let service = graph.service(&endpoint.service);
        let option = match service.map(|s| s.protocol) {
            None | Some(ServiceProtocol::Grpc) => continue,
            Some(ServiceProtocol::Http2) => "--http2-prior-knowledge ",
            Some(ServiceProtocol::Http | ServiceProtocol::Tcp) => "",
        };
        shown.push(&endpoint.name);
        writeln!(
            out,
            "  curl {option}'http://{}{}'",
            server.address(),
            endpoint.path
        )?;
    }
    writeln!(out, "\nPress Ctrl-C to stop.")
}
