//! `tare run`.

use std::process::ExitCode;

/// Run a plan: every mesh under every load, in blocks.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
