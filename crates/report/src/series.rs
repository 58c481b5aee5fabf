//! Reading what charts over time need. Only the page wants it, so that reading a run
//! for its figures stays fast. Records that cannot be read are passed over: whether
//! they bear out the result, the store has judged.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::de::DeserializeOwned;
use tare_model::layout;
use tare_model::record::{AgentRecord, LoadRecord, ResourceSample};

use tare_analysis::summary::StoredTrial;

use crate::page::{Details, SeriesBuilder, TrialSeries};
use crate::store::LoadedRun;

/// Most bytes of a stream that are read.
const STREAM_BYTES_MAX: u64 = 1 << 30;
/// Most bytes of a plan that are shown.
const PLAN_BYTES_MAX: u64 = 1 << 20;

/// The series of all trials, and the plan.
pub(crate) fn details(run: &LoadedRun) -> Details {
    let mut series: Vec<TrialSeries> = run
        .trials
        .iter()
        .filter_map(|trial| one(&run.dir.join(layout::TRIALS).join(&trial.dir), trial))
        .collect();
    series.sort_by_key(|s| s.index);
    series.dedup_by_key(|s| s.index);
    let mut plan = String::new();
    if let Some(file) = plain_file(&run.dir.join(layout::PLAN)) {
        let read = file.take(PLAN_BYTES_MAX).read_to_string(&mut plan);
        if read.is_err() {
            plan.clear();
        }
    }
    Details { series, plan }
}

fn one(dir: &Path, trial: &StoredTrial) -> Option<TrialSeries> {
    let load = trial.result.load.as_ref()?;
    let mut builder = SeriesBuilder::new(trial.result.trial.index, load.window_ns);
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
    let lines = plain_file(path)
        .into_iter()
        .flat_map(|file| BufReader::new(file.take(STREAM_BYTES_MAX)).lines());
    lines
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str(&line).ok())
}

/// The file, if it is one: links are not followed.
fn plain_file(path: &Path) -> Option<File> {
    let plain = std::fs::symlink_metadata(path).ok()?.is_file();
    plain.then(|| File::open(path).ok()).flatten()
}
