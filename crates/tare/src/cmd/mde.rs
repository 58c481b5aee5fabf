//! `tare plan mde`: what a plan can find, before it runs.

use std::path::{Path, PathBuf};

use anyhow::bail;
use tare_report::{load_run, render_detectable, summarise};

/// Say what differences a plan can find, from the scatter of an earlier run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory of a run on the same machine, with two blocks at least; five tell more.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Numbers of blocks to say it for.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [3, 5, 10, 20],
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    blocks: Vec<u32>,
}

/// The table as text.
pub(crate) fn text(args: &Args) -> anyhow::Result<String> {
    let summary = summarise(&load_run(&args.from)?);
    match render_detectable(&summary, &args.blocks) {
        Some(text) => Ok(text),
        None => bail!(no_scatter(&args.from)),
    }
}

fn no_scatter(dir: &Path) -> String {
    format!(
        "{}: found no mesh with two usable blocks beside the baseline; expected a run from which \
         scatter can be told",
        dir.display()
    )
}
