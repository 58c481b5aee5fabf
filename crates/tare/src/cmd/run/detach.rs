//! `tare run --detach`: the run continues on the cluster, without this machine.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use tare_cluster::detached::{DetachedRun, Volume, create};

use super::{Args, new_run};
use crate::cmd::output::{print, say};

/// Flags of a detached run.
#[derive(clap::Args)]
pub(super) struct Detach {
    /// Run the plan in a Job on the cluster, with the run directory on a volume there, and return at once. Follow the run
    /// with `tare attach`, and fetch its run directory with `tare fetch`. Needs --volume. If the plan installs meshes, the
    /// image needs Helm: see `tare image --with-helm`. Not for plans with hooks or an application of your own.
    #[arg(long, requires = "volume", conflicts_with_all = ["resume", "extend", "out", "web", "output"])]
    pub(super) detach: bool,
    /// With --detach: size of the volume for the run directory, for example `5Gi`.
    #[arg(long, value_name = "SIZE", requires = "detach")]
    volume: Option<String>,
    /// With --detach: storage class of the volume [default: that of the cluster].
    #[arg(long, value_name = "NAME", requires = "detach")]
    storage_class: Option<String>,
    /// With --detach: use the existing persistent volume of this name, which has at least the size of --volume.
    #[arg(long, value_name = "NAME", requires = "detach")]
    persistent_volume: Option<String>,
}

/// Starts the run of the command line on the cluster, and prints its id.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    ensure!(
        args.cluster.contexts().len() < 2,
        "--detach runs on one cluster: give one --context"
    );
    let start = new_run(args)?;
    let run = DetachedRun {
        schema_version: tare_plan::SCHEMA_VERSION,
        id: start.id.clone(),
        started_unix_ns: start.started_unix_ns,
        plan: start.plan,
        plan_text: start.text,
        profile: args.profile,
    };
    let detach = &args.detach;
    let volume = Volume {
        size: detach
            .volume
            .clone()
            .context("--detach needs --volume SIZE")?,
        storage_class: detach.storage_class.clone(),
        name: detach.persistent_volume.clone(),
    };
    let runtime = crate::cmd::runtime()?;
    runtime.block_on(create(run, &volume, &mut |line| say(line)))?;
    let id = start.id;
    say(format_args!(
        "The run continues on the cluster. Follow it with `tare attach {id}`, fetch its run directory with \
         `tare fetch {id}`, and remove everything with `tare clean --run {id}`."
    ));
    print(format!("{id}\n"))?;
    Ok(ExitCode::SUCCESS)
}
