//! The history of a mesh: one entry for each build that a patrol has weighed.

mod annotations;
mod check;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::{Figure, Unit};

pub use annotations::Annotations;

/// The figures of a history.
pub const FIGURES: [Figure; 6] = [
    Figure::Capacity,
    Figure::Throughput,
    Figure::P50,
    Figure::P99,
    Figure::Cpu,
    Figure::Memory,
];

/// One entry of a history: a file of its own in the folder `entries`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryEntry {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Unique in the history; the name of its file.
    pub id: String,
    /// When the runs began.
    pub at_unix_ns: u64,
    /// The version or the name of the build that was weighed.
    pub build: String,
    /// Names of the plans.
    pub plan: String,
    /// Digest of the plan without its versions. Another value begins a new series.
    pub plan_key: String,
    /// The machine or cluster, in words.
    pub host: String,
    /// The same as a digest. Another value begins a new series.
    pub host_key: String,
    /// Name of the baseline: the variant that the figures of the others are divided by, block by block.
    pub anchor: String,
    /// Programs under test, with their digests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// Identities or addresses of the runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// The meshes, with the anchor, in the order of the plan.
    pub variants: Vec<HistoryVariant>,
}

/// One mesh of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryVariant {
    /// Name of the mesh without its version: the same in every entry.
    pub name: String,
    /// What was measured.
    pub figures: Vec<HistoryFigure>,
}

/// One figure of a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryFigure {
    /// One of [`FIGURES`].
    pub what: Figure,
    /// Name of the load.
    pub load: String,
    /// Unit of `value`.
    pub unit: Unit,
    /// The figure itself. It depends on the machine and on the day.
    pub value: Option<f64>,
    /// Natural logarithm of the ratio to the anchor. Absent for the anchor, and if the anchor lacks the figure:
    /// then changes are found in `value`.
    pub log_ratio: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
}

/// What the points of a series have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SeriesKey {
    /// `HistoryEntry::plan_key`.
    pub plan: String,
    /// `HistoryEntry::host_key`.
    pub host: String,
    /// `HistoryVariant::name`.
    pub variant: String,
    /// `HistoryFigure::what`.
    pub what: Figure,
    /// `HistoryFigure::load`.
    pub load: String,
    /// Unit of the points, if they are values; absent if they are ratios to the anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

/// A figure of a variant over all entries of one plan on one host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistorySeries {
    /// What its points have in common.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The points, by time.
    pub points: Vec<HistoryPoint>,
    /// Where the level changes.
    pub changes: Vec<HistoryChange>,
    /// The present level divided by the best one before it, if it is worse and nobody accepted it. An outlier counts
    /// while it is the last entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<f64>,
    /// The last points divided by the first ones, if they differ by more than the margin although no change was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<f64>,
}

/// A point of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryPoint {
    /// `HistoryEntry::id`.
    pub entry: String,
    /// `HistoryEntry::build`.
    pub build: String,
    /// Natural logarithm of the ratio to the anchor; without a ratio, of the value.
    pub log: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end of its interval.
    pub high: Option<f64>,
}

/// A change of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryChange {
    /// The first entry with the new level.
    pub entry: String,
    /// Its build.
    pub build: String,
    /// What kind of change.
    pub kind: ChangeKind,
    /// The new level divided by the old one.
    pub ratio: f64,
    /// Probability of so large a change by chance; absent for an outlier.
    pub p: Option<f64>,
    /// The note of its annotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether its annotation accepts or mutes it.
    #[serde(default)]
    pub silent: bool,
}

/// Kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The level changed, with enough points on both sides.
    Lasting,
    /// The level changed, but too few points on one side show that it lasts.
    Recent,
    /// One point is far from all others.
    Outlier,
}

impl ChangeKind {
    /// The text in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Lasting => "lasting",
            Self::Recent => "recent",
            Self::Outlier => "outlier",
        }
    }
}

/// A remark on a change: an item of `annotations.yaml` beside the entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    /// The build.
    pub build: String,
    /// The variant; all of them if absent.
    pub variant: Option<String>,
    /// The figure; all of them if absent.
    pub what: Option<String>,
    /// The cause of the change, or another remark.
    pub note: String,
    /// Whether the change is expected: it is shown, and raises no alarm.
    pub accepted: bool,
    /// The change raises no alarm before this date, for example `2026-12-31`.
    pub muted_until: Option<String>,
}

impl Annotation {
    /// Whether it concerns this change.
    #[must_use]
    pub fn concerns(&self, build: &str, variant: &str, what: Figure) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|w| w == found);
        self.build == build && is(&self.variant, variant) && is(&self.what, what.id())
    }
}
