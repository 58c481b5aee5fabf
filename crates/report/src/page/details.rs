//! Data of the charts over time, embedded in the page next to the summary. No other output needs
//! them. Records that cannot be read are skipped here, because the store has reported them.

use std::io::{BufReader, Read};
use std::path::Path;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tare_analysis::StoredTrial;
use tare_files::open_without_links;
use tare_records::layout;
use tare_records::record::{AgentRecord, LoadRecord, ResourceSample};
use tare_records::search::SearchStep;

use super::noise::Beside;
use super::series::{SeriesBuilder, TrialSeries, columns_of_trial};
use crate::steps;
use crate::store::{LoadedRun, next_line};

/// Most bytes of a stream that are read.
const STREAM_BYTES_MAX: u64 = 1 << 30;
/// Most bytes of a plan that are shown.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// The data of charts over time, and the plan for readers who want to repeat the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Details {
    /// One for each trial whose records can be read, in order of their index.
    pub series: Vec<TrialSeries>,
    /// The plan as it was written; empty if the run directory has none.
    pub plan: String,
    /// What ran beside each trial, for a drawing; not in the page's data either.
    #[serde(skip)]
    pub(super) beside: Vec<Beside>,
    /// The searches for capacities, for a drawing; not in the page's data.
    #[serde(skip)]
    pub(super) searches: Vec<TrialSearch>,
    /// End of the last window, of the wall clock; 0 without a trial that has one. Not in the page's data.
    #[serde(skip)]
    pub(super) ended_unix_ns: u64,
}

/// The search of a trial for the capacity.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TrialSearch {
    pub(super) mesh: String,
    pub(super) load: String,
    pub(super) steps: Vec<SearchStep>,
}

/// Reads the series of all trials, and the plan.
pub(super) fn read(run: &LoadedRun) -> Details {
    let columns = columns_of_trial(run.trials.len());
    let of_trial = |trial: &StoredTrial| {
        let dir = run.dir.join(layout::TRIALS).join(&trial.dir);
        trial_series(&dir, trial, columns)
    };
    let mut series: Vec<TrialSeries> = run.trials.iter().filter_map(of_trial).collect();
    series.sort_by_key(|s| s.index);
    series.dedup_by_key(|s| s.index);
    let mut plan = String::new();
    if let Ok(file) = open_without_links(&run.dir.join(layout::PLAN)) {
        let read = file.take(PLAN_BYTES_MAX).read_to_string(&mut plan);
        if read.is_err() {
            plan.clear();
        }
    }
    let searches = run.trials.iter();
    let searches = searches.filter_map(|t| search(&run.dir.join(layout::TRIALS).join(&t.dir), t));
    let beside = run.trials.iter().filter_map(|trial| {
        let machine = &trial.result.resources.as_ref()?.machine;
        Some(Beside {
            index: trial.result.trial.index,
            cores: machine.cores,
            others: machine.other_cores + machine.stolen_cores,
        })
    });
    let loads = run.trials.iter().filter_map(|t| t.result.load.as_ref());
    let ended = loads.map(|l| l.window_start_unix_ns.saturating_add(l.window_ns));
    Details {
        ended_unix_ns: ended.max().unwrap_or(0),
        beside: beside.collect(),
        series,
        plan,
        searches: searches.collect(),
    }
}

fn search(dir: &Path, trial: &StoredTrial) -> Option<TrialSearch> {
    trial.result.capacity.as_ref()?;
    let steps = steps::read(&dir.join(layout::STEPS)).ok()?.into_iter();
    let spec = &trial.result.trial;
    Some(TrialSearch {
        mesh: spec.mesh.name.clone(),
        load: spec.load.name.clone(),
        steps: steps.map(|s| s.step).collect(),
    })
}

fn trial_series(dir: &Path, trial: &StoredTrial, columns: u32) -> Option<TrialSeries> {
    let load = trial.result.load.as_ref()?;
    let mut builder = SeriesBuilder::new(trial.result.trial.index, load.window_ns, columns);
    for record in records::<LoadRecord>(&dir.join(layout::LOAD)) {
        if let LoadRecord::Interval(interval) = record {
            builder.interval(&interval);
        }
    }
    let samples: Vec<ResourceSample> = records::<AgentRecord>(&dir.join(layout::AGENT))
        .filter_map(|record| match record {
            AgentRecord::Sample(sample) => Some(sample),
            _ => None,
        })
        .collect();
    let resources = trial.result.resources.as_ref();
    Some(builder.finish(&samples, resources.map_or(&[][..], |r| &r.processes)))
}

fn records<T: DeserializeOwned>(path: &Path) -> impl Iterator<Item = T> {
    let file = open_without_links(path).map(|file| BufReader::new(file.take(STREAM_BYTES_MAX)));
    let records = file.into_iter().flat_map(|mut reader| {
        let mut line = String::new();
        std::iter::from_fn(move || {
            let is_read = next_line(&mut reader, &mut line).unwrap_or(false);
            is_read.then(|| serde_json::from_str(&line).ok())
        })
    });
    records.flatten()
}
