//! The plan of a gate: a reference, a candidate, the reference again and no mesh, in the same blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolved::Plan;
use crate::limits::SECOND_NS;
use crate::mesh::{DataPlaneKind, Mesh};
use crate::units::format_duration_ns;

/// Name of the reference in a gate.
pub const REFERENCE: &str = "reference";
/// Name of the reference that runs a second time in each block.
pub const AGAIN: &str = "reference-again";
/// Name of the candidate.
pub const CANDIDATE: &str = "candidate";

/// A gate: the run stops as soon as its blocks decide whether the candidate is worse than the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// The reference as it was written.
    pub reference: String,
    /// The candidate as it was written.
    pub candidate: String,
    /// Numbers of blocks after which the gate may be decided.
    pub looks: Vec<u32>,
    /// Fresh blocks that confirm an alarm.
    pub confirm: u32,
}

/// The meshes of a gate, as written.
#[derive(Debug, Clone, Copy)]
pub struct GateMeshes<'a> {
    /// What is in use.
    pub reference: &'a str,
    /// What may replace it.
    pub candidate: &'a str,
}

/// Makes the plan of a gate from `plan`, whose meshes are `bare` and the reference, and the mesh of the
/// candidate. It has as many blocks as `budget_ns` allows. The looks are added by the caller, by the number
/// of blocks.
///
/// # Errors
/// What was found and expected, if the plan cannot be gated.
pub fn gate(
    plan: &Plan,
    candidate: Mesh,
    written: GateMeshes<'_>,
    budget_ns: u64,
) -> Result<Plan, String> {
    let bare = |m: &&Mesh| m.data_plane == DataPlaneKind::None;
    let (Some(none), Some(reference)) = (
        plan.meshes.iter().find(bare),
        plan.meshes.iter().find(|m| !bare(m)),
    ) else {
        let found = &plan.meshes[0].name;
        return Err(format!(
            "found the reference {found}, expected a mesh with proxies"
        ));
    };
    if candidate.data_plane == DataPlaneKind::None {
        return Err(format!(
            "found the candidate {}, expected a mesh with proxies",
            candidate.name
        ));
    }
    if plan.loads.len() != 1 || !plan.loads[0].is_open() {
        return Err(format!(
            "found {} loads, expected one load with a rate",
            plan.loads.len()
        ));
    }
    if plan.sweep.is_some() || plan.until.is_some() {
        return Err("`vary` and `until` do not work in a gate: remove them".to_owned());
    }
    let named = |mesh: &Mesh, name: &str| Mesh {
        name: name.to_owned(),
        ..mesh.clone()
    };
    let mut plan = Plan {
        meshes: vec![
            named(reference, REFERENCE),
            named(&candidate, CANDIDATE),
            named(reference, AGAIN),
            none.clone(),
        ],
        baseline: REFERENCE.to_owned(),
        repeats: 1,
        gate: Some(Gate {
            reference: written.reference.to_owned(),
            candidate: written.candidate.to_owned(),
            looks: Vec::new(),
            confirm: 0,
        }),
        ..plan.clone()
    };
    let block_ns = plan.estimated_duration_ns().max(1);
    let blocks = (budget_ns / block_ns).min(u64::from(crate::limits::REPEATS_MAX)) as u32;
    if blocks < BLOCKS_MIN {
        return Err(format!(
            "found a budget of {}, which is enough for {blocks} blocks of {}; expected at least {}",
            format_duration_ns(budget_ns),
            format_duration_ns(block_ns),
            needed(u64::from(BLOCKS_MIN) * block_ns),
        ));
    }
    plan.repeats = blocks;
    Ok(plan)
}

/// The shortest budget that is accepted, as it is typed: rounded up to seconds.
fn needed(ns: u64) -> String {
    let seconds = ns.div_ceil(SECOND_NS);
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds:02}s"),
    }
}

/// Fewest blocks of a gate.
const BLOCKS_MIN: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pairing;
    use crate::plan::{EnvironmentKind, resolve};

    const MINUTE_NS: u64 = 60_000_000_000;

    fn on_cluster(mesh: &str) -> Plan {
        let text = "environment: kubernetes\nload: {rate: 50, connections: 16, duration: 8s, warmup: 2s}\n";
        let sets = [format!("meshes=bare,{mesh}"), "baseline=bare".to_owned()];
        resolve("plan.yaml", text, &sets, &|_| Err("no file".to_owned()))
            .unwrap_or_else(|e| panic!("{e}"))
    }

    fn gated(budget_ns: u64) -> Result<Plan, String> {
        let candidate = on_cluster("istio/minimal@1.27.3").meshes.remove(1);
        let written = GateMeshes {
            reference: "istio/minimal@1.27.1",
            candidate: "istio/minimal@1.27.3",
        };
        gate(
            &on_cluster("istio/minimal@1.27.1"),
            candidate,
            written,
            budget_ns,
        )
    }

    #[test]
    fn a_gate_on_a_cluster_runs_both_versions_in_turn_in_each_block() {
        let plan = gated(120 * MINUTE_NS).unwrap();
        assert_eq!(plan.environment, EnvironmentKind::Kubernetes);
        assert_eq!(plan.pairing, Pairing::Turns);
        let trials = crate::trial::order(&plan);
        for block in 0..plan.repeats {
            let of_block = trials.iter().filter(|t| t.block == block);
            let mut found: Vec<_> = of_block
                .map(|t| {
                    let section = t.mesh.with_version_filled().kubernetes;
                    let charts = section.map(|k| k.releases[1].version.clone());
                    (&*t.mesh.name, charts.flatten())
                })
                .collect();
            found.sort();
            let version = |v: &str| Some(v.to_owned());
            let expected = [
                ("bare", None),
                (CANDIDATE, version("1.27.3")),
                (REFERENCE, version("1.27.1")),
                (AGAIN, version("1.27.1")),
            ];
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn the_shortest_budget_in_the_message_is_accepted() {
        // Eight of these blocks do not last a whole number of seconds, minutes or hours.
        for duration in ["8s", "8123ms", "31s", "7m", "59m59s"] {
            let sets = [format!("load.duration={duration}")];
            let text = "meshes: [bare, envoy]\nload: {rate: 50, warmup: 2s}\n";
            let plan = resolve("plan.yaml", text, &sets, &|_| Err("no file".to_owned()));
            let plan = plan.unwrap_or_else(|e| panic!("{e}"));
            let written = GateMeshes {
                reference: "envoy",
                candidate: "envoy",
            };
            let with = |budget_ns| gate(&plan, plan.meshes[1].clone(), written, budget_ns);
            let error = with(1).unwrap_err();
            let (_, needed) = error.rsplit_once("expected at least ").unwrap();
            let needed_ns = crate::units::parse_duration(needed).unwrap();
            assert_eq!(with(needed_ns).unwrap().repeats, BLOCKS_MIN, "{needed}");
            assert!(with(needed_ns - SECOND_NS).is_err(), "{needed}");
        }
    }

    #[test]
    fn the_budget_of_a_gate_on_a_cluster_includes_installing() {
        let installed = gated(120 * MINUTE_NS).unwrap();
        let mut bare = installed.clone();
        bare.meshes
            .iter_mut()
            .for_each(|m| m.data_plane = DataPlaneKind::None);
        let saved = installed.estimated_duration_ns() - bare.estimated_duration_ns();
        let meshes = 3 * u64::from(installed.repeats);
        assert!(saved > meshes * MINUTE_NS / 2, "{saved} ns");
        assert!(installed.estimated_duration_ns() <= 120 * MINUTE_NS);
        let error = gated(20 * MINUTE_NS).unwrap_err();
        assert!(error.contains("enough for 3 blocks"), "{error}");
    }
}
