//! Ratios of two figures, with intervals and outcomes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::{Figure, Unit};

/// One mesh compared with another under the same load, paired by block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeshComparison {
    /// Name of the mesh.
    pub mesh: String,
    /// Name of the mesh that it is compared with.
    pub reference: String,
    /// Name of the load.
    pub load: String,
    /// Blocks in which both have a usable trial.
    pub blocks: Vec<u32>,
    /// One for each figure that both have.
    pub ratios: Vec<Ratio>,
}

impl MeshComparison {
    /// The ratio of a figure; `None` if it was not measured.
    #[must_use]
    pub fn ratio(&self, what: Figure) -> Option<&Ratio> {
        self.ratios.iter().find(|r| r.what == what)
    }
}

/// One figure divided by another. Of paired figures, the values are those of the blocks: the ratio is
/// their geometric mean (below 10 blocks) or their Hodges-Lehmann estimate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The figure.
    pub what: Figure,
    /// Unit of the figures.
    pub unit: Unit,
    /// The ratio, above 0.
    pub value: f64,
    /// Lower end of its interval; absent with fewer than 2 values.
    pub low: Option<f64>,
    /// Upper end of its interval; absent with fewer than 2 values.
    pub high: Option<f64>,
    /// Difference of the figures on this machine, in their unit: what the ratio adds to the geometric
    /// mean of the reference. It depends on the machine; the ratio does so much less.
    pub difference: f64,
    /// The ratio of each block, in order of block; empty where nothing is paired.
    pub blocks: Vec<f64>,
    /// Whether it answers one of the plan's primary questions. All other ratios are exploratory: among
    /// many of them, some are different by chance.
    pub primary: bool,
    /// Two-sided p-value of a ratio of 1; absent without an interval.
    pub p: Option<f64>,
    /// The p-value after Holm's correction over all primary ratios, in a price list over those of
    /// the feature; absent for exploratory ones.
    pub p_holm: Option<f64>,
    /// Figures count as the same up to this share of each other: 0.05.
    pub margin: f64,
    /// The result.
    pub outcome: Outcome,
    /// The smallest ratio above 1 that this number of blocks detects in 80 % of repetitions: a range,
    /// because a few blocks leave their own deviation uncertain. Absent where nothing is paired.
    pub detectable: Option<[f64; 2]>,
    /// How many more blocks resolve it; only where the outcome is `not_resolved`.
    pub more_blocks: Option<MoreBlocks>,
    /// The same ratio from other trials, where that gives another outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<RatioVariant>,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The ratio is not 1: its value tells which way, and how much.
    Different,
    /// The ratio is within the margin, which was fixed before the run.
    Same,
    /// Neither of the two is certain.
    NotResolved,
}

impl Outcome {
    /// The text in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Different => "different",
            Self::Same => "the same within the margin",
            Self::NotResolved => "not resolved",
        }
    }
}

/// A number of further blocks, as a range: a few blocks leave their own deviation uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoreBlocks {
    /// At least so many.
    pub low: u32,
    /// At most so many; absent above 1,000.
    pub high: Option<u32>,
}

/// A ratio from another selection of trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatioVariant {
    /// Which trials.
    pub trials: TrialSelection,
    /// Number of blocks.
    pub blocks: u32,
    /// The ratio.
    pub value: f64,
    /// Lower end of its interval; absent with fewer than 2 blocks.
    pub low: Option<f64>,
    /// Upper end of its interval; absent with fewer than 2 blocks.
    pub high: Option<f64>,
    /// Two-sided p-value of a ratio of 1.
    pub p: Option<f64>,
    /// The result. For a primary ratio, the p-value counts as many times as there are primary ratios
    /// (Bonferroni).
    pub outcome: Outcome,
}

/// A selection of trials beside that of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrialSelection {
    /// The first attempts at all blocks, also at those that something outside the trials disturbed.
    AllBlocks,
    /// Only the blocks without a suspect trial.
    WithoutSuspect,
}
