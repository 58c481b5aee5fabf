//! `tare plan mde`: which differences a plan can detect.

use std::path::PathBuf;

use anyhow::Context as _;
use tare_report::{load_run, render_detectable, summarise};

/// Print the minimum detectable effect: which ratios to the baseline a plan can detect, from the
/// variation between blocks of an earlier run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory of a run on the same machine with at least two blocks; five are better.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Numbers of blocks for which to compute the effect, separated by commas.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "3,5,10,20",
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    blocks: Vec<u32>,
}

/// Returns the table as text.
pub(crate) fn text(args: &Args) -> anyhow::Result<String> {
    let summary = summarise(&load_run(&args.from)?);
    render_detectable(&summary, &args.blocks).with_context(|| {
        format!(
            "{}: found fewer than two blocks in which both a mesh and the baseline have usable trials; use a run with more blocks",
            args.from.display()
        )
    })
}
