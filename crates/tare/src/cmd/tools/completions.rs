//! `tare completions`: prints shell completions, made from the command line's own definition.

use std::process::ExitCode;

use clap::{Command, CommandFactory as _};
use clap_complete::Shell;

/// Print completions for a shell
#[derive(clap::Args)]
#[command(
    after_help = "Example: tare completions bash > ~/.local/share/bash-completion/completions/tare"
)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(), "tare", &mut script);
    crate::cmd::output::print_document(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The command line without its hidden commands: `clap_complete` would offer them.
fn visible() -> Command {
    let all = crate::Cli::command();
    let commands = all.get_subcommands().filter(|c| !c.is_hide_set()).cloned();
    Command::new("tare")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .args(all.get_arguments().cloned())
        .subcommands(commands)
}
