//! `tare clean`.

use std::process::ExitCode;

use anyhow::bail;
use tare_cluster as kube;
use tare_plan::KubernetesSettings;
use tare_records::trial::EventKind;

use crate::cmd::exit;
use crate::cmd::output::{one_line, say};

/// List the objects that runs left on a cluster; remove them with --run or --all.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: crate::cmd::cluster::Flags,
    /// End the run with this id, as listed by `tare clean`, and remove its objects. The volume of a detached run is
    /// removed too: fetch the run directory first.
    #[arg(long, conflicts_with = "all")]
    run: Option<String>,
    /// Do this for all runs, including those in progress and those of other people.
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime = crate::cmd::runtime()?;
    let mut left = false;
    // Whether the requested run may have objects: a cluster had some, or did not respond.
    let mut may_exist = false;
    let mut others = Vec::new();
    let clusters = args.cluster.settings()?;
    for settings in &clusters {
        let place = match &settings.context {
            Some(context) => format!("cluster {context}"),
            None => "this cluster".to_owned(),
        };
        // An error on one cluster does not stop the cleaning of the others.
        match runtime.block_on(clean(args, settings, &place)) {
            Ok(Cleaned::Nothing) => {}
            Ok(Cleaned::OtherRuns(found)) => others.push(found),
            Ok(Cleaned::Removed { all }) => {
                may_exist = true;
                left |= !all;
            }
            Err(error) if clusters.len() == 1 => return Err(error),
            Err(error) => {
                say(format_args!("tare: {place}: {}", one_line(&error)));
                may_exist = true;
                left = true;
            }
        }
    }
    if let Some(run) = &args.run
        && !may_exist
        && !others.is_empty()
    {
        bail!("found no objects of run {run}; {}", others.join("; "));
    }
    Ok(if left {
        ExitCode::from(exit::INVALID)
    } else {
        ExitCode::SUCCESS
    })
}

/// The result of cleaning one cluster.
enum Cleaned {
    /// No objects were found, or they were only listed.
    Nothing,
    /// The requested run has no objects. Contains a description of the runs that have some.
    OtherRuns(String),
    /// Objects were removed. `all` is false if some could not be removed.
    Removed { all: bool },
}

async fn clean(args: &Args, settings: &KubernetesSettings, place: &str) -> anyhow::Result<Cleaned> {
    let found = kube::leftovers(settings).await?;
    if found.is_empty() {
        say(format_args!("No objects of tare on {place}."));
        return Ok(Cleaned::Nothing);
    }
    let ids = found.join(", ");
    if args.run.is_none() && !args.all {
        say(format_args!(
            "Runs with objects on {place}: {ids}.\nRemove the objects with --run ID or --all."
        ));
        return Ok(Cleaned::Nothing);
    }
    if args.run.as_ref().is_some_and(|run| !found.contains(run)) {
        let found = format!("{place} has objects of: {ids}");
        return Ok(Cleaned::OtherRuns(found));
    }
    let mut progress = |line: &str| say(line);
    let events = kube::clean(settings, args.run.as_deref(), &mut progress).await?;
    for event in &events {
        say(format_args!("tare: {event}"));
    }
    let all = events.iter().all(|e| e.kind != EventKind::NotRemoved);
    Ok(Cleaned::Removed { all })
}
