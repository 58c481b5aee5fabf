//! `tare schema`.

use std::process::ExitCode;

use anyhow::Context as _;

use tare_records::schemas;

use crate::cmd::output::{json, print};

/// Print the JSON Schema of a document that tare writes or reads.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name of the document [default: list all names].
    name: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = match &args.name {
        None => schemas::NAMES
            .map(|(name, what)| format!("{name:<19} {what}\n"))
            .concat(),
        Some(name) => {
            let unknown = || format!("unknown schema `{name}`: `tare schema` lists all names");
            json(&schemas::of(name).with_context(unknown)?)?
        }
    };
    print(text)?;
    Ok(ExitCode::SUCCESS)
}
