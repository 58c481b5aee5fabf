//! `tare man`: writes man pages, made from the command line's own definition.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;

/// Write the man pages, one for each command
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder for the pages; created when it is missing.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(crate::Cli::command(), &args.dir))
        .with_context(|| format!("failed to write man pages to {}", args.dir.display()))?;
    Ok(ExitCode::SUCCESS)
}
