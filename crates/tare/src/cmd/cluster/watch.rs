//! `tare watch`.

use std::process::ExitCode;

use tare_records::watch::WatchSpec;

use crate::cmd::input::SpecFile;
use crate::terminal::raw_out;

/// Send requests to a service at fixed instants, to see which of its servers answers (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    spec: SpecFile,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let spec: WatchSpec = args.spec.read("watch")?;
    crate::cmd::runtime()?.block_on(tare_run::watch::run(&spec, &mut raw_out().lock()))?;
    Ok(ExitCode::SUCCESS)
}
