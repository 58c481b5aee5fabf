//! `tare keep`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use tare_run::keep;
use tare_run::keep::Keep;

use crate::terminal::raw_out;

/// Run another worker of `tare run`, and keep its records so that they can be read again.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An empty directory for the records.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The worker and its arguments, such as `agent --spec /spec/0.json`.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    worker: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let keep = Keep {
        dir: args.dir,
        program: std::env::current_exe()?,
        arguments: args.worker,
        port: keep::PORT,
    };
    let code = crate::cmd::runtime()?.block_on(keep::run(&keep, &mut raw_out().lock()))?;
    Ok(ExitCode::from(code))
}
