//! `tare report`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use tare_analysis::summary::METHODS;
use tare_report::{render_method, render_published, write_derived};

use crate::cmd::output::{self, Output};

/// Analyse a run directory again: print the tables and write the report page.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run directory, as printed by `tare run`; or the directory of a run on several clusters,
    /// which are compared.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Numbers of the trials to exclude, as in the list of trials on the page, for example `3,7`.
    #[arg(long, value_name = "TRIAL,...", value_delimiter = ',', value_parser = number_of_trial)]
    exclude: Vec<u32>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Summarise the run by the method of a published benchmark, instead of the tables.
    #[arg(long, value_name = "METHOD", value_parser = METHODS, conflicts_with = "output")]
    method: Option<String>,
    /// Also print the figures of published benchmarks, with their sources.
    #[arg(long, conflicts_with = "output")]
    published: bool,
}

fn number_of_trial(text: &str) -> Result<u32, String> {
    let expected = || format!("found {text:?}, expected the number of a trial, such as `3`");
    text.parse().map_err(|_| expected())
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(clusters) = crate::cmd::cluster::clusters::Clusters::open(&args.dir)? {
        if args.method.is_some() || args.published || !args.exclude.is_empty() {
            bail!(
                "{} has the runs of several clusters: these options need the directory of one run",
                args.dir.display()
            );
        }
        clusters.compare(args.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let summary = write_derived(&args.dir, &args.exclude)?;
    match &args.method {
        None => output::print_analysis(&summary, args.output, &args.dir)?,
        Some(method) => match render_method(&summary, method) {
            Some(text) => output::print(text)?,
            None => bail!("no mesh has a usable trial under any load"),
        },
    }
    if args.published {
        output::print(format!("\n{}", render_published(&summary)))?;
    }
    Ok(ExitCode::from(output::code_of(summary.grade)))
}
