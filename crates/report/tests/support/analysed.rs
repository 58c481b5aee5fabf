//! Analyses of synthetic runs, and changes to them.

use tare_analysis::StoredTrial;
use tare_analysis::summary::summarise;
use tare_plan::Plan;
use tare_plan::trial::order;
use tare_records::summary::Summary;
use tare_records::trial::TrialResult;
use tare_stats::Histogram;

use super::{manifest, trial};

/// All trials of a plan, whose results `change` may alter.
pub(crate) fn trials(plan: &Plan, mut change: impl FnMut(&mut TrialResult)) -> Vec<StoredTrial> {
    order(plan)
        .iter()
        .map(|spec| {
            let mut result = trial(spec).1;
            change(&mut result);
            StoredTrial {
                dir: spec.dir_name(),
                result,
                seconds: Vec::new(),
                failed_since_s: None,
                calls: None,
            }
        })
        .collect()
}

/// The analysis of a run whose results `change` may alter.
pub(crate) fn analysed(plan: &Plan, change: impl FnMut(&mut TrialResult)) -> Summary {
    summarise(&manifest(plan), &trials(plan, change), Vec::new())
}

/// Multiplies all latencies of the trial.
pub(crate) fn scale(result: &mut TrialResult, factor: f64) {
    let load = result.load.as_mut().unwrap();
    let mut scaled = Histogram::new();
    for (value, n) in Histogram::from_wire(&load.histograms.latency)
        .unwrap()
        .iter()
    {
        scaled.record_n((value as f64 * factor) as u64, n);
    }
    load.latency_ns = scaled.summary();
    load.histograms.latency = scaled.to_wire();
}

/// The table, which ends with the legend, without line breaks.
pub(crate) fn legend(summary: &Summary) -> String {
    let table = tare_report::render_table(summary, false);
    table.split_whitespace().collect::<Vec<_>>().join(" ")
}
