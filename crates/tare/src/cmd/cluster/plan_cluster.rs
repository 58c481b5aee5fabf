//! `tare plan check --cluster`: what a run of a plan would do to a cluster and its nodes.

use std::fmt::Write as _;
use std::process::ExitCode;

use tare_cluster::Preview;
use tare_cluster::actions::actions;
use tare_records::actions::{Action, ClusterActions};

use crate::cmd::cluster::Flags;
use crate::cmd::exit;
use crate::cmd::output::Output;
use crate::cmd::run::plan::{read, summary};

/// Lists the actions of a plan on each cluster of the flags. If a chart cannot be rendered, the exit code is that of an
/// invalid run.
pub(crate) fn run(
    plan: &str,
    sets: &[String],
    flags: &Flags,
    output: Output,
) -> anyhow::Result<ExitCode> {
    let remedy = "--cluster checks a run on Kubernetes: remove --set environment=...";
    crate::cmd::run::plan::refuse_sets(sets, &[("environment", remedy)])?;
    let mut sets = sets.to_vec();
    sets.push("environment=kubernetes".to_owned());
    let mut plan = read(plan, &sets)?.plan;
    flags.apply(&mut plan)?;
    crate::cmd::run::plan::check_requirements(&plan)?;
    let settings = plan.kubernetes.as_deref().cloned().unwrap_or_default();
    let runtime = crate::cmd::runtime()?;
    let mut all: Vec<ClusterActions> = Vec::new();
    for settings in flags.each(&settings) {
        let preview = runtime.block_on(Preview::of(&settings, &plan))?;
        all.push(actions(&preview));
    }
    output.print(&all, || {
        let clusters: String = all.iter().map(text).collect();
        summary(&plan) + &clusters
    })?;
    let is_known = all
        .iter()
        .flat_map(|c| &c.meshes)
        .all(|m| m.error.is_none());
    Ok(match is_known {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(exit::INVALID),
    })
}

fn text(cluster: &ClusterActions) -> String {
    let mut text = format!(
        "\ncluster {}: Kubernetes {}, platform {}; this check changed nothing\n\nevery run:\n",
        cluster.server, cluster.kubernetes, cluster.platform
    );
    lines(&mut text, &cluster.run);
    for mesh in &cluster.meshes {
        let _ = writeln!(text, "\nmesh {}:", mesh.mesh);
        lines(&mut text, &mesh.actions);
        match &mesh.error {
            Some(error) => {
                let _ = writeln!(
                    text,
                    "  {:<11}  the other actions are unknown: {error}",
                    "ERROR"
                );
            }
            None if !mesh.is_installed => text += "  nothing: tare does not install it\n",
            None => {}
        }
    }
    text
}

fn lines(text: &mut String, actions: &[Action]) {
    for action in actions {
        let (kind, object, what) = (action.kind.word(), &action.object, &action.what);
        let _ = writeln!(text, "  {kind:<11}  {object}: {what}");
    }
}
