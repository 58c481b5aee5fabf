//! Reduces the records of a trial beyond the capacity, second by second of intended time.

use std::collections::BTreeMap;
use std::ops::Range;

use tare_plan::Overload;
use tare_plan::load::{Measure, Objective};
use tare_records::load::Counts;
use tare_records::overload::{OverloadResult, PhaseResult};
use tare_records::record::Interval;
use tare_stats::{Histogram, WireError};

use crate::slo;

/// The requests due in one second.
#[derive(Debug, Clone, Default)]
struct Second {
    counts: Counts,
    latency: Histogram,
}

/// The seconds of a window.
#[derive(Debug, Clone, Default)]
pub struct Seconds(BTreeMap<u32, Second>);

impl Seconds {
    /// Adds a record.
    ///
    /// # Errors
    /// [`WireError`] when its histogram is damaged.
    pub fn add(&mut self, interval: &Interval) -> Result<(), WireError> {
        let latency = Histogram::from_wire(&interval.latency)?;
        let second = self.0.entry(interval.second).or_default();
        second.counts.add(&interval.counts);
        second.latency.merge(&latency);
        Ok(())
    }

    /// The result of a trial that offered `rate_rps` in its overload.
    ///
    /// # Errors
    /// What was found and expected, if an objective is invalid.
    pub fn result(
        &self,
        overload: &Overload,
        window_ns: u64,
        rate_rps: f64,
    ) -> Result<OverloadResult, String> {
        let objectives = overload.objectives.iter().map(|o| Objective::parse(o));
        let objectives: Vec<Objective> = objectives.collect::<Result<_, _>>()?;
        let phases = overload.phases(window_ns);
        let is_met = |s: &u32| {
            objectives
                .iter()
                .all(|o| self.0.get(s).is_some_and(|s| s.meets(o)))
        };
        let recovered = phases.after.clone().find(is_met);
        Ok(OverloadResult {
            rate_rps,
            before: self.phase(phases.before),
            overload: self.phase(phases.overload),
            recovered_after_s: recovered.map(|s| s - phases.after.start),
            after: self.phase(phases.after),
        })
    }

    fn phase(&self, range: Range<u32>) -> PhaseResult {
        let mut all = Second::default();
        for (_, second) in self.0.range(range.clone()) {
            all.counts.add(&second.counts);
            all.latency.merge(&second.latency);
        }
        PhaseResult {
            seconds: range.end - range.start,
            counts: all.counts,
            latency_ns: all.latency.summary(),
        }
    }
}

impl Second {
    /// Whether these requests meet an objective. One for the requests sent is met: those that were not sent
    /// in time count as errors.
    fn meets(&self, objective: &Objective) -> bool {
        match objective.measure() {
            Measure::Achieved => true,
            Measure::Errors => slo::errors_meet(&self.counts, objective.bound()),
            measure => {
                slo::latency_ns(measure, &self.latency).is_some_and(|ns| ns < objective.bound())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tare_plan::{PlanErrors, resolve};

    use super::*;

    const MS: u64 = 1_000_000;

    fn second(second: u32, ok: u64, failed: u64, latency_ns: u64) -> Interval {
        let mut latency = Histogram::new();
        (0..ok).for_each(|_| latency.record(latency_ns));
        let none = Histogram::new().to_wire();
        Interval {
            second,
            counts: Counts {
                planned: ok + failed,
                ok,
                timeout: failed,
                ..Counts::default()
            },
            sent: ok,
            latency: latency.to_wire(),
            service_time: none.clone(),
            lateness: none.clone(),
            wait: none,
            error_latency: None,
            stream_wait: None,
            message_latency: None,
            errors: BTreeMap::new(),
            endpoints: Vec::new(),
        }
    }

    /// 2 s before, 3 s of overload, 4 s after it.
    fn overload() -> Result<Overload, PlanErrors> {
        let text = "{loads: [{capacity: {slo: [p99<20ms, errors<1%]}}, {overload: {recovery: 4s}, duration: 3s}]}";
        let plan = resolve("plan.yaml", text, &[], &|_| Err("no files".into()))?;
        let load = plan.loads.into_iter().find(|l| l.overload().is_some());
        Ok(load
            .and_then(|l| l.overload().cloned())
            .unwrap_or_else(|| unreachable!("the plan has one")))
    }

    fn result(records: &[Interval]) -> OverloadResult {
        let mut seconds = Seconds::default();
        for record in records {
            assert_eq!(seconds.add(record), Ok(()));
        }
        let overload = overload().unwrap_or_else(|e| panic!("{e}"));
        let result = seconds.result(&overload, 9_000 * MS, 150.0);
        result.unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn each_part_of_the_window_has_its_own_figures_and_the_recovery_ends_with_the_first_good_second()
     {
        let records = [
            second(0, 50, 0, MS),
            second(1, 50, 0, 3 * MS),
            second(2, 100, 50, 400 * MS),
            second(3, 90, 60, 900 * MS),
            second(4, 80, 70, 900 * MS),
            // A second comes in several records.
            second(4, 10, 0, 900 * MS),
            second(5, 50, 0, 500 * MS),
            second(6, 49, 1, MS),
            second(7, 50, 0, MS),
            second(8, 50, 0, 25 * MS),
        ];
        let found = result(&records);
        assert_eq!(found.before.counts.ok, 100);
        assert_eq!(
            (
                found.before.seconds,
                found.overload.seconds,
                found.after.seconds
            ),
            (2, 3, 4)
        );
        assert!((found.overload.goodput_rps() - 280.0 / 3.0).abs() < 1e-9);
        assert!((found.overload.failed_share() - 180.0 / 460.0).abs() < 1e-9);
        assert!(found.before.latency_ns.max < 4 * MS && found.overload.latency_ns.p50 > 800 * MS);
        assert_eq!(found.after.counts.planned, 200);
        // Second 6 has 2 % of errors.
        assert_eq!(found.recovered_after_s, Some(2));
        assert_eq!(result(&records[..7]).recovered_after_s, None);
        let quiet: Vec<Interval> = (0..9).map(|s| second(s, 50, 0, MS)).collect();
        assert_eq!(result(&quiet).recovered_after_s, Some(0));
    }

    #[test]
    fn a_second_without_a_response_is_not_a_recovery() {
        let records: Vec<Interval> = (0..9).map(|s| second(s, 0, 50, MS)).collect();
        let found = result(&records);
        assert_eq!(found.recovered_after_s, None);
        assert!((found.overload.failed_share() - 1.0).abs() < 1e-9);
    }
}
