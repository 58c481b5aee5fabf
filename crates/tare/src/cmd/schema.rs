//! `tare schema`.

use std::io::Write as _;
use std::process::ExitCode;

use tare_model::schemas;

/// Print the JSON Schema of a document that tare writes or reads.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the document [default: list all names].
    name: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match &args.name {
        None => {
            for (name, what) in schemas::NAMES {
                writeln!(out, "{name:<19} {what}")?;
            }
        }
        Some(name) => {
            let Some(schema) = schemas::of(name) else {
                anyhow::bail!("unknown schema `{name}`: `tare schema` lists all names");
            };
            writeln!(out, "{}", serde_json::to_string_pretty(&schema)?)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
