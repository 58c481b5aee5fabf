//! One trial over time, in a number of columns that depends on how many trials a page has: requests, latencies, CPU and memory.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_records::record::{Interval, ResourceSample};
use tare_records::trial::ProcessUse;
use tare_records::worker::Plane;
use tare_stats::Histogram;

/// Most columns of a trial, and fewest where they are shared by many. In longer trials several seconds share a column.
const COLUMNS: [u32; 2] = [10, 120];
/// Most columns of a page, so that it stays small.
const COLUMNS_OF_PAGE: u32 = 1_200;

/// Columns of each trial of a page.
pub(super) fn columns_of_trial(trials: usize) -> u32 {
    let [fewest, most] = COLUMNS;
    (COLUMNS_OF_PAGE / (trials.max(1) as u32)).clamp(fewest, most)
}
/// Buckets for each factor of ten of latency.
pub(super) const BUCKETS_PER_DECADE: f64 = 20.0;
/// Start of the first bucket, in nanoseconds. Faster responses count in it, too.
pub(super) const BUCKETS_FROM_NS: f64 = 1_000.0;

/// One trial over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrialSeries {
    /// `TrialSpec::index`.
    pub index: u32,
    /// Seconds per column.
    pub step_s: u32,
    /// Columns of the measured window, from its start, by intended time.
    pub columns: Vec<Column>,
    /// Seconds since the start of the window, at the end of each span between two samples.
    pub sampled_s: Vec<f64>,
    /// CPU in cores over each span, by plane.
    pub cpu_cores: BTreeMap<Plane, Vec<f64>>,
    /// Resident memory in MiB at the end of each span, by plane.
    pub memory_mib: BTreeMap<Plane, Vec<f64>>,
}

/// One second of a trial, or several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Planned requests.
    pub planned: u64,
    /// Requests that were sent, by the time of sending.
    pub sent: u64,
    /// Successful responses.
    pub ok: u64,
    /// Errors and timeouts.
    pub failed: u64,
    /// Median latency in nanoseconds; 0 without a response.
    pub p50_ns: u64,
    /// 99th percentile of latency in nanoseconds; with few responses, their maximum; 0 without a
    /// response.
    pub p99_ns: u64,
    /// Median lateness in nanoseconds.
    pub lateness_p50_ns: u64,
    /// Responses by latency, pairs of a bucket and its count: bucket `i` begins at
    /// `BUCKETS_FROM_NS * 10^(i / BUCKETS_PER_DECADE)`.
    pub buckets: Vec<(u32, u64)>,
}

/// Collects the records of one trial.
#[derive(Debug)]
pub(super) struct SeriesBuilder {
    index: u32,
    step_s: u32,
    most: u32,
    columns: BTreeMap<u32, (Column, Histogram, Histogram)>,
}

impl SeriesBuilder {
    /// Starts the series of trial `index` with a window of `window_ns`, in at most `most` columns.
    #[must_use]
    pub(super) fn new(index: u32, window_ns: u64, most: u32) -> Self {
        let seconds = window_ns.div_ceil(1_000_000_000).clamp(1, 1 << 31) as u32;
        Self {
            index,
            step_s: seconds.div_ceil(most),
            most,
            columns: BTreeMap::new(),
        }
    }

    /// Adds the record of one second. Skips damaged histograms, which the store has reported.
    pub(super) fn interval(&mut self, interval: &Interval) {
        let at = (interval.second / self.step_s).min(self.most);
        let (column, latency, lateness) = self.columns.entry(at).or_default();
        column.planned += interval.counts.planned;
        column.sent += interval.sent;
        column.ok += interval.counts.ok;
        column.failed += interval.counts.error + interval.counts.timeout;
        if let Ok(more) = Histogram::from_wire(&interval.latency) {
            latency.merge(&more);
        }
        if let Ok(more) = Histogram::from_wire(&interval.lateness) {
            lateness.merge(&more);
        }
    }

    /// Returns the series with CPU and memory. `samples` are in order; `processes` are in the order
    /// of each sample.
    #[must_use]
    pub(super) fn finish(
        self,
        samples: &[ResourceSample],
        processes: &[ProcessUse],
    ) -> TrialSeries {
        let last = self.columns.keys().next_back().copied();
        let mut columns = vec![Column::default(); last.map_or(0, |l| l as usize + 1)];
        for (at, (mut column, latency, lateness)) in self.columns {
            column.p50_ns = latency.quantile(0.5);
            column.p99_ns = latency.quantile(0.99);
            column.lateness_p50_ns = lateness.quantile(0.5);
            column.buckets = buckets(&latency);
            columns[at as usize] = column;
        }
        let mut series = TrialSeries {
            index: self.index,
            step_s: self.step_s,
            columns,
            sampled_s: Vec::new(),
            cpu_cores: BTreeMap::new(),
            memory_mib: BTreeMap::new(),
        };
        let every = samples.len().div_ceil(self.most as usize).max(1);
        let thinned: Vec<&ResourceSample> = samples.iter().step_by(every).collect();
        for pair in thinned.windows(2) {
            add_span(&mut series, pair[0], pair[1], processes);
        }
        series
    }
}

/// Adds the CPU and memory of the planes between two samples.
fn add_span(
    series: &mut TrialSeries,
    from: &ResourceSample,
    to: &ResourceSample,
    processes: &[ProcessUse],
) {
    series.sampled_s.push(rounded(to.t_ns as f64 / 1e9, 100.0));
    let n = series.sampled_s.len();
    let (mut cpu, mut memory) = (BTreeMap::new(), BTreeMap::new());
    for (i, process) in processes.iter().enumerate() {
        let at = |sample: &ResourceSample| sample.processes.get(i).copied().flatten();
        let Some((a, b)) = at(from).zip(at(to)) else {
            continue;
        };
        let ns = (b.t_ns - a.t_ns).max(1) as f64;
        let cores = b.cpu_ns.saturating_sub(a.cpu_ns) as f64 / ns;
        *cpu.entry(process.plane).or_insert(0.0) += cores;
        *memory.entry(process.plane).or_insert(0.0) +=
            b.rss_bytes.unwrap_or(0) as f64 / 1_048_576.0;
    }
    // A plane has zeros before it appears and after it exits.
    let put = |all: &mut BTreeMap<Plane, Vec<f64>>, new: BTreeMap<Plane, f64>, grain| {
        for (plane, value) in new {
            let values = all.entry(plane).or_default();
            values.resize(n - 1, 0.0);
            values.push(rounded(value, grain));
        }
        all.values_mut().for_each(|v| v.resize(n, 0.0));
    };
    put(&mut series.cpu_cores, cpu, 10_000.0);
    put(&mut series.memory_mib, memory, 10.0);
}

fn rounded(value: f64, grain: f64) -> f64 {
    (value * grain).round() / grain
}

fn buckets(latency: &Histogram) -> Vec<(u32, u64)> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for (ns, count) in latency.iter() {
        let at = (ns as f64 / BUCKETS_FROM_NS).log10() * BUCKETS_PER_DECADE;
        *counts.entry(at.max(0.0) as u32).or_default() += count;
    }
    counts.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::load::Counts;
    use tare_records::record::{MachineSample, ProcessSample};
    use tare_records::trial::MemoryKind;

    fn interval(second: u32, values: &[u64]) -> Interval {
        let mut latency = Histogram::new();
        values.iter().for_each(|v| latency.record(*v));
        let nothing = Histogram::new().to_wire();
        Interval {
            second,
            counts: Counts {
                planned: values.len() as u64,
                ok: values.len() as u64,
                ..Counts::default()
            },
            sent: values.len() as u64,
            latency: latency.to_wire(),
            service_time: nothing.clone(),
            lateness: nothing.clone(),
            wait: nothing,
            error_latency: None,
            stream_wait: None,
            message_latency: None,
            errors: BTreeMap::new(),
            endpoints: Vec::new(),
        }
    }

    #[test]
    fn a_page_of_many_trials_has_fewer_columns_for_each() {
        let columns = [0, 1, 24, 217].map(columns_of_trial);
        assert_eq!(columns, [120, 120, 50, 10]);
    }

    #[test]
    fn seconds_of_long_windows_share_columns_without_loss() {
        let mut builder = SeriesBuilder::new(3, 600_000_000_000, 120);
        for second in 0..600 {
            builder.interval(&interval(second, &[900, 1_000_000, 2_000_000]));
        }
        let series = builder.finish(&[], &[]);
        assert_eq!((series.step_s, series.columns.len()), (5, 120));
        let counted: u64 = series
            .columns
            .iter()
            .flat_map(|c| &c.buckets)
            .map(|b| b.1)
            .sum();
        assert_eq!(counted, 1800);
        assert_eq!(series.columns[0].buckets, [(0, 5), (60, 5), (66, 5)]);
        assert_eq!(series.columns[7].planned, 15);
    }

    #[test]
    fn planes_are_summed_between_samples() {
        let process = |plane| ProcessUse {
            name: String::new(),
            plane,
            cpu_cores: 0.0,
            cpu_cores_max: 0.0,
            run_queue_delay_ns: None,
            counters: None,
            memory_mean_bytes: 0.0,
            memory_max_bytes: 0,
            memory_kind: MemoryKind::Rss,
            rss_mean_bytes: None,
            throttled_ns: None,
            gone_at_ns: None,
        };
        let sample = |s: i64, cpu: [Option<u64>; 2]| ResourceSample {
            application_nodes: None,
            t_ns: s * 1_000_000_000,
            processes: cpu
                .map(|cpu_ns| {
                    cpu_ns.map(|cpu_ns| ProcessSample {
                        t_ns: s * 1_000_000_000,
                        cpu_ns,
                        run_queue_delay_ns: None,
                        counters: None,
                        rss_bytes: Some(2 << 20),
                        throttled_ns: None,
                        pss_bytes: None,
                        working_set_bytes: None,
                    })
                })
                .to_vec(),
            machine: MachineSample {
                cpus: 1,
                idle_ns: 0,
                stolen_ns: 0,
                interrupt_ns: None,
                pressure_ns: None,
                memory_available_bytes: 0,
            },
            throttled_ns: None,
        };
        let samples = [
            sample(0, [Some(0), Some(0)]),
            sample(1, [Some(500_000_000), Some(250_000_000)]),
            sample(2, [Some(600_000_000), None]),
        ];
        let processes = [process(Plane::DataPlane), process(Plane::Application)];
        let series = SeriesBuilder::new(0, 2_000_000_000, 120).finish(&samples, &processes);
        assert_eq!(series.sampled_s, [1.0, 2.0]);
        assert_eq!(series.cpu_cores[&Plane::DataPlane], [0.5, 0.1]);
        assert_eq!(series.cpu_cores[&Plane::Application], [0.25, 0.0]);
        assert_eq!(series.memory_mib[&Plane::DataPlane], [2.0, 2.0]);
    }
}
