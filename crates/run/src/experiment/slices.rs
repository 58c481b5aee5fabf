//! The trials of a block in slices: all are deployed, and one at a time is loaded, for a fraction of a second, in random
//! order. They see the same conditions as trials that run together, and none shares the CPU with the load of another.

use tare_analysis::resources::rounds::Rounds;
use tare_plan::load::{Arrivals, ArrivalsError, LoadSpec, Mode, Trace};
use tare_plan::trial::TrialSpec;
use tare_plan::units::format_duration_ns;
use tare_plan::{Plan, SliceTimes};
use tare_records::verdict::{Finding, Grade, Reason};
use tare_records::worker::Slices;
use tare_stats::Histogram;
use tare_stats::rng::Rng;

use super::findings::Findings;
use super::together::random_instants;

/// Stream of the random order of the trials in a round.
const ORDER: u64 = (1 << 63) + 1;

/// When each of the trials of a block is loaded.
pub(super) struct Schedule {
    times: SliceTimes,
    /// The order of the trials in each round.
    rounds: Vec<Vec<usize>>,
    /// Rounds of the warm-up, in which each trial is loaded as long as in a warm-up of its own.
    warm_rounds: u64,
}

impl Schedule {
    /// The schedule of `count` trials with the load of `spec`.
    pub(super) fn new(plan: &Plan, spec: &TrialSpec, count: usize) -> Self {
        let times = plan.slice.times(&spec.load, count as u32);
        let (warm_rounds, rounds) = times.rounds(&spec.load);
        let mut rng = Rng::stream(spec.seed, ORDER);
        let round = |_| {
            let mut order: Vec<usize> = (0..count).collect();
            rng.shuffle(&mut order);
            order
        };
        Self {
            times,
            rounds: (0..rounds).map(round).collect(),
            warm_rounds,
        }
    }

    /// The slices of one of the trials.
    pub(super) fn of(&self, trial: usize) -> Slices {
        let order = self.rounds.iter().flatten().zip(0_u64..);
        let own = order.filter(|(t, _)| **t == trial);
        let SliceTimes {
            length_ns,
            gap_ns,
            lead_ns,
            warm_ns,
        } = self.times;
        Slices {
            length_ns,
            gap_ns,
            lead_ns,
            warm_ns,
            starts_ns: own.map(|(_, n)| n * self.times.each_ns()).collect(),
        }
    }

    /// One slice of each trial, with their gaps.
    fn round_ns(&self) -> u64 {
        self.rounds.first().map_or(0, Vec::len) as u64 * self.times.each_ns()
    }

    /// From the start of the first slice to the end of the last gap.
    fn window_ns(&self) -> u64 {
        self.rounds.len() as u64 * self.round_ns()
    }

    /// Gives a generator the arrivals of its slices. Those of a round are the same in all trials.
    ///
    /// # Errors
    /// When no request, or too many, fall into the slices.
    pub(super) fn arrange(
        &self,
        spec: &mut LoadSpec,
        slices: &Slices,
    ) -> Result<(), ArrivalsError> {
        let Mode::Open { rate_rps, arrivals } = &mut spec.mode else {
            return Ok(());
        };
        // In the time in which requests begin. Evenly spaced ones begin in the middle of a gap, so that none is at an edge.
        let loaded_ns = slices.loaded_ns() + slices.warm_ns * slices.starts_ns.len() as u64;
        let instants = match *arrivals == Arrivals::Poisson {
            true => random_instants(spec.seed, *rate_rps, loaded_ns),
            false => {
                let even = (0_u64..).map(|n| ((n as f64 + 0.5) * 1e9 / *rate_rps) as u64);
                even.take_while(|ns| *ns < loaded_ns).collect()
            }
        };
        let instants = instants.into_iter().filter_map(|ns| slices.instant_ns(ns));
        let trace = Trace::new(instants.collect())?.with_warm_parts(slices.warm_parts())?;
        spec.duration_ns = self.window_ns();
        // A trace is warmed up with its own beginning, and so in slices as well.
        spec.warmup_ns = self.warm_rounds * self.round_ns();
        *arrivals = Arrivals::Trace(trace);
        *rate_rps = arrivals.own_rate_rps(spec.duration_ns).unwrap_or(*rate_rps);
        Ok(())
    }
}

/// What the machine did in the rounds that count, for each trial of a block.
pub(super) fn machine(rounds: &Rounds, findings: &mut Findings) {
    if let Some(resources) = &mut findings.resources {
        resources.machine.other_cores = rounds.other_cores;
        resources.machine.stolen_cores = rounds.stolen_cores;
    }
    findings.verdict.extend(rounds.finding());
}

/// Largest share of the responses that may still be in progress when the next trial is loaded. It is half of the slowest
/// percent, so that a p99 is mostly one's own.
const OVERLAP_MAX: f64 = 0.005;

/// How much of a trial was in progress when the next one was loaded.
pub(super) struct Overlap {
    /// Share of the responses.
    share: f64,
    found: String,
}

/// Counts the responses of a trial that outlasted the gap, and estimates how many of them were in progress when the next slice began: those that
/// began late enough in their slice, in which each instant is equally likely.
pub(super) fn overlap(mesh: &str, findings: &mut Findings) -> Option<Overlap> {
    let found = findings.slices.as_mut()?;
    let (slices, whole) = (&found.slices, findings.load.as_ref()?);
    let latency = &found.kept.as_deref().unwrap_or(whole).histograms.latency;
    let latency = Histogram::from_wire(latency).ok()?;
    let longer = |ns: u64| ns.saturating_sub(slices.gap_ns);
    let longer_than_gap = latency.iter().filter(|(ns, _)| longer(*ns) > 0);
    let longer_than_gap = longer_than_gap.map(|(_, n)| n).sum();
    let late = |ns: u64| longer(ns).min(slices.length_ns) as f64 / slices.length_ns.max(1) as f64;
    let overlapping: f64 = latency.iter().map(|(ns, n)| late(ns) * n as f64).sum();
    let share = overlapping / latency.len().max(1) as f64;
    let words = format!(
        "{longer_than_gap} responses of {mesh} took longer than the gap of {} after each slice, and about \
         {overlapping:.0} ({:.1} %) were in progress when the next mesh was loaded",
        format_duration_ns(slices.gap_ns),
        share * 100.0
    );
    found.longer_than_gap = longer_than_gap;
    Some(Overlap {
        share,
        found: words,
    })
}

/// Marks a trial of a group in which the slices of a mesh overlap with those after them: they may be its own.
pub(super) fn mark_overlap(overlaps: &[Overlap], findings: &mut Findings) {
    let worst = overlaps.iter().max_by(|a, b| a.share.total_cmp(&b.share));
    if let Some(worst) = worst.filter(|overlap| overlap.share > OVERLAP_MAX) {
        let found = worst.found.clone();
        let finding = Finding::new(Grade::Suspect, Reason::SlicesOverlap, found);
        findings.verdict.push(finding);
    }
}

#[cfg(test)]
mod coverage;

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        let text = format!("meshes: [bare, envoy, envoy/mtls]\npairing: slices\n{text}");
        tare_plan::resolve("p.yaml", &text, &[], &|_| Err(String::new())).unwrap()
    }

    fn first(plan: &Plan) -> TrialSpec {
        tare_plan::trial::order(plan).remove(0)
    }

    #[test]
    fn every_trial_is_loaded_once_in_each_round_and_never_beside_another() {
        let plan = plan(
            "slice: {length: 250ms, gap: 50ms}\nload: {rate: 400, duration: 8s, warmup: 1s, connections: 16}",
        );
        let schedule = Schedule::new(&plan, &first(&plan), 3);
        let all = [0, 1, 2].map(|i| schedule.of(i));
        for slices in &all {
            assert_eq!((slices.length_ns, slices.gap_ns), (250_000_000, 50_000_000));
            assert_eq!((slices.lead_ns, slices.warm_ns), (10_000_000, 50_000_000));
            assert_eq!(
                (slices.starts_ns.len(), slices.loaded_ns()),
                (32, 8_000_000_000)
            );
            let rounds: Vec<u64> = slices.starts_ns.iter().map(|s| s / 1_110_000_000).collect();
            assert_eq!(rounds, (0..32).collect::<Vec<u64>>());
        }
        let mut spans: Vec<(i64, i64)> = all.iter().flat_map(Slices::spans_ns).collect();
        spans.sort_unstable();
        assert!(spans.windows(2).all(|w| w[0].1 == w[1].0), "{spans:?}");
        assert_eq!(spans.last().unwrap().1 as u64, schedule.window_ns());
        let orders: std::collections::BTreeSet<_> = schedule.rounds.iter().collect();
        assert!(orders.len() > 3, "the order is random");
    }

    #[test]
    fn a_round_takes_whole_seconds_unless_slices_are_set() {
        use tare_plan::limits::SECOND_NS;
        for (rate, trials, seconds) in [(400, 3, 2), (400, 2, 1), (400, 8, 4), (50, 3, 10)] {
            let plan = plan(&format!("load: {{rate: {rate}, duration: 60s}}"));
            let schedule = Schedule::new(&plan, &first(&plan), trials);
            let slices = schedule.of(0);
            let rounds = slices.starts_ns.len() as u64;
            let planned_ns = rounds * seconds * SECOND_NS;
            let drift_ns = planned_ns - schedule.window_ns();
            assert!(drift_ns <= rounds * trials as u64, "{drift_ns}");
            // Within the nanosecond by which each slice is rounded down.
            let loaded_ns = slices.loaded_ns();
            assert!((59_999_999_000..=60_000_000_000).contains(&loaded_ns));
            assert!(slices.gap_ns >= slices.length_ns / 5 - 1);
            let first_request = schedule.times.counted_from_ns() + slices.lead_ns;
            let of_round = |(round, start): (u64, &u64)| {
                let first = start + first_request;
                let last = first + slices.length_ns - 1;
                let second = |ns: u64| (ns / SECOND_NS) / seconds;
                second(first) == round && second(last) == round
            };
            assert!((0..).zip(&slices.starts_ns).all(of_round), "{slices:?}");
        }
    }

    #[test]
    fn arrivals_are_those_of_the_load_in_its_slices_and_the_same_for_all() {
        for (arrivals, few, many) in [("poisson", 3_600, 4_080), ("constant", 3_840, 3_840)] {
            let load =
                format!("load: {{rate: 400, duration: 8s, connections: 16, arrivals: {arrivals}}}");
            let text = format!("slice: {{length: 250ms, gap: 50ms}}\n{load}");
            let plan = plan(&text);
            let first = first(&plan);
            let schedule = Schedule::new(&plan, &first, 3);
            let within = |trial: usize| -> Vec<(usize, u64)> {
                let slices = schedule.of(trial);
                let mode = Mode::Open {
                    rate_rps: 400.0,
                    arrivals: first.load.arrivals.clone(),
                };
                let mut spec = LoadSpec {
                    seed: first.seed,
                    ..LoadSpec::new(Vec::new(), mode, 8_000_000_000)
                };
                schedule.arrange(&mut spec, &slices).unwrap();
                assert_eq!(spec.duration_ns, 32 * 1_110_000_000);
                assert_eq!(spec.warmup_ns, 12 * 1_110_000_000);
                let Mode::Open {
                    arrivals: Arrivals::Trace(trace),
                    rate_rps,
                } = spec.mode
                else {
                    panic!("no trace");
                };
                let all = trace.instants_ns();
                let counted = all.iter().filter(|at| !trace.warm().contain(**at)).count();
                assert!((rate_rps - counted as f64 / 35.52).abs() < 1e-9);
                // A sixth of the requests warms up.
                assert!(counted.abs_diff(all.len() * 5 / 6) < 80, "{counted}");
                let place = |at: &u64| {
                    let slice = slices.starts_ns.partition_point(|s| s <= at) - 1;
                    (slice, at - slices.starts_ns[slice])
                };
                trace.instants_ns().iter().map(place).collect()
            };
            let all = [0, 1, 2].map(within);
            let is_loaded = |at: u64| {
                (10_000_000..60_000_000).contains(&at) || (80_000_000..330_000_000).contains(&at)
            };
            assert!(all[0].iter().all(|(_, at)| is_loaded(*at)));
            assert!((few..=many).contains(&all[0].len()), "{}", all[0].len());
            assert!(all[0] == all[1] && all[1] == all[2]);
        }
    }
}
