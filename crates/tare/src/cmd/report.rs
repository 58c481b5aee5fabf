//! `tare report`.

use std::process::ExitCode;

/// Rebuild the analysis and the page from a run directory.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
