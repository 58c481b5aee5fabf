//! `tare export`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use tare_model::summary::Summary;
use tare_report::export::{self, Export, Format, metrics, push};
use tare_report::{LoadedRun, load_run, summarise};

/// Write a run in the formats of other tools, from its directory alone.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory of a run, as `tare run` names it.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// What to write.
    #[arg(long, value_enum, required_unless_present = "push")]
    format: Option<FormatArg>,
    /// Where to write it: a file [default: standard output], or a folder for formats of several files.
    #[arg(long, short, value_name = "PATH", requires = "format")]
    out: Option<PathBuf>,
    /// Send the figures to this address: Prometheus remote write, or a push gateway's .../metrics/job/NAME.
    #[arg(long, value_name = "URL")]
    push: Option<String>,
    /// Header of the push, `Name: value`, as for authorisation; may be repeated.
    #[arg(long, value_name = "NAME: VALUE", requires = "push")]
    push_header: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// A row for each mesh under each load, and for each trial.
    Csv,
    /// The same table as Parquet.
    Parquet,
    /// The whole analysis; `tare schema summary` describes it.
    Json,
    /// OpenMetrics text, with pooled histograms.
    Openmetrics,
    /// HdrHistogram percentile distributions: a folder.
    Hgrm,
    /// HdrHistogram interval logs: a folder.
    Hlog,
    /// Fortio's JSON: a folder.
    Fortio,
    /// Service Mesh Performance, as JSON and Protobuf: a folder.
    Smp,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Csv => Self::Csv,
            FormatArg::Parquet => Self::Parquet,
            FormatArg::Json => Self::Json,
            FormatArg::Openmetrics => Self::Openmetrics,
            FormatArg::Hgrm => Self::Hgrm,
            FormatArg::Hlog => Self::Hlog,
            FormatArg::Fortio => Self::Fortio,
            FormatArg::Smp => Self::Smp,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let run = load_run(&args.dir)?;
    let summary = summarise(&run);
    for note in &run.notes {
        super::say(format_args!("tare: {note}"));
    }
    if let Some(format) = args.format {
        write(&run, &summary, format, args.out.as_deref())?;
    }
    if let Some(url) = &args.push {
        send(&run, &summary, url, &args.push_header)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(
    run: &LoadedRun,
    summary: &Summary,
    format: FormatArg,
    out: Option<&Path>,
) -> anyhow::Result<()> {
    let failed = |path: &Path| format!("failed to write {}", path.display());
    match (export::export(run, summary, format.into())?, out) {
        (Export::Document(bytes), Some(path)) => {
            std::fs::write(path, bytes).with_context(|| failed(path))
        }
        (Export::Document(bytes), None) => {
            let mut stdout = std::io::stdout().lock();
            if format == FormatArg::Parquet && stdout.is_terminal() {
                bail!("Parquet is nothing for a terminal; name a file with --out");
            }
            stdout.write_all(&bytes)?;
            stdout.flush()?;
            Ok(())
        }
        (Export::Files(files), Some(folder)) => {
            std::fs::create_dir_all(folder).with_context(|| failed(folder))?;
            for (name, bytes) in &files {
                let path = folder.join(name);
                std::fs::write(&path, bytes).with_context(|| failed(&path))?;
            }
            super::say(format_args!(
                "{} files in {}",
                files.len(),
                folder.display()
            ));
            Ok(())
        }
        (Export::Files(files), None) => {
            bail!(
                "these are {} files; name a folder for them with --out",
                files.len()
            )
        }
    }
}

fn send(run: &LoadedRun, summary: &Summary, url: &str, headers: &[String]) -> anyhow::Result<()> {
    let headers = headers
        .iter()
        .map(|h| {
            let (name, value) = h
                .split_once(':')
                .with_context(|| format!("header {h:?} has no colon: expected `name: value`"))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let families = metrics::of(run, summary)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let protocol = push::Protocol::of(url);
    push::push(url, protocol, &headers, &families, now.as_millis() as i64)?;
    let samples: usize = families.iter().map(|f| f.samples.len()).sum();
    super::say(format_args!("{samples} samples pushed to {url}"));
    Ok(())
}
