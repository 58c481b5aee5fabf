//! CPU and memory of containers over time, from readings of kubelets.

use std::collections::BTreeMap;

use tare_records::summary::Estimate;
use tare_stats::over_time::{mean_over_time, ratio_over_time};

use crate::sampling::readings::{ContainerKey, ContainerReading};

/// Confidence level of the intervals.
pub(super) const CONFIDENCE: f64 = 0.95;
/// Most windows of the observed time, and the shortest window: kubelets read their values every 10 to 15 s.
const WINDOWS_MAX: i64 = 20;
const WINDOW_NS_MIN: i64 = 15_000_000_000;

/// The readings of one start of a container.
#[derive(Debug, Clone)]
struct ContainerRun {
    /// When the container started, if that was after the observation began; then all of its CPU time counts.
    started_unix_ns: Option<i64>,
    /// Time and CPU time used until then, both in nanoseconds and in ascending order.
    points: Vec<(i64, u64)>,
}

impl ContainerRun {
    /// CPU time used until `t`, by linear interpolation. Before the first reading and after the last one, it is that of
    /// the reading, except between the start of the container and the first reading.
    fn used_ns(&self, t: i64) -> f64 {
        let start = self.started_unix_ns.map(|started| (started, 0));
        let mut before: Option<(i64, u64)> = None;
        for point in start.into_iter().chain(self.points.iter().copied()) {
            if point.0 > t {
                let Some(before) = before else {
                    return point.1 as f64;
                };
                let share = (t - before.0) as f64 / (point.0 - before.0) as f64;
                return before.1 as f64 + share * (point.1 as f64 - before.1 as f64);
            }
            before = Some(point);
        }
        before.map_or(0.0, |(_, cpu)| cpu as f64)
    }
}

/// All readings of some containers.
#[derive(Debug, Clone, Default)]
pub(super) struct Usages {
    runs: BTreeMap<ContainerKey, Vec<ContainerRun>>,
    /// Working sets by container, of each round of requests, in bytes.
    memory: Vec<BTreeMap<ContainerKey, u64>>,
    /// Time of the oldest value of the first round.
    began_unix_ns: Option<i64>,
}

impl Usages {
    /// Starts a round of requests.
    pub(super) fn round(&mut self) {
        self.memory.push(BTreeMap::new());
    }

    /// Takes the working sets of these containers from the round before, because their node did not respond.
    pub(super) fn carry(&mut self, keys: impl Iterator<Item = ContainerKey>) {
        if let [.., before, last] = self.memory.as_mut_slice() {
            for key in keys {
                if let Some(bytes) = before.get(&key) {
                    last.insert(key, *bytes);
                }
            }
        }
    }

    /// Adds a reading to the last round. A container whose CPU time went back has started again. The start time alone
    /// does not show this: some container runtimes report one that changes while a container runs.
    pub(super) fn add(&mut self, key: &ContainerKey, reading: ContainerReading) {
        if let Some(round) = self.memory.last_mut() {
            round.insert(key.clone(), reading.working_set_bytes.unwrap_or(0));
        }
        if self.memory.len() < 2 {
            let oldest = self.began_unix_ns.unwrap_or(i64::MAX);
            self.began_unix_ns = Some(oldest.min(reading.unix_ns));
        }
        let began = self.began_unix_ns.filter(|_| self.memory.len() > 1);
        let runs = self.runs.entry(key.clone()).or_default();
        let point = (reading.unix_ns, reading.cpu_ns);
        let Some(run) = runs.last_mut() else {
            let new = began.filter(|began| reading.started_unix_ns >= *began);
            let new = new.map(|_| reading.started_unix_ns);
            return runs.push(ContainerRun {
                started_unix_ns: new,
                points: vec![point],
            });
        };
        let last = run.points.last().copied().unwrap_or_default();
        if point.0 <= last.0 {
            return;
        }
        match point.1 >= last.1 {
            true => run.points.push(point),
            false => runs.push(ContainerRun {
                started_unix_ns: Some(reading.started_unix_ns.clamp(last.0, point.0)),
                points: vec![point],
            }),
        }
    }

    /// CPU of containers in each of these windows, in cores.
    pub(super) fn cores<'a>(
        &self,
        keys: impl Iterator<Item = &'a ContainerKey>,
        windows: &[(i64, i64)],
    ) -> Vec<f64> {
        let mut cores = vec![0.0; windows.len()];
        for run in keys.filter_map(|key| self.runs.get(key)).flatten() {
            for (cores, (start, end)) in cores.iter_mut().zip(windows) {
                let used = run.used_ns(*end) - run.used_ns(*start);
                *cores += used / (end - start) as f64;
            }
        }
        cores
    }

    /// Working set of containers, in bytes: mean and largest sum of a round.
    pub(super) fn memory<'a>(&self, keys: impl Iterator<Item = &'a ContainerKey>) -> (f64, f64) {
        let mut sums = vec![0.0; self.memory.len()];
        for key in keys {
            for (sum, round) in sums.iter_mut().zip(&self.memory) {
                *sum += round.get(key).map_or(0.0, |bytes| *bytes as f64);
            }
        }
        let mean = sums.iter().sum::<f64>() / sums.len().max(1) as f64;
        (mean, sums.iter().copied().fold(0.0, f64::max))
    }
}

/// Divides the observed time into windows of the same length; none if it is too short for one.
pub(super) fn windows((from, until): (i64, i64)) -> Vec<(i64, i64)> {
    let length = until.saturating_sub(from);
    if length < WINDOW_NS_MIN {
        return Vec::new();
    }
    let count = (length / WINDOW_NS_MIN).min(WINDOWS_MAX);
    let edge = |i: i64| from + (i128::from(length) * i128::from(i) / i128::from(count)) as i64;
    (0..count).map(|i| (edge(i), edge(i + 1))).collect()
}

/// The ratio of two sums over the same windows with its interval; `None` if the second one is 0. `runs` has the ratios of
/// the windows in which the second value is not 0.
pub(super) fn ratio(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let (value, half) = ratio_over_time(a, b, CONFIDENCE)?;
    let runs = a.iter().zip(b).filter(|(_, b)| **b > 0.0);
    Some(Estimate {
        value,
        low: half.map(|h| (value - h).max(0.0)),
        high: half.map(|h| value + h),
        runs: runs.map(|(a, b)| a / b).collect(),
    })
}

/// The mean over the windows with its interval.
pub(super) fn estimate(values: Vec<f64>) -> Estimate {
    let (value, half) = mean_over_time(&values, CONFIDENCE).unwrap_or((0.0, None));
    Estimate {
        value,
        low: half.map(|h| (value - h).max(0.0)),
        high: half.map(|h| value + h),
        runs: values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn key(name: &str) -> ContainerKey {
        ("n".into(), name.into(), "c".into())
    }

    fn reading(t: i64, started: i64, cpu_s: f64) -> ContainerReading {
        ContainerReading {
            unix_ns: t * S,
            started_unix_ns: started * S,
            cpu_ns: (cpu_s * 1e9) as u64,
            working_set_bytes: Some(100),
            rss_bytes: None,
        }
    }

    /// A container that uses half a core until second 1060 and a quarter after it, read every 10 s from 1000 to 1120.
    fn steady() -> Usages {
        let mut usages = Usages::default();
        for t in (0..=120).step_by(10) {
            usages.round();
            let cpu = 7.0 + 0.5 * f64::from(t.min(60)) + 0.25 * f64::from((t - 60).max(0));
            usages.add(&key("a"), reading(1000 + i64::from(t), 10, cpu));
        }
        usages
    }

    fn close(found: &[f64], expected: &[f64]) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-6;
        let same = found.len() == expected.len() && found.iter().zip(expected).all(near);
        assert!(same, "{found:?}, expected {expected:?}");
    }

    #[test]
    fn windows_have_the_cpu_of_their_time() {
        let usages = steady();
        let a = key("a");
        let windows = windows((1000 * S, 1120 * S));
        assert_eq!(windows.len(), 8);
        let cores = usages.cores([&a].into_iter(), &windows);
        close(&cores, &[0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]);
        let estimate = estimate(cores);
        assert!((estimate.value - 0.375).abs() < 1e-9);
        assert!(
            estimate.low < Some(0.25) && estimate.high > Some(0.5),
            "one change is all that was seen"
        );
        assert_eq!(usages.memory([&a].into_iter()), (100.0, 100.0));
    }

    #[test]
    fn a_container_that_starts_or_ends_counts_only_while_it_runs() {
        let mut usages = steady();
        // It starts at 1025, uses one core, is read from 1030 on, and ends after 1050.
        for t in [1030, 1040, 1050] {
            usages.add(&key("new"), reading(t, 1025, (t - 1025) as f64));
        }
        // A start time that changes while the container runs changes nothing.
        usages.add(&key("a"), reading(1130, 1129, 52.0));
        // The next start of the same container begins at 0 again.
        usages.add(&key("new"), reading(1070, 1065, 5.0));
        usages.add(&key("new"), reading(1080, 1065, 15.0));
        let windows = windows((1000 * S, 1120 * S));
        let cores = usages.cores([&key("new")].into_iter(), &windows);
        let of = |seconds: f64| seconds / 15.0;
        close(
            &cores,
            &[0.0, of(5.0), of(15.0), of(5.0), of(10.0), of(5.0), 0.0, 0.0],
        );
    }

    #[test]
    fn a_container_that_ran_before_is_not_charged_for_its_past() {
        let mut usages = Usages::default();
        usages.round();
        // Its start time is wrong, but it was there at the first round.
        usages.add(&key("old"), reading(1040, 1039, 900.0));
        usages.add(&key("old"), reading(1060, 10, 910.0));
        let windows = windows((1000 * S, 1060 * S));
        let cores = usages.cores([&key("old")].into_iter(), &windows);
        close(&cores, &[0.0, 0.0, 2.5 / 15.0, 7.5 / 15.0]);
    }

    #[test]
    fn readings_that_repeat_or_go_back_are_left_out() {
        let mut usages = steady();
        usages.add(&key("a"), reading(1120, 10, 900.0));
        usages.add(&key("a"), reading(1110, 10, 1.0));
        let windows = windows((1000 * S, 1120 * S));
        let cores = usages.cores([&key("a")].into_iter(), &windows);
        close(&cores[6..], &[0.25, 0.25]);
    }

    #[test]
    fn the_memory_of_a_node_that_does_not_respond_is_that_of_before() {
        let mut usages = Usages::default();
        usages.round();
        usages.add(&key("a"), reading(1000, 10, 1.0));
        usages.add(&key("b"), reading(1000, 10, 1.0));
        usages.round();
        usages.add(&key("a"), reading(1010, 10, 1.0));
        usages.carry([key("b"), key("c")].into_iter());
        let (a, b, c) = (key("a"), key("b"), key("c"));
        assert_eq!(usages.memory([&a, &b, &c].into_iter()), (200.0, 200.0));
    }

    #[test]
    fn a_ratio_is_that_of_the_sums() {
        let ratio = ratio(&[1.0, 1.0, 8.0], &[0.0, 1.0, 99.0]).unwrap();
        assert_eq!((ratio.value, ratio.runs), (0.1, vec![1.0, 8.0 / 99.0]));
        assert_eq!(super::ratio(&[1.0], &[0.0]), None);
    }

    #[test]
    fn the_observed_time_has_up_to_20_windows() {
        assert_eq!(windows((0, 14 * S)), []);
        assert_eq!(windows((0, 16 * S)), [(0, 16 * S)]);
        assert_eq!(windows((0, 3600 * S)).len(), 20);
        assert_eq!(windows((0, 3600 * S))[19], (3420 * S, 3600 * S));
        assert_eq!(windows((i64::MAX, i64::MIN)), []);
    }
}
