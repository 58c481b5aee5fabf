//! The commands, in folders by what a user does: `run`, `load`, `history`, `cluster`, and `tools` for the rest. Each has
//! an `Args` for clap and a `run`.

use std::process::ExitCode;

use clap::Subcommand;

mod cluster;
pub(crate) mod exit;
mod history;
mod input;
mod load;
pub(crate) mod output;
mod run;
mod tools;
mod writable;

use cluster::{attach, clean, detached, doctor, fetch, image, node_check, observe, watch};
use history::{gate, patrol};
use load::{grpc, merge, search, serve_echo};
use run::{compare, export, plan, report};
use tools::{agent, completions, exec, keep, man, probe, schema, workload};

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Load(Box<load::Args>),
    Merge(merge::Args),
    Report(report::Args),
    Doctor(doctor::Args),
    Attach(attach::Args),
    Fetch(fetch::Args),
    Clean(clean::Args),
    Observe(observe::Args),
    Image(image::Args),
    Compare(compare::Args),
    Gate(Box<gate::Args>),
    Patrol(patrol::Args),
    History(history::Args),
    Export(export::Args),
    Workload(workload::Args),
    Search(Box<search::Args>),
    Grpc(grpc::Args),
    ServeEcho(serve_echo::Args),
    Schema(schema::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Man(man::Args),
    #[command(hide = true)]
    Agent(agent::Args),
    #[command(hide = true)]
    Probe(probe::Args),
    #[command(hide = true)]
    Watch(watch::Args),
    #[command(hide = true)]
    Keep(keep::Args),
    #[command(hide = true)]
    NodeCheck(node_check::Args),
    #[command(subcommand, hide = true)]
    Detached(detached::Action),
    #[command(name = "__exec", hide = true)]
    Exec(exec::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        tare_local::die_with_parent()?;
        match self {
            Self::Run(args) => run::run(args),
            Self::Plan(args) => plan::run(args),
            Self::Load(args) => load::run(*args),
            Self::Merge(args) => merge::run(args),
            Self::Report(args) => report::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Attach(args) => attach::run(&args),
            Self::Fetch(args) => fetch::run(&args),
            Self::Clean(args) => clean::run(&args),
            Self::Observe(args) => observe::run(args),
            Self::Image(args) => image::run(&args),
            Self::Compare(args) => compare::run(args),
            Self::Gate(args) => gate::run(*args),
            Self::Patrol(args) => patrol::run(&args),
            Self::History(args) => history::run(&args),
            Self::Export(args) => export::run(&args),
            Self::Workload(args) => workload::run(args),
            Self::Grpc(args) => grpc::run(args),
            Self::Search(args) => search::run(*args),
            Self::ServeEcho(args) => serve_echo::run(args),
            Self::Schema(args) => schema::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
            Self::Agent(args) => agent::run(args),
            Self::Probe(args) => probe::run(args),
            Self::Watch(args) => watch::run(args),
            Self::Keep(args) => keep::run(args),
            Self::NodeCheck(args) => node_check::run(args),
            Self::Detached(args) => detached::run(&args),
            Self::Exec(args) => exec::run(args),
        }
    }
}

/// Returns a runtime on this thread.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}
