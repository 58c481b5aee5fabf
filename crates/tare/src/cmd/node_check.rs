//! `tare node-check`.

use std::io::stdout;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tare_model::node_check::NodeCheckSpec;
use tare_run::node_check::{Place, run as check};

/// Report what a pod finds on its node (a worker of `tare doctor --deep`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Specification of the check, a JSON file; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let json = super::input::read_input(&args.spec)?;
    let spec: NodeCheckSpec =
        serde_json::from_slice(&json).context("invalid node check specification")?;
    let (place, mut out) = (Place::from_env(), stdout().lock());
    super::runtime()?.block_on(check(&spec, &place, &mut out))?;
    Ok(ExitCode::SUCCESS)
}
