//! `tare agent`.

use std::io::stdout;
use std::process::ExitCode;

use tare_model::worker::AgentSpec;

use super::input::SpecFile;

/// Sample CPU and memory of processes (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    spec: SpecFile,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let spec: AgentSpec = args.spec.read("agent")?;
    super::runtime()?.block_on(tare_run::agent::run(&spec, &mut stdout().lock()))?;
    Ok(ExitCode::SUCCESS)
}
