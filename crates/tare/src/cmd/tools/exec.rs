//! `tare __exec`: becomes another program that ends with tare, or keeps one with all processes that it starts. Hidden, because only tare calls it.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context as _;
use tare_local::Conduct;

/// Become another program, and end when the given parent ends.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run as this user and group, by number, such as 101:104.
    #[arg(long)]
    user: Option<String>,
    /// End with SIGINT when the parent ends, instead of SIGKILL.
    #[arg(long)]
    interrupt: bool,
    /// Start the program instead, and end all processes that it has started with it.
    #[arg(long)]
    keep: bool,
    /// Process id of the parent.
    parent: u32,
    /// The program to become.
    program: OsString,
    /// Arguments of the program.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let conduct = Conduct {
        user: args.user.as_deref().map(user).transpose()?,
        interrupt: args.interrupt,
        keep: args.keep,
    };
    if args.keep {
        let code = tare_local::keep(args.parent, conduct, &args.program, &args.arguments)?;
        return Ok(ExitCode::from(code));
    }
    let never = tare_local::exec(args.parent, conduct, &args.program, &args.arguments)?;
    match never {}
}

/// The numbers of a user and a group.
fn user(text: &str) -> anyhow::Result<(u32, u32)> {
    let numbers = text.split_once(':');
    let numbers = numbers.and_then(|(user, group)| Some((user.parse().ok()?, group.parse().ok()?)));
    numbers.with_context(|| format!("found user {text:?}, expected two numbers such as 101:104"))
}
