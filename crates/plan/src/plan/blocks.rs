//! Which loads and meshes a block has. Every block of a plan has all of them, except in a sweep that was extended, in a
//! plan with `overload`, and in a plan in slices with more meshes than can be deployed together.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolved::{Load, Plan};
use crate::mesh::Mesh;

/// Consecutive blocks that have the same loads and meshes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockGroup {
    /// Number of blocks, at least 1; in an adaptive plan the maximum.
    pub blocks: u32,
    /// Names of the loads.
    pub loads: Vec<String>,
    /// Names of the meshes; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meshes: Vec<String>,
}

/// Consecutive blocks of a plan that have the same loads and meshes.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks<'a> {
    /// The blocks, from 0; in an adaptive plan, up to the maximum.
    pub range: Range<u32>,
    /// Their loads, in the order of the plan.
    pub loads: Vec<&'a Load>,
    /// Their meshes, in the order of the plan.
    pub meshes: Vec<&'a Mesh>,
    /// Index of the first trial of the first block.
    pub(crate) first_index: u32,
}

impl Blocks<'_> {
    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.range.end - self.range.start
    }

    /// Whether the range is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Number of trials: meshes x loads x blocks.
    #[must_use]
    pub fn trials(&self) -> u64 {
        u64::from(self.trials_of_block()) * u64::from(self.len())
    }

    /// Whether the blocks have this load.
    #[must_use]
    pub fn has(&self, load: &str) -> bool {
        self.loads.iter().any(|l| l.name == load)
    }

    /// Whether the blocks have this mesh.
    #[must_use]
    pub fn has_mesh(&self, mesh: &str) -> bool {
        self.meshes.iter().any(|m| m.name == mesh)
    }

    /// Trials of a block: each mesh under each load.
    #[must_use]
    pub fn trials_of_block(&self) -> u32 {
        (self.meshes.len() * self.loads.len()) as u32
    }
}

impl Plan {
    /// All blocks, grouped by their loads and meshes. The indices of the trials of a group follow those that all
    /// attempts at the groups before can have, so that an extension changes none of them.
    #[must_use]
    pub fn block_groups(&self) -> Vec<Blocks<'_>> {
        let groups = &self.block_groups;
        if groups.is_empty() {
            return vec![Blocks {
                range: 0..self.repeats,
                loads: self.loads.iter().collect(),
                meshes: self.meshes.iter().collect(),
                first_index: 0,
            }];
        }
        let (mut first, mut first_index) = (0, 0);
        let group = |group: &BlockGroup| {
            let loads = self.loads.iter();
            let meshes = self.meshes.iter();
            let all = group.meshes.is_empty();
            let blocks = Blocks {
                range: first..first + group.blocks,
                loads: loads.filter(|l| group.loads.contains(&l.name)).collect(),
                meshes: meshes
                    .filter(|m| all || group.meshes.contains(&m.name))
                    .collect(),
                first_index,
            };
            first += group.blocks;
            first_index += (self.reruns + 1) * group.blocks * blocks.trials_of_block();
            blocks
        };
        groups.iter().map(group).collect()
    }

    /// Checks that the groups of blocks name loads and meshes of the plan, and have as many blocks as the plan: the
    /// file of a resolved plan may have been changed.
    pub(super) fn check_block_groups(&self) -> Result<(), String> {
        if self.block_groups.is_empty() {
            return Ok(());
        }
        let blocks: u64 = self.block_groups.iter().map(|g| u64::from(g.blocks)).sum();
        if blocks != u64::from(self.repeats) {
            let expected = self.repeats;
            return Err(format!(
                "found {blocks} blocks in `block_groups`, expected {expected}"
            ));
        }
        let mut loads = self.block_groups.iter().flat_map(|g| &g.loads);
        if let Some(name) = loads.find(|name| self.loads.iter().all(|l| l.name != **name)) {
            return Err(format!(
                "found `{name}` in `block_groups`, expected the name of a load"
            ));
        }
        let mut meshes = self.block_groups.iter().flat_map(|g| &g.meshes);
        match meshes.find(|name| self.meshes.iter().all(|m| m.name != **name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "found `{name}` in `block_groups`, expected the name of a mesh"
            )),
        }
    }
}
