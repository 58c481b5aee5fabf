//! `tare doctor`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use tare_cluster::doctor::Check;
use tare_cluster::{deep_role_yaml, doctor, mesh_role, role_yaml, with_named_platform};
use tare_plan::Plan;
use tare_plan::mesh::Mesh;
use tare_run::environment::EnvironmentError;

use crate::cmd::exit;

/// Check whether a cluster can run a plan, without changing the cluster
///
/// Each line begins with `ok`, `BAD` (correct this before the run) or `note`. If a line is BAD, the exit code is 3. With --deep, also place a pod on each node (at most 50), and try everything that a run would create in server-side dry
/// runs, in namespaces that are removed at the end.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Environment to check: kubernetes.
    #[arg(long, default_value = "kubernetes")]
    environment: String,
    #[command(flatten)]
    cluster: crate::cmd::cluster::Flags,
    /// Print the role that tare needs as YAML for `kubectl apply -f -`, without checking the
    /// cluster. With --plan it includes the permissions to install the plan's meshes, whose charts
    /// Helm renders.
    #[arg(long)]
    rbac: bool,
    /// Plan file or name of a built-in plan. Its `kubernetes` section and its meshes determine the
    /// permissions that tare needs (pull secrets, sampling by kubelets, objects of charts).
    #[arg(long)]
    plan: Option<String>,
    /// With --plan: omit the permissions to install its meshes, for example because another account installs them.
    #[arg(long, requires = "plan")]
    without_meshes: bool,
    /// Also check with objects on the cluster: whether a pod of tare starts on each node and what it reaches, clocks, webhooks,
    /// capacity, networks, and what admission refuses. With --rbac: also print the role for this. Without --plan, the objects
    /// are those of the built-in plan cluster-quick without meshes.
    #[arg(long)]
    deep: bool,
}

/// The plan whose objects the deep checks try if the command line has none.
const DEEP_PLAN: &str = "cluster-quick";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.environment != "kubernetes" {
        bail!(
            "found environment `{}`, expected `kubernetes`: only clusters are checked",
            args.environment
        );
    }
    let plan = plan(&args)?;
    let (mut meshes, mut graph) = (Vec::new(), None);
    let clusters = match &plan {
        None => args.cluster.settings()?,
        Some(plan) => {
            let filled = plan.meshes.iter().map(Mesh::with_version_filled);
            meshes = filled.collect();
            graph = Some(&plan.workload.graph);
            let settings = plan.kubernetes.as_deref().cloned();
            args.cluster.each(&settings.unwrap_or_default())
        }
    };
    let runtime = crate::cmd::runtime()?;
    let mut out = crate::terminal::out();
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
        let more = runtime.block_on(mesh_role(&clusters[0], &sections, graph))?;
        let mut role = role_yaml(&clusters[0]) + &more.yaml();
        if args.deep {
            role += &deep_role_yaml();
        }
        if args.plan.is_none() {
            role += "# To install the meshes of a plan, tare needs more rights: tare doctor --rbac --plan PLAN\n";
        }
        out.write_all(role.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut bad = false;
    let stop = match args.deep {
        true => Some(crate::cmd::run::stop_on_signal(
            "Removing what was created",
        )?),
        false => None,
    };
    for settings in &clusters {
        if clusters.len() > 1 {
            let context = settings.context.as_deref().unwrap_or_default();
            writeln!(out, "cluster {context}")?;
        }
        let checks = runtime.block_on(doctor::examine(settings, &installed, graph));
        let mut checks = match checks {
            // The other clusters are still checked.
            Err(error) if clusters.len() > 1 => vec![not_checked(&error)],
            checks => checks?,
        };
        if args.deep {
            // The deep checks test both with a pod on each node.
            checks.retain(|c| !["image", "architecture"].contains(&c.what.as_str()));
        }
        write_lines(&mut out, &checks)?;
        bad |= is_bad(&checks);
        let Some((plan, stop)) = plan.as_ref().zip(stop.as_ref()) else {
            continue;
        };
        let examined = doctor::examine_deep(settings, plan, stop.asked.clone());
        let deep = match runtime.block_on(examined) {
            Err(error) if clusters.len() > 1 => vec![not_checked(&error)],
            deep => deep?.unwrap_or_default(),
        };
        write_lines(&mut out, &deep)?;
        bad |= is_bad(&deep);
        if *stop.asked.borrow() {
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
    }
    Ok(if bad {
        ExitCode::from(exit::INVALID)
    } else {
        ExitCode::SUCCESS
    })
}

fn is_bad(checks: &[Check]) -> bool {
    checks.iter().any(|c| c.good == Some(false))
}

/// The line of a cluster that cannot be checked.
fn not_checked(error: &EnvironmentError) -> Check {
    Check {
        what: "cluster".to_owned(),
        good: Some(false),
        found: error.to_string(),
    }
}

/// Returns the plan of the command line, with the settings of the cluster; `None` if none is needed.
fn plan(args: &Args) -> anyhow::Result<Option<Plan>> {
    let name = match &args.plan {
        Some(plan) => plan.as_str(),
        None if args.deep && !args.rbac => DEEP_PLAN,
        None => return Ok(None),
    };
    let mut source = crate::cmd::run::plan::read(name, &["environment=kubernetes".to_owned()])?;
    if args.plan.is_none() {
        source.plan.meshes.retain(|m| m.kubernetes.is_none());
    }
    args.cluster.apply(&mut source.plan)?;
    if args.without_meshes {
        let meshes = source.plan.meshes.iter_mut();
        for section in meshes.filter_map(|m| m.kubernetes.as_mut()) {
            section.releases.clear();
        }
    }
    Ok(Some(source.plan))
}

fn write_lines(out: &mut impl Write, checks: &[Check]) -> std::io::Result<()> {
    for check in checks {
        let word = match check.good {
            Some(true) => "ok",
            Some(false) => "BAD",
            None => "note",
        };
        writeln!(out, "{word:<5} {:<12} {}", check.what, check.found)?;
    }
    out.flush()
}
