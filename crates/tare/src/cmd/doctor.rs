//! `tare doctor`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use tare_run::kube::{doctor, kinds};

use super::exit;

/// Ask whether a cluster is fit for a run, changing nothing.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which environment: kubernetes.
    #[arg(long, default_value = "kubernetes")]
    environment: String,
    #[command(flatten)]
    cluster: super::cluster::Flags,
    /// Print the role that tare needs, as YAML for `kubectl apply -f -`, and nothing else.
    #[arg(long)]
    rbac: bool,
    /// With --rbac: only what plans need that install no mesh.
    #[arg(long, requires = "rbac")]
    without_meshes: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if args.rbac {
        out.write_all(kinds::role_yaml(!args.without_meshes).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.environment != "kubernetes" {
        bail!(
            "found environment `{}`, expected kubernetes",
            args.environment
        );
    }
    let settings = args.cluster.settings()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let checks = runtime.block_on(doctor::examine(&settings))?;
    for check in &checks {
        let word = match check.good {
            Some(true) => "ok",
            Some(false) => "BAD",
            None => "note",
        };
        writeln!(out, "{word:<5} {:<12} {}", check.what, check.found)?;
    }
    let bad = checks.iter().any(|c| c.good == Some(false));
    Ok(if bad {
        ExitCode::from(exit::INVALID)
    } else {
        ExitCode::SUCCESS
    })
}
