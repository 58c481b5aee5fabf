//! `tare agent`.

use std::process::ExitCode;

use tare_records::worker::AgentSpec;

use crate::cmd::input::SpecFile;
use crate::terminal::raw_out;

/// Sample CPU and memory of processes (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    spec: SpecFile,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let spec: AgentSpec = args.spec.read("agent")?;
    crate::cmd::runtime()?.block_on(tare_run::agent::run(&spec, &mut raw_out().lock()))?;
    Ok(ExitCode::SUCCESS)
}
