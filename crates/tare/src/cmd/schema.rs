//! `tare schema`.

use std::io::Write as _;
use std::process::ExitCode;

use tare_model::schemas;

/// Print the JSON Schema of a document that tare writes or reads.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which document; without it, all names are listed.
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
                anyhow::bail!("there is no schema `{name}`; `tare schema` lists them");
            };
            writeln!(out, "{}", serde_json::to_string_pretty(&schema)?)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
