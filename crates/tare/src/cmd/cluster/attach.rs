//! `tare attach`.

use std::process::ExitCode;

use tare_cluster::detached::{Attached, attach};
use tokio::sync::watch;

use crate::cmd::exit;
use crate::cmd::output::{print, say};
use crate::cmd::run::stop_on_signal;

/// Follow a run that `tare run --detach` has started, and end with its exit code.
///
/// Prints the log of the run's pod from its beginning, also after a lost connection, and that of a pod that
/// replaces it. Ctrl-C ends this command only; the run continues.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id of the run [default: the only detached run of the cluster].
    id: Option<String>,
    #[command(flatten)]
    cluster: crate::cmd::cluster::Flags,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = args.cluster.one()?;
    let runtime = crate::cmd::runtime()?;
    let stop = stop_on_signal("Leaving the run, which continues on the cluster")?;
    let mut failed = None;
    let (close, mut closed) = watch::channel(false);
    let mut print_line = |text: &str| {
        if let (None, Err(error)) = (&failed, print(format!("{text}\n"))) {
            failed = Some(error);
            let _ = close.send(true);
        }
    };
    let mut asked = stop.asked.clone();
    let stopped = async {
        tokio::select! {
            _ = asked.wait_for(|asked| *asked) => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
    };
    let mut message = |text: &str| say(text);
    let id = args.id.as_deref();
    let followed = attach(&settings, id, stopped, &mut print_line, &mut message);
    let attached = runtime.block_on(followed)?;
    if let Some(error) = failed {
        return Err(error);
    }
    match attached {
        Attached::Ended(id, code) => {
            say(format_args!(
                "Run {id} has ended with exit code {code}. Fetch its run directory with `tare fetch {id}`, and remove \
                 everything with `tare clean --run {id}`."
            ));
            Ok(ExitCode::from(code))
        }
        Attached::Left(id) => {
            say(format_args!(
                "Run {id} continues. Follow it again with `tare attach {id}`, or end it and remove everything with \
                 `tare clean --run {id}`."
            ));
            Ok(ExitCode::from(exit::INTERRUPTED))
        }
    }
}
