//! `tare agent`.

use std::process::ExitCode;

/// Watch processes (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
