//! `tare watch`.

use std::io::stdout;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tare_model::watch::WatchSpec;

/// Send requests to a service at fixed instants, to see which of its servers answers (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Watch specification, a JSON file; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = super::input::read_input(&args.spec)?;
    let spec: WatchSpec = serde_json::from_slice(&json).context("invalid watch specification")?;
    super::runtime()?.block_on(tare_run::watch::run(&spec, &mut stdout().lock()))?;
    Ok(ExitCode::SUCCESS)
}
