//! `tare doctor`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use tare_cluster::doctor::Check;
use tare_cluster::{Preview, deep_role_yaml, doctor, mesh_role, role_yaml};
use tare_plan::{KubernetesSettings, Plan};
use tokio::sync::watch;

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
    /// permissions that tare needs (pull secrets, sampling by kubelets, objects of charts). Default: the built-in plan
    /// cluster-quick, without its meshes.
    #[arg(long)]
    plan: Option<String>,
    /// With --plan: omit the permissions to install its meshes, for example because another account installs them.
    #[arg(long, requires = "plan")]
    without_meshes: bool,
    /// Also check with objects on the cluster: whether a pod of tare starts on each node and what it reaches, clocks, webhooks,
    /// capacity, networks, and what admission refuses. With --rbac: also print the role for this.
    #[arg(long)]
    deep: bool,
}

/// The plan whose objects are checked, without its meshes, if the command line has none.
const DEFAULT_PLAN: &str = "cluster-quick";

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.environment != "kubernetes" {
        bail!(
            "found environment `{}`, expected `kubernetes`: only clusters are checked",
            args.environment
        );
    }
    let plan = plan(&args)?;
    let settings = plan.kubernetes.as_deref().cloned().unwrap_or_default();
    let clusters = args.cluster.each(&settings);
    let runtime = crate::cmd::runtime()?;
    let mut out = crate::terminal::out();
    if args.rbac {
        // `kubectl apply` would apply an incomplete role, so nothing is printed before it is complete.
        let more = runtime.block_on(mesh_role(&clusters[0], &plan))?;
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
        let examined = examine(settings, &plan, stop.as_ref().map(|s| &s.asked), &mut out);
        bad |= match runtime.block_on(examined) {
            // The other clusters are still checked.
            Err(error) if clusters.len() > 1 => {
                let found = error.to_string();
                let (what, good) = ("cluster".to_owned(), Some(false));
                write_lines(&mut out, &[Check { what, good, found }])?;
                true
            }
            examined => examined?,
        };
        if stop.as_ref().is_some_and(|stop| *stop.asked.borrow()) {
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
    }
    Ok(if bad {
        ExitCode::from(exit::INVALID)
    } else {
        ExitCode::SUCCESS
    })
}

/// Checks a cluster, with `stop` also with objects on it. Returns whether a check failed.
async fn examine(
    settings: &KubernetesSettings,
    plan: &Plan,
    stop: Option<&watch::Receiver<bool>>,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    let preview = Preview::of(settings, plan).await?;
    let mut checks = doctor::examine(&preview).await?;
    if let Some(stop) = stop {
        // The deep checks test both with a pod on each node.
        checks.retain(|c| !["image", "architecture"].contains(&c.what.as_str()));
        write_lines(out, &checks)?;
        let deep = doctor::examine_deep(&preview, stop.clone()).await?;
        let deep = deep.unwrap_or_default();
        write_lines(out, &deep)?;
        checks.extend(deep);
    } else {
        write_lines(out, &checks)?;
    }
    Ok(checks.iter().any(|c| c.good == Some(false)))
}

/// Returns the plan of the command line, with the settings of the cluster.
fn plan(args: &Args) -> anyhow::Result<Plan> {
    let name = args.plan.as_deref().unwrap_or(DEFAULT_PLAN);
    let mut plan = crate::cmd::run::plan::read(name, &["environment=kubernetes".to_owned()])?.plan;
    if args.plan.is_none() {
        plan.meshes.retain(|m| m.kubernetes.is_none());
    }
    args.cluster.apply(&mut plan)?;
    if args.without_meshes {
        let sections = plan.meshes.iter_mut().filter_map(|m| m.kubernetes.as_mut());
        sections.for_each(|section| section.releases.clear());
    }
    Ok(plan)
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
