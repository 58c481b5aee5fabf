//! The trials of a plan: one mesh, one load, one repeat, run once; and their order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mesh::Mesh;
use crate::plan::{Load, Plan};
use tare_stats::rng::Rng;

/// One trial of a plan: `trial.json` in its directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Its identity within the run: its position in the order of the run, from 0, unless blocks are run
    /// again or added.
    pub index: u32,
    /// Which repeat, from 0.
    pub block: u32,
    /// What is under test.
    pub mesh: Mesh,
    /// The load.
    pub load: Load,
    /// Which attempt at the block, from 0: a block that something outside the trials disturbed is run
    /// again, with all its trials.
    #[serde(default, skip_serializing_if = "is_first")]
    pub attempt: u32,
    /// Whether stacks are sampled in this trial, after all blocks. Its results are in no figure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profile: bool,
    /// Seed of this trial's arrivals: the same for all meshes of a block and load,
    /// so that they see the same schedule.
    pub seed: u64,
}

impl TrialSpec {
    /// Directory name: `007-b3-envoy-mtls-200rps`, where blocks count from 1.
    #[must_use]
    pub fn dir_name(&self) -> String {
        self.dir_name_of(self.block + 1)
    }

    /// The name of the directory in runs of earlier versions, where blocks counted from 0.
    #[must_use]
    pub fn old_dir_name(&self) -> String {
        self.dir_name_of(self.block)
    }

    fn dir_name_of(&self, block: u32) -> String {
        let clean = |s: &str| -> String {
            s.chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() || c == '.' || c == '_' {
                        c
                    } else {
                        '-'
                    }
                })
                .collect()
        };
        let (mesh, load) = (clean(&self.mesh.name), clean(&self.load.name));
        match self.profile {
            true => format!("{:03}-{mesh}-{load}", self.index),
            false => format!("{:03}-b{block}-{mesh}-{load}", self.index),
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde calls"
)]
fn is_first(attempt: &u32) -> bool {
    *attempt == 0
}

/// All trials of a plan at their first attempt, in the order in which they run.
#[must_use]
pub fn order(plan: &Plan) -> Vec<TrialSpec> {
    (0..plan.repeats)
        .flat_map(|block| block_order(plan, block, 0))
        .collect()
}

/// The trials of an attempt at a block, in the order in which they run: the combinations of mesh and
/// load, shuffled from the plan's seed. The indices of later attempts follow those of all first ones at
/// the blocks with the same loads.
#[must_use]
pub fn block_order(plan: &Plan, block: u32, attempt: u32) -> Vec<TrialSpec> {
    let groups = plan.block_groups();
    let Some(blocks) = groups.iter().find(|g| g.range.contains(&block)) else {
        return Vec::new();
    };
    let loads = plan.loads.iter().enumerate();
    let loads: Vec<usize> = loads
        .filter(|(_, load)| blocks.has(&load.name))
        .map(|(l, _)| l)
        .collect();
    let meshes = plan.meshes.iter().enumerate();
    let mut combos: Vec<(usize, usize)> = meshes
        .filter(|(_, mesh)| blocks.has_mesh(&mesh.name))
        .flat_map(|(m, _)| loads.iter().map(move |l| (m, *l)))
        .collect();
    let stream = u64::from(attempt) << 48 | u64::from(block);
    Rng::stream(plan.seed, stream).shuffle(&mut combos);
    let before = attempt * blocks.len() + block - blocks.range.start;
    let first = blocks.first_index + before * combos.len() as u32;
    let trial = |(i, (m, l)): (usize, (usize, usize))| {
        let stream = u64::from(attempt) << 48 | u64::from(block) << 32 | (l as u64 + 1);
        TrialSpec {
            schema_version: crate::SCHEMA_VERSION,
            index: first + i as u32,
            block,
            mesh: plan.meshes[m].clone(),
            load: plan.loads[l].clone(),
            attempt,
            profile: false,
            seed: Rng::stream(plan.seed, stream).next_u64(),
        }
    };
    combos.into_iter().enumerate().map(trial).collect()
}

/// The profile trials of a plan, in the order in which they run after all blocks: each mesh under each load
/// with a fixed rate.
#[must_use]
pub fn profile_order(plan: &Plan) -> Vec<TrialSpec> {
    let loads = plan.loads.iter().enumerate();
    let loads = loads.filter(|(_, load)| load.is_open());
    let combos = loads.flat_map(|(l, load)| plan.meshes.iter().map(move |mesh| (l, load, mesh)));
    let trial = |(i, (l, load, mesh)): (usize, (usize, &Load, &Mesh))| TrialSpec {
        schema_version: crate::SCHEMA_VERSION,
        index: i as u32,
        block: plan.repeats,
        mesh: mesh.clone(),
        load: load.clone(),
        attempt: 0,
        profile: true,
        seed: Rng::stream(plan.seed, u64::MAX - l as u64).next_u64(),
    };
    combos.enumerate().map(trial).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_trials_are_one_of_each_mesh_and_load_after_all_blocks() {
        let text = "workload: chain-2\nmeshes: [bare, envoy]\nload: {rate: [100, 200]}\nrepeats: 3";
        let none = |_: &str| Err(String::new());
        let plan = crate::plan::resolve("p.yaml", text, &[], &none).unwrap();
        let profiles = profile_order(&plan);
        let names: Vec<String> = profiles.iter().map(TrialSpec::dir_name).collect();
        assert_eq!(
            names,
            [
                "000-bare-100rps",
                "001-envoy-100rps",
                "002-bare-200rps",
                "003-envoy-200rps"
            ]
        );
        assert!(profiles.iter().all(|t| t.profile && t.block == 3));
        assert_eq!(profiles[0].seed, profiles[1].seed, "the same arrivals");
        assert_ne!(profiles[0].seed, profiles[2].seed);
        assert!(order(&plan).iter().all(|t| !t.profile));
        assert_eq!(order(&plan).len(), 12);
    }
}
