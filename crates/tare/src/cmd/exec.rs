//! `tare __exec`: becomes another program that ends with tare. Hidden, because only tare calls it.

use std::ffi::OsString;
use std::process::ExitCode;

/// Become another program, and end when the given parent ends.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Process id of the parent.
    parent: u32,
    /// The program to become.
    program: OsString,
    /// Arguments of the program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let never = tare_run::local::exec(args.parent, &args.program, &args.arguments)?;
    match never {}
}
