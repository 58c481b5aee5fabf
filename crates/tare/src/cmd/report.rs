//! `tare report`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tare_analysis::summary::METHODS;
use tare_model::layout;
use tare_model::summary::Summary;
use tare_model::verdict::Grade;
use tare_report::{
    TableOptions, render_method, render_published, render_table, write_derived_without,
};

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

/// How an analysis is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// Answers, tables and findings.
    Text,
    /// The complete analysis as one JSON document.
    Json,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(clusters) = super::clusters::Clusters::open(&args.dir)? {
        if args.method.is_some() || args.published || !args.exclude.is_empty() {
            bail!(
                "{} has the runs of several clusters: these options need the directory of one run",
                args.dir.display()
            );
        }
        clusters.compare(args.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let summary = write_derived_without(&args.dir, &args.exclude)?;
    match &args.method {
        None => print(&summary, args.output, &args.dir)?,
        Some(method) => match render_method(&summary, method) {
            Some(text) => say(&text)?,
            None => bail!("no mesh has a usable trial under any load"),
        },
    }
    if args.published {
        say(&format!("\n{}", render_published(&summary)))?;
    }
    Ok(match summary.grade {
        Grade::Invalid => ExitCode::from(super::exit::INVALID),
        Grade::Valid | Grade::Suspect => ExitCode::SUCCESS,
    })
}

fn say(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush().context("write to standard output")
}

/// Prints the analysis of the run in `dir` to standard output.
pub(crate) fn print(summary: &Summary, output: Output, dir: &Path) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, summary).map_err(std::io::Error::from)?;
            writeln!(out)?;
        }
        Output::Text => {
            let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
            out.write_all(render_table(summary, TableOptions { colour }).as_bytes())?;
            writeln!(out, "\nrun:    {}", dir.display())?;
            writeln!(out, "report: {}", dir.join(layout::REPORT).display())?;
        }
    }
    out.flush().context("write to standard output")
}
