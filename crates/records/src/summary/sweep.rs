//! What a sweep shows: each factor with its levels, and the lines through them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Estimate, Outcome};
use tare_plan::{Design, FactorKind, Figure, Level, Unit};

/// The factors of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepSummary {
    /// Which levels were combined.
    pub design: Design,
    /// In the order of the plan.
    pub factors: Vec<FactorSummary>,
}

/// One factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FactorSummary {
    /// What varies.
    pub kind: FactorKind,
    /// The kind in words, such as `response size`.
    pub title: String,
    /// Unit of the axis, such as `KiB`; empty for levels without an order.
    pub unit: String,
    /// All levels; the first is the anchor.
    pub levels: Vec<Level>,
    /// One for each combination of levels of the other factors, the anchors first.
    pub slices: Vec<Slice>,
    /// What the first slice shows, in sentences. Empty if nothing is fitted.
    pub answers: Vec<String>,
}

/// A factor while the other factors have these levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// Levels of the other factors, such as `connections=32`; empty if no other factor varies.
    pub at: String,
    /// One for each mesh of the plan file with usable trials at two levels or more, the baseline
    /// first.
    pub lines: Vec<SweepLine>,
}

/// A mesh over the levels of a factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepLine {
    /// Mesh name; of meshes whose settings vary, the name in the plan file.
    pub mesh: String,
    /// One for each level with a usable trial, in the order of the levels.
    pub points: Vec<SweepPoint>,
    /// Lines through the figures of the points. Empty if the factor has no unit in which costs are
    /// proportional.
    pub fits: Vec<Fit>,
}

/// A mesh at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepPoint {
    /// Label of the level.
    pub level: String,
    /// Position of the level on the axis; absent for levels without an order.
    pub value: Option<f64>,
    /// Mesh name of the trials.
    pub mesh: String,
    /// Load name of the trials.
    pub load: String,
    /// The figures that were measured.
    pub figures: Vec<SweepFigure>,
}

/// One figure of a mesh at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepFigure {
    /// The figure.
    pub what: Figure,
    /// Its unit.
    pub unit: Unit,
    /// Mean over the blocks with Student's interval.
    pub estimate: Estimate,
    /// Divided by that of the baseline at the same level, paired by block. Absent for the baseline, for
    /// the mean latency, and without a common block.
    pub to_baseline: Option<SweepRatio>,
    /// Divided by that of the same mesh at the anchor, paired by block. Absent for the anchor, for the
    /// mean latency, and without a common block.
    pub to_anchor: Option<SweepRatio>,
}

/// A ratio of two figures, paired by block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweepRatio {
    /// The ratio, above 0.
    pub value: f64,
    /// Lower end of its interval; absent with fewer than 2 blocks.
    pub low: Option<f64>,
    /// Upper end of its interval; absent with fewer than 2 blocks.
    pub high: Option<f64>,
    /// The result.
    pub outcome: Outcome,
}

/// A straight line through a figure over the levels: fitted in each block, then averaged over the blocks.
/// The blocks of a sweep that was extended have different levels; the mean of their slopes is weighted by the
/// spread of the levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// [`SweepFigure::what`].
    pub what: Figure,
    /// Its unit.
    pub unit: Unit,
    /// What one unit of the factor adds.
    pub slope: Estimate,
    /// The figure where the factor is 0.
    pub intercept: Estimate,
    /// The slope minus that of the baseline in the same block: what the mesh adds to each unit. Absent for
    /// the baseline, and where the baseline has no such line.
    pub over_baseline: Option<Estimate>,
    /// What the line of a block leaves at each level: measured minus fitted. If blocks have different levels,
    /// what is left by the mean slope. Empty with two levels, which every line fits.
    pub residuals: Vec<Residual>,
    /// Smallest p-value of the hypotheses that the mean residual of a level is 0 and that blocks with other
    /// levels have the same slope, after Holm's correction; absent with two levels or fewer than 3 blocks.
    pub lack_of_fit_p: Option<f64>,
    /// Whether the levels are not on a straight line: `lack_of_fit_p` is below 5 %. Then the slope is only
    /// an average over the range.
    pub curved: bool,
}

/// What a line leaves at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Residual {
    /// Label of the level.
    pub level: String,
    /// Measured minus fitted, in the unit of the figure: mean over the blocks with its interval.
    pub residual: Estimate,
}
