//! What the page carries beside the summary: enough to analyse the run again
//! without some of its trials, and what charts over time need.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_model::layout::RunManifest;
use tare_model::summary::Summary;
use tare_stats::Histogram;
use tare_stats::analysis::{StoredTrial, summarise_without};

use crate::series::TrialSeries;

/// Everything that the analysis reads of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInput {
    /// `run.json`.
    pub manifest: RunManifest,
    /// The trials, without what the analysis does not use.
    pub trials: Vec<StoredTrial>,
    /// What reading the directory had to say.
    pub notes: Vec<String>,
}

impl RunInput {
    /// The run, without the histograms that no figure is made of.
    #[must_use]
    pub fn new(manifest: &RunManifest, trials: &[StoredTrial], notes: &[String]) -> Self {
        let nothing = Histogram::new().to_wire();
        let mut trials = trials.to_vec();
        for load in trials.iter_mut().filter_map(|t| t.result.load.as_mut()) {
            load.histograms.wait = nothing.clone();
            load.histograms.error_latency = nothing.clone();
        }
        Self {
            manifest: manifest.clone(),
            trials,
            notes: notes.to_vec(),
        }
    }

    /// The analysis without the trials named by their index.
    #[must_use]
    pub fn summarise(&self, excluded: &[u32]) -> Summary {
        summarise_without(&self.manifest, &self.trials, self.notes.clone(), excluded)
    }
}

/// What charts over time, and the reader who wants to repeat the run, need.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Details {
    /// One for each trial whose records could be read, in order of their index.
    pub series: Vec<TrialSeries>,
    /// The plan as it was written; empty when it is not there.
    pub plan: String,
}

/// Both, for the page of a whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// For analysing it again.
    pub input: RunInput,
    /// For charts over time.
    pub details: Details,
}
