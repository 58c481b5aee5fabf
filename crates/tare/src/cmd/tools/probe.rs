//! `tare probe`.

use std::process::ExitCode;

use tare_records::probe::ProbeSpec;

use crate::cmd::input::SpecFile;
use crate::terminal::raw_out;

/// Send single requests from outside the mesh, for proofs (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    spec: SpecFile,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let spec: ProbeSpec = args.spec.read("probe")?;
    crate::cmd::runtime()?.block_on(tare_run::probe::run(&spec, &mut raw_out().lock()))?;
    Ok(ExitCode::SUCCESS)
}
