//! `tare probe`.

use std::io::stdout;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tare_model::probe::ProbeSpec;

/// Send single requests from outside the mesh, for proofs (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Probe specification, a JSON file; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = super::input::read_input(&args.spec)?;
    let spec: ProbeSpec = serde_json::from_slice(&json).context("invalid probe specification")?;
    super::runtime()?.block_on(tare_run::probe::run(&spec, &mut stdout().lock()))?;
    Ok(ExitCode::SUCCESS)
}
