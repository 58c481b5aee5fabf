//! `tare node-check`.

use std::process::ExitCode;

use tare_records::node_check::NodeCheckSpec;
use tare_run::node_check::{Place, run as check};

use crate::cmd::input::SpecFile;
use crate::terminal::raw_out;

/// Report what a pod finds on its node (a worker of `tare doctor --deep`).
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    spec: SpecFile,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let spec: NodeCheckSpec = args.spec.read("node check")?;
    let (place, mut out) = (Place::from_env(), raw_out().lock());
    crate::cmd::runtime()?.block_on(check(&spec, &place, &mut out))?;
    Ok(ExitCode::SUCCESS)
}
