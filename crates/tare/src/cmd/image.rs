//! `tare image`: writes an OCI archive of a static program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tare_run::image;

/// Write a container image of tare as an OCI archive, for `ctr image import`, `docker load` or `skopeo copy`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The program, which must be statically linked [default: this program].
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Name of the image.
    #[arg(long, default_value = concat!("localhost/tare:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Archive to write.
    #[arg(long, value_name = "FILE", default_value = "tare-image.tar")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let program = match &args.program {
        Some(path) => path.clone(),
        None => std::env::current_exe()?,
    };
    let bytes =
        std::fs::read(&program).with_context(|| format!("failed to read {}", program.display()))?;
    let mut archive = Vec::new();
    let digest = image::write(&bytes, &args.name, &mut archive)
        .with_context(|| format!("failed to make an image of {}", program.display()))?;
    std::fs::write(&args.out, archive)
        .with_context(|| format!("failed to write {}", args.out.display()))?;
    super::say(format_args!(
        "{}: {} {digest}",
        args.out.display(),
        args.name
    ));
    Ok(ExitCode::SUCCESS)
}
