//! `tare fetch`.

use std::path::PathBuf;
use std::process::ExitCode;

use tare_cluster::detached::fetch;

use crate::cmd::exit;
use crate::cmd::output::{print, say};

/// Fetch the run directory of a run that `tare run --detach` has started, during the run or after its end.
///
/// A pod of tare mounts the run's volume and sends the files. A broken connection is continued; each file has a checksum.
/// Trials in progress are left out. A directory that this command has written before is replaced, with
/// all that was added to it. Any other that has files is an error.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id of the run [default: the only detached run of the cluster].
    id: Option<String>,
    /// Directory to write [default: runs/<id>].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    cluster: crate::cmd::cluster::Flags,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = args.cluster.one()?;
    let (id, out) = (args.id.as_deref(), args.out.as_deref());
    let mut progress = |line: &str| say(line);
    let stop = crate::cmd::run::stop_on_signal("Removing the pod that sends the files")?;
    let mut asked = stop.asked.clone();
    let stopped = async move {
        let _ = asked.wait_for(|asked| *asked).await;
    };
    let fetched = fetch(&settings, id, out, stopped, &mut progress);
    let Some(dir) = crate::cmd::runtime()?.block_on(fetched)? else {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    say(format_args!(
        "Print the report with `tare report {}`.",
        dir.display()
    ));
    print(format!("{}\n", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}
