//! Data for the charts over time, carried in the page beside the summary.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::page::series::TrialSeries;

/// Data for charts over time, and the plan for readers who want to repeat the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Details {
    /// One for each trial whose records could be read, in order of their index.
    pub series: Vec<TrialSeries>,
    /// The plan as it was written; empty when the run directory has none.
    pub plan: String,
}
