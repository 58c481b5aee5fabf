//! `tare agent`.

use std::io::{Read, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tare_model::worker::AgentSpec;

/// Sample CPU and memory of processes (a worker of `tare run`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Agent specification, a JSON file; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    spec: PathBuf,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let text = if args.spec.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        text
    } else {
        std::fs::read_to_string(&args.spec)
            .with_context(|| format!("failed to read {}", args.spec.display()))?
    };
    let spec: AgentSpec = serde_json::from_str(&text).context("invalid agent specification")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(tare_run::agent::run(&spec, &mut stdout().lock()))?;
    Ok(ExitCode::SUCCESS)
}
