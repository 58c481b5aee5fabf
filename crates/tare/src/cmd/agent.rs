//! `tare agent`.

use std::io::stdout;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tare_model::worker::AgentSpec;

/// Sample CPU and memory of processes (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Agent specification, a JSON file; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = super::input::read_input(&args.spec)?;
    let spec: AgentSpec = serde_json::from_slice(&json).context("invalid agent specification")?;
    super::runtime()?.block_on(tare_run::agent::run(&spec, &mut stdout().lock()))?;
    Ok(ExitCode::SUCCESS)
}
