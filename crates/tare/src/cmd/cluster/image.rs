//! `tare image`: an image of a static program for each architecture, as an archive.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use tare_cluster::image::Image;

/// Write a container image of tare as an OCI archive, without Docker
///
/// skopeo, crane, podman and docker push the archive to a registry; `kind load image-archive`, `minikube image load`,
/// `k3s ctr images import` and `ctr -n k8s.io images import` load it into a cluster.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A statically linked program; repeat the option for an image of several architectures [default: this program].
    #[arg(long = "program", value_name = "FILE")]
    programs: Vec<PathBuf>,
    /// A statically linked Helm, for `tare run --detach` with meshes that Helm installs; repeat the option for several
    /// architectures.
    #[arg(long = "with-helm", value_name = "FILE")]
    helms: Vec<PathBuf>,
    /// Name of the image in the archive.
    #[arg(long, default_value = concat!("localhost/tare:", env!("CARGO_PKG_VERSION")))]
    name: String,
    /// Archive to write.
    #[arg(long, value_name = "FILE", default_value = "tare-image.tar")]
    out: PathBuf,
    /// Instead of an image, write a copy of this program: from an init container into the volume of a pod, because the
    /// image has no other program that could copy it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["programs", "helms", "name", "out"])]
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
    let read = |paths: &[PathBuf]| -> anyhow::Result<Vec<Vec<u8>>> {
        paths
            .iter()
            .map(|path| crate::cmd::input::read(path))
            .collect()
    };
    let image = Image::with_helm(&read(&paths)?, &read(&args.helms)?).with_context(|| {
        let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        format!("failed to create an image of {}", names.join(" and "))
    })?;
    let (name, out) = (&args.name, &args.out);
    let mut archive = Vec::new();
    image.write(name, &mut archive)?;
    std::fs::write(out, archive).with_context(|| format!("failed to write {}", out.display()))?;
    crate::cmd::output::say(format_args!("{}: {name} {}", out.display(), image.digest()));
    Ok(ExitCode::SUCCESS)
}
