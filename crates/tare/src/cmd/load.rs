//! `tare load`.

use std::process::ExitCode;

/// Put a constant, open-loop load on URLs.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not built yet")
}
