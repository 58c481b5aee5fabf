//! `tare` weighs a service mesh. This file parses the command line and sets the exit code; each
//! command is a module under `cmd`.

use std::process::ExitCode;

use clap::Parser;

mod cmd;
mod log;
mod progress;
mod protobuf;
mod web;

/// Weigh a service mesh: measure what it costs in latency, CPU and memory, with an interval on every number.
#[derive(Parser)]
#[command(name = "tare", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    /// Log what tare does: each process, each request to a cluster, each wait. Repeat for more.
    ///
    /// TARE_LOG=LEVEL does the same; TARE_LOG=tare_run=debug,hyper=trace selects modules.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match log::start(cli.verbose).and_then(|()| cli.command.run()) {
        Ok(code) => code,
        Err(error) if cmd::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            cmd::say(format_args!("tare: {}", cmd::words(&error)));
            ExitCode::from(cmd::exit::USAGE)
        }
    }
}
