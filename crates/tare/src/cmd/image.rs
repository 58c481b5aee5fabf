//! `tare image`: writes an OCI archive of a static program for each architecture.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tare_run::image;

/// Write a container image of tare as an OCI archive, for `ctr image import`, `docker load` or `skopeo copy`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A statically linked program; repeat the option for an image of several architectures [default: this program].
    #[arg(long = "program", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// Name of the image.
    #[arg(long, default_value = concat!("localhost/tare:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Archive to write.
    #[arg(long, value_name = "FILE", default_value = "tare-image.tar")]
    out: PathBuf,
    /// Instead of an image, write a copy of this program: from an init container into the volume of a pod, because the
    /// image has no other program that could copy it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["programs", "name", "out"])]
    copy: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(copy) = &args.copy {
        std::fs::copy(std::env::current_exe()?, copy)
            .with_context(|| format!("failed to write {}", copy.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut paths = args.programs.clone();
    if paths.is_empty() {
        paths.push(std::env::current_exe()?);
    }
    let programs = paths.iter().map(|path| super::input::read(path));
    let programs: Vec<Vec<u8>> = programs.collect::<anyhow::Result<_>>()?;
    let mut archive = Vec::new();
    let digest = image::write(&programs, &args.name, &mut archive).with_context(|| {
        let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        format!("failed to create an image of {}", names.join(" and "))
    })?;
    std::fs::write(&args.out, archive)
        .with_context(|| format!("failed to write {}", args.out.display()))?;
    super::output::say(format_args!(
        "{}: {} {digest}",
        args.out.display(),
        args.name
    ));
    Ok(ExitCode::SUCCESS)
}
