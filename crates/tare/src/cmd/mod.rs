//! The commands. Each module has an `Args` for clap and a `run`.

use std::process::ExitCode;

use clap::Subcommand;

mod agent;
mod clean;
mod cluster;
mod clusters;
mod compare;
mod completions;
mod doctor;
mod exec;
mod export;
mod grpc;
mod image;
mod input;
mod load;
mod man;
mod mde;
mod merge;
mod output;
mod plan;
mod report;
mod run;
mod save;
mod schema;
mod search;
mod serve_echo;
mod tls;
mod workload;

/// Exit codes, beside 0 for good.
pub(crate) mod exit {
    /// An objective was missed, or a threshold that the user gave was exceeded.
    pub(crate) const MISSED: u8 = 1;
    /// The command line, a plan or a specification is invalid, or a requirement is missing.
    pub(crate) const USAGE: u8 = 2;
    /// The run or the measurement is invalid.
    pub(crate) const INVALID: u8 = 3;
    /// Ended by Ctrl-C or SIGTERM.
    pub(crate) const INTERRUPTED: u8 = 130;
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Plan(plan::Args),
    Load(Box<load::Args>),
    Merge(merge::Args),
    Report(report::Args),
    Doctor(doctor::Args),
    Clean(clean::Args),
    Image(image::Args),
    Compare(compare::Args),
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
    #[command(name = "__exec", hide = true)]
    Exec(exec::Args),
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        tare_run::local::die_with_parent()?;
        match self {
            Self::Run(args) => run::run(args),
            Self::Plan(args) => plan::run(args),
            Self::Load(args) => load::run(*args),
            Self::Merge(args) => merge::run(args),
            Self::Report(args) => report::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Clean(args) => clean::run(&args),
            Self::Image(args) => image::run(&args),
            Self::Compare(args) => compare::run(args),
            Self::Export(args) => export::run(&args),
            Self::Workload(args) => workload::run(args),
            Self::Grpc(args) => grpc::run(args),
            Self::Search(args) => search::run(*args),
            Self::ServeEcho(args) => serve_echo::run(args),
            Self::Schema(args) => schema::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
            Self::Agent(args) => agent::run(args),
            Self::Exec(args) => exec::run(args),
        }
    }
}

/// A runtime on this thread.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

/// Writes a line to standard error. A closed standard error is not a failure.
pub(crate) fn say(line: impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Formats an error and its causes in one line. A cause that the line already contains is not repeated.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words += ": ";
            words += &cause;
        }
    }
    words
}

/// Whether the reader of standard output closed it, which is not a failure.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_cause_is_not_repeated() {
        let cause = || anyhow!("no such file");
        let error = cause().context("a.yaml: no such file").context("failed");
        assert_eq!(words(&error), "failed: a.yaml: no such file");
        assert_eq!(words(&cause().context("failed")), "failed: no such file");
    }
}
