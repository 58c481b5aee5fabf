//! `tare clean`.

use std::process::ExitCode;

use anyhow::bail;
use tare_run::kube;

use super::exit;

/// Remove what interrupted runs have left on a cluster.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: super::cluster::Flags,
    /// Id of one run, as the list without flags names it.
    #[arg(long, conflicts_with = "all")]
    run: Option<String>,
    /// What all runs have left, those under way too.
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = args.cluster.settings()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let found = runtime.block_on(kube::leftovers(&settings))?;
    if found.is_empty() {
        super::say("Nothing of tare is on this cluster.");
        return Ok(ExitCode::SUCCESS);
    }
    match &args.run {
        Some(run) if !found.contains(run) => {
            bail!("run {run} has left nothing; there is: {}", found.join(", "))
        }
        None if !args.all => {
            super::say(format_args!(
                "These runs have something on this cluster: {}.\nRemove it with --run ID, or with --all.",
                found.join(", ")
            ));
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let mut say = |line: &str| super::say(line);
    let events = runtime.block_on(kube::clean(&settings, args.run.as_deref(), &mut say))?;
    for event in &events {
        super::say(format_args!("tare: {}: {}", event.kind, event.message));
    }
    let left = events.iter().any(|e| e.kind == "left");
    Ok(if left {
        ExitCode::from(exit::INVALID)
    } else {
        ExitCode::SUCCESS
    })
}
