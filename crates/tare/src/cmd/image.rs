//! `tare image`: an image of a static program for each architecture, as an archive, in a registry or on a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use tare_run::image::{CredentialFiles, IMPORTERS, Image, Reference, push};

/// Write a container image of tare as an OCI archive, push it to a registry, or load it into a cluster
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
    /// Archive to write [default: tare-image.tar, but none with --push].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Push the image to a registry, over HTTPS or, on loopback, over HTTP. Credentials are those of `docker login` or
    /// `podman login`, and of the credential helpers in ~/.docker/config.json. The default tag is the version of tare.
    #[arg(long, value_name = "REGISTRY/NAME[:TAG]", conflicts_with_all = ["name", "load"])]
    push: Option<Reference>,
    /// Import the archive with the command of the cluster: `kind`, `minikube`, `k3s ctr` or `ctr`. With k3s and
    /// containerd, run this on each node.
    #[arg(long, value_name = "CLUSTER", value_parser = PossibleValuesParser::new(IMPORTERS.map(|i| i.name)))]
    load: Option<String>,
    /// Instead of an image, write a copy of this program: from an init container into the volume of a pod, because the
    /// image has no other program that could copy it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["programs", "helms", "name", "out", "push", "load"])]
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
        paths.iter().map(|path| super::input::read(path)).collect()
    };
    let image = Image::with_helm(&read(&paths)?, &read(&args.helms)?).with_context(|| {
        let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        format!("failed to create an image of {}", names.join(" and "))
    })?;
    let name = args
        .push
        .as_ref()
        .map_or(args.name.clone(), ToString::to_string);
    let default = || args.push.is_none().then(|| PathBuf::from("tare-image.tar"));
    let out = args.out.clone().or_else(default);
    if let Some(out) = &out {
        let mut archive = Vec::new();
        image.write(&name, &mut archive)?;
        std::fs::write(out, archive)
            .with_context(|| format!("failed to write {}", out.display()))?;
        super::output::say(format_args!("{}: {name} {}", out.display(), image.digest()));
    }
    let importer = IMPORTERS
        .iter()
        .find(|i| args.load.as_deref() == Some(i.name));
    if let (Some(importer), Some(out)) = (importer, &out) {
        importer.import(out)?;
        let nodes = match importer.all_nodes {
            true => "all nodes",
            false => "this machine; repeat it on each node",
        };
        let command = importer.command(out);
        super::output::say(format_args!("{command}: imported {name} into {nodes}"));
    }
    if let Some(to) = &args.push {
        let credentials = CredentialFiles::of_user().find(to)?;
        let pushed = push(&image, to, credentials.as_ref())?;
        super::output::say(format_args!(
            "pushed; the next line belongs into the file of --cluster"
        ));
        super::output::print(format!("image: {pushed}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
