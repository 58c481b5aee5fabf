//! `tare export`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr as _;

use anyhow::{Context as _, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tare_plan::load::masked;
use tare_records::summary::Summary;
use tare_report::export::{self, Export, Format, metrics, push};
use tare_report::{LoadedRun, load_run, summarise};

use crate::cmd::input::Headers;

/// Export a run in the formats of other tools.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run directory, as printed by `tare run`.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Output format.
    #[arg(long, value_parser = format_parser(), required_unless_present = "push")]
    format: Option<Format>,
    /// Output file [default: standard output], or the output directory for formats with several files.
    #[arg(long, short, value_name = "PATH", requires = "format")]
    out: Option<PathBuf>,
    /// Push the figures to this URL: Prometheus remote write, or a Pushgateway (.../metrics/job/NAME).
    #[arg(long, value_name = "URL")]
    push: Option<String>,
    /// Header to send with --push, for example for authorization: `name: value`, or `@FILE` with one
    /// on each line, because other users of this machine can read a command line; may be repeated.
    #[arg(long, value_name = "NAME: VALUE|@FILE", requires = "push", value_parser = Headers::parse)]
    push_header: Vec<Headers>,
}

/// Parses the name of a format and lists all of them in the help.
fn format_parser() -> impl TypedValueParser<Value = Format> {
    let shown = Format::ALL.map(|(_, name, help)| PossibleValue::new(name).help(help));
    // Names of former formats are accepted here so that their own error explains what to use.
    let former = Format::FORMER.map(|(name, _)| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(shown.into_iter().chain(former))
        .try_map(|name| Format::from_str(&name))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let run = load_run(&args.dir)?;
    let summary = summarise(&run);
    for note in &run.notes {
        crate::cmd::output::say(format_args!("tare: {note}"));
    }
    if let Some(format) = args.format {
        write(&run, &summary, format, args.out.as_deref())?;
    }
    if let Some(url) = &args.push {
        send(&run, &summary, url, &Headers::all(&args.push_header)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(
    run: &LoadedRun,
    summary: &Summary,
    format: Format,
    out: Option<&Path>,
) -> anyhow::Result<()> {
    let failed = |path: &Path| format!("failed to write {}", path.display());
    match (export::export(run, summary, format)?, out) {
        (Export::Document(bytes), Some(path)) => {
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            if let Some(missing) = parent.filter(|p| !p.exists()) {
                let missing = missing.display();
                bail!("{}: the directory {missing} does not exist", failed(path));
            }
            std::fs::write(path, bytes).with_context(|| failed(path))
        }
        (Export::Document(bytes), None) => crate::cmd::output::print_document(&bytes),
        (Export::Files(files), Some(folder)) => {
            if folder.is_file() {
                bail!(
                    "{} is a file: this format writes {} files, choose a directory with --out",
                    folder.display(),
                    files.len()
                );
            }
            std::fs::create_dir_all(folder).with_context(|| failed(folder))?;
            for (name, bytes) in &files {
                let path = folder.join(name);
                std::fs::write(&path, bytes).with_context(|| failed(&path))?;
            }
            crate::cmd::output::say(format_args!(
                "wrote {} files to {}",
                files.len(),
                folder.display()
            ));
            Ok(())
        }
        (Export::Files(files), None) => {
            bail!(
                "this format writes {} files: choose a directory with --out",
                files.len()
            )
        }
    }
}

fn send(
    run: &LoadedRun,
    summary: &Summary,
    url: &str,
    headers: &[(String, String)],
) -> anyhow::Result<()> {
    let families = metrics::of(run, summary)?;
    let protocol = push::Protocol::of(url);
    let pushed = push::push(
        url,
        protocol,
        headers,
        &families,
        (tare_files::unix_ns() / 1_000_000) as i64,
    );
    let shown = masked(url);
    if let Err(error) = pushed {
        bail!("{}", error.to_string().replace(url, &shown));
    }
    let samples: usize = families.iter().map(|f| f.samples.len()).sum();
    crate::cmd::output::say(format_args!("pushed {samples} samples to {shown}"));
    Ok(())
}
