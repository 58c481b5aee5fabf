//! Which loads a block has. Every block of a plan has all loads, except in a sweep that was extended and in
//! a plan with `overload`.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolved::{Load, Plan};

/// Consecutive blocks that have the same loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockGroup {
    /// Number of blocks, at least 1; in an adaptive plan the maximum.
    pub blocks: u32,
    /// Names of the loads.
    pub loads: Vec<String>,
}

/// Consecutive blocks of a plan that have the same loads.
#[derive(Debug, Clone, PartialEq)]
pub struct Blocks<'a> {
    /// The blocks, from 0; in an adaptive plan, up to the maximum.
    pub range: Range<u32>,
    /// Their loads, in the order of the plan.
    pub loads: Vec<&'a Load>,
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

    /// Whether the blocks have this load.
    #[must_use]
    pub fn has(&self, load: &str) -> bool {
        self.loads.iter().any(|l| l.name == load)
    }
}

impl Plan {
    /// All blocks, grouped by their loads. The indices of the trials of a group follow those that all
    /// attempts at the groups before can have, so that an extension changes none of them.
    #[must_use]
    pub fn block_groups(&self) -> Vec<Blocks<'_>> {
        let groups = &self.block_groups;
        if groups.is_empty() {
            return vec![Blocks {
                range: 0..self.repeats,
                loads: self.loads.iter().collect(),
                first_index: 0,
            }];
        }
        let (mut first, mut first_index) = (0, 0);
        let group = |group: &BlockGroup| {
            let loads = self.loads.iter();
            let blocks = Blocks {
                range: first..first + group.blocks,
                loads: loads.filter(|l| group.loads.contains(&l.name)).collect(),
                first_index,
            };
            first += group.blocks;
            let trials = (self.meshes.len() * blocks.loads.len()) as u32;
            first_index += (self.reruns + 1) * group.blocks * trials;
            blocks
        };
        groups.iter().map(group).collect()
    }

    /// Number of trials in some of the plan's blocks: meshes x loads x blocks.
    #[must_use]
    pub fn trials_in(&self, blocks: &Blocks<'_>) -> u64 {
        self.meshes.len() as u64 * blocks.loads.len() as u64 * u64::from(blocks.len())
    }

    /// Checks that the groups of blocks name loads of the plan and have as many blocks as the plan: the
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
        let mut names = self.block_groups.iter().flat_map(|g| &g.loads);
        match names.find(|name| self.loads.iter().all(|l| l.name != **name)) {
            None => Ok(()),
            Some(name) => Err(format!(
                "found `{name}` in `block_groups`, expected the name of a load"
            )),
        }
    }
}
