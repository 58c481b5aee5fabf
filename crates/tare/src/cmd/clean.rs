//! `tare clean`.

use std::process::ExitCode;

use anyhow::bail;
use tare_model::plan::KubernetesSettings;
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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut left = false;
    let mut found_there = Vec::new();
    for settings in args.cluster.settings()? {
        let place = match &settings.context {
            Some(context) => format!("the cluster of {context}"),
            None => "this cluster".to_owned(),
        };
        // One that does not answer keeps nothing on the others.
        match runtime.block_on(clean(args, &settings, &place, &mut found_there)) {
            Ok(some) => left |= some,
            Err(error) => {
                super::say(format_args!("tare: {place}: {error:#}"));
                found_there.push(String::new());
                left = true;
            }
        }
    }
    if let Some(run) = &args.run
        && !found_there.is_empty()
        && found_there.iter().all(|there| !there.is_empty())
    {
        bail!("run {run} has left nothing; {}", found_there.join("; "));
    }
    Ok(if left {
        ExitCode::from(exit::INVALID)
    } else {
        ExitCode::SUCCESS
    })
}

/// Whether something is left of what was to go.
async fn clean(
    args: &Args,
    settings: &KubernetesSettings,
    place: &str,
    found_there: &mut Vec<String>,
) -> anyhow::Result<bool> {
    let found = kube::leftovers(settings).await?;
    if found.is_empty() {
        super::say(format_args!("Nothing of tare is on {place}."));
        return Ok(false);
    }
    let there = found.join(", ");
    if args.run.is_none() && !args.all {
        super::say(format_args!(
            "These runs have something on {place}: {there}.\nRemove it with --run ID, or with --all."
        ));
        return Ok(false);
    }
    if args.run.as_ref().is_some_and(|run| !found.contains(run)) {
        found_there.push(format!("{place} has: {there}"));
        return Ok(false);
    }
    found_there.push(String::new());
    let mut say = |line: &str| super::say(line);
    let events = kube::clean(settings, args.run.as_deref(), &mut say).await?;
    for event in &events {
        super::say(format_args!("tare: {}: {}", event.kind, event.message));
    }
    Ok(events.iter().any(|e| e.kind == "left"))
}
