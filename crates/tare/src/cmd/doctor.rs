//! `tare doctor`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use tare_model::mesh::Mesh;
use tare_run::kube::{doctor, mesh_role, role_yaml, with_named_platform};

use super::exit;

/// Check whether a cluster can run a plan, without changing the cluster.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Environment to check: kubernetes.
    #[arg(long, default_value = "kubernetes")]
    environment: String,
    #[command(flatten)]
    cluster: super::cluster::Flags,
    /// Print the role that tare needs as YAML for `kubectl apply -f -`, without checking the
    /// cluster. With --plan it includes the permissions to install the plan's meshes, whose charts
    /// Helm renders.
    #[arg(long)]
    rbac: bool,
    /// Plan file or name of a built-in plan. Its `kubernetes` section and its meshes determine the
    /// permissions that tare needs (pull secrets, sampling by kubelets, objects of charts).
    #[arg(long)]
    plan: Option<String>,
    /// With --plan: omit the permissions to install its meshes, because they are installed already.
    #[arg(long, requires = "plan")]
    without_meshes: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.environment != "kubernetes" {
        bail!(
            "found environment `{}`, expected `kubernetes`: only clusters are checked",
            args.environment
        );
    }
    let (mut meshes, mut graph) = (Vec::new(), None);
    let clusters = match &args.plan {
        None => args.cluster.settings()?,
        Some(plan) => {
            let mut source = super::plan::read(plan, &["environment=kubernetes".to_owned()])?;
            args.cluster.apply(&mut source.plan)?;
            let filled = source.plan.meshes.iter().map(Mesh::with_version_filled);
            meshes = filled.collect();
            graph = Some(source.plan.workload.graph);
            args.cluster
                .each(&source.plan.kubernetes.unwrap_or_default())
        }
    };
    let runtime = super::runtime()?;
    let mut out = std::io::stdout().lock();
    let installed: Vec<_> = meshes
        .iter()
        .filter(|_| !args.without_meshes)
        .filter_map(|m| m.kubernetes.as_deref())
        .collect();
    if args.rbac {
        // `kubectl apply` would apply an incomplete role, so nothing is printed before it is complete.
        let meshes = with_named_platform(&clusters[0], &meshes);
        let sections = meshes.iter().filter_map(|m| m.kubernetes.as_deref());
        let sections: Vec<_> = sections.filter(|_| !args.without_meshes).collect();
        let more = runtime.block_on(mesh_role(&clusters[0], &sections, graph.as_ref()))?;
        let mut role = role_yaml(&clusters[0]) + &more.yaml();
        if args.plan.is_none() {
            role += "# To install the meshes of a plan, tare needs more rights: tare doctor --rbac --plan PLAN\n";
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
        let checks = match runtime.block_on(doctor::examine(settings, &installed, graph.as_ref())) {
            // The other clusters are still checked.
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
