//! `tare doctor`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use tare_run::kube::mesh_role::mesh_role;
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
    /// Print the role that tare needs, as YAML for `kubectl apply -f -`, and nothing else. With
    /// --plan also what installing its meshes takes; Helm renders their charts for it.
    #[arg(long)]
    rbac: bool,
    /// A plan file or the name of a built-in plan, whose `kubernetes` and meshes decide what is
    /// needed (pull secrets, sampling by kubelets, objects of charts).
    #[arg(long)]
    plan: Option<String>,
    /// With --plan: leave out what installing its meshes takes, since they are there.
    #[arg(long, requires = "plan")]
    without_meshes: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.environment != "kubernetes" {
        bail!(
            "found environment `{}`, expected kubernetes",
            args.environment
        );
    }
    let mut meshes = Vec::new();
    let clusters = match &args.plan {
        None => args.cluster.settings()?,
        Some(plan) => {
            let mut source = super::plan::read(plan, &["environment=kubernetes".to_owned()])?;
            args.cluster.apply(&mut source.plan)?;
            meshes = source.plan.meshes;
            args.cluster
                .each(&source.plan.kubernetes.unwrap_or_default())
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut out = std::io::stdout().lock();
    let installed: Vec<_> = meshes
        .iter()
        .filter(|_| !args.without_meshes)
        .filter_map(|m| m.kubernetes.as_deref())
        .collect();
    if args.rbac {
        // All of it or nothing: half a role on standard output would be applied.
        let more = runtime.block_on(mesh_role(&clusters[0], &installed))?;
        let mut role = kinds::role_yaml(&clusters[0]) + &more.yaml();
        if args.plan.is_none() {
            role += "# Installing a plan's meshes takes more: tare doctor --rbac --plan PLAN\n";
        }
        out.write_all(role.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut bad = false;
    for settings in &clusters {
        if clusters.len() > 1 {
            let context = settings.context.as_deref().unwrap_or_default();
            writeln!(out, "cluster {context}")?;
        }
        let checks = match runtime.block_on(doctor::examine(settings, &installed)) {
            // One that does not answer says nothing of the others.
            Err(error) if clusters.len() > 1 => {
                writeln!(out, "{:<5} {error}", "BAD")?;
                bad = true;
                continue;
            }
            checks => checks?,
        };
        for check in &checks {
            let word = match check.good {
                Some(true) => "ok",
                Some(false) => "BAD",
                None => "note",
            };
            writeln!(out, "{word:<5} {:<12} {}", check.what, check.found)?;
        }
        bad |= checks.iter().any(|c| c.good == Some(false));
    }
    Ok(if bad {
        ExitCode::from(exit::INVALID)
    } else {
        ExitCode::SUCCESS
    })
}
