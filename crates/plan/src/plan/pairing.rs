//! How the trials of a block share the machine: one after the other, in slices, or all together.
//!
//! Source: Bulej et al., "Duet Benchmarking: Improving Measurement Accuracy in the Cloud", ICPE 2020, for trials at the
//! same time.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use tare_stats::rng::Rng;

use super::blocks::{BlockGroup, Blocks};
use super::kubernetes::SamplingSource;
use super::resolved::{EnvironmentKind, Load, Plan};
use super::slices::{LENGTH_NS_MIN, SliceChoice, SliceFile};
use crate::limits::{HOUR_NS, TRIAL_WINDOW_NS_MAX};
use crate::load::{Arrivals, Pace, TRACE_SLOTS_MAX};
use crate::source::{Field, Location, Problems};

/// Most trials that are deployed at the same time.
const TOGETHER_MAX: u64 = 8;

/// How the trials of a block share the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// One after the other, each deployed alone.
    #[default]
    Turns,
    /// Deployed together, and loaded one at a time for a fraction of a second, in random order: all of them see the same
    /// conditions, and none shares the CPU with the load of another.
    Slices,
    /// Deployed together, and loaded at the same time. They share the CPU, so latencies are higher.
    Together,
}

impl Pairing {
    /// Reads the name, or `at_once` of the plans of older versions.
    pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Name(Pairing),
            AtOnce(bool),
        }
        Ok(match Written::deserialize(from)? {
            Written::Name(pairing) => pairing,
            Written::AtOnce(true) => Self::Together,
            Written::AtOnce(false) => Self::Turns,
        })
    }

    /// The text in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Turns => "in turns",
            Self::Slices => "in slices",
            Self::Together => "together",
        }
    }

    /// Whether trials are deployed alone.
    #[must_use]
    pub fn is_turns(&self) -> bool {
        *self == Self::Turns
    }
}

impl Plan {
    /// Number of trials of these blocks that are deployed at the same time: in slices, those of a load.
    #[must_use]
    pub fn trials_together(&self, blocks: &Blocks<'_>) -> u32 {
        match self.pairing {
            Pairing::Turns => 1,
            Pairing::Slices => blocks.meshes.len().max(1) as u32,
            Pairing::Together => blocks.trials_of_block().max(1),
        }
    }

    /// The part of a trial in the time in which the trials that are deployed with it are loaded, in nanoseconds.
    #[must_use]
    pub fn trial_time_ns(&self, load: &Load, blocks: &Blocks<'_>) -> u64 {
        let trials = self.trials_together(blocks);
        let count = u64::from(trials);
        match self.pairing {
            Pairing::Turns => load.own_time_ns(),
            Pairing::Slices => {
                let times = self.slice.times(load, trials);
                let (warm, counted) = times.rounds(load);
                (warm + counted) * times.each_ns()
            }
            Pairing::Together => load.own_time_ns() / count,
        }
    }
}

/// Which pairing is written, if any, and how long slices are: `None` after a problem.
pub(super) fn resolve(
    problems: &mut Problems,
    written: Field<Pairing>,
    at_once: Field<bool>,
    slice: Field<SliceFile>,
) -> Option<(Option<Pairing>, SliceChoice)> {
    if let Some(location) = at_once.location().filter(|_| !written.is_absent()) {
        problems
            .add(location, "`at_once` beside `pairing`")
            .expected("`pairing` alone: `at_once: true` is the old name of `pairing: together`");
        return None;
    }
    let pairing = match at_once.or(false)? {
        true => Some(Pairing::Together),
        false => written.optional()?,
    };
    let location = slice.location();
    let choice = slice.or_else(SliceFile::default)?.resolve()?;
    // Who sets the slices wants slices.
    let pairing = pairing.or_else(|| location.is_some().then_some(Pairing::Slices));
    if let Some(location) = location {
        if pairing != Some(Pairing::Slices) {
            problems
                .add(location, "`slice` needs `pairing: slices`")
                .expected("`pairing: slices`, or no `slice`");
        }
        if choice.length_ns.is_some_and(|ns| ns < LENGTH_NS_MIN) {
            problems
                .add(location, "found a slice below 50 ms")
                .expected("a `length` of at least 50ms");
        }
    }
    Some((pairing, choice))
}

/// Most pods that are deployed beside each other if the plan does not name its pairing.
const PODS_TOGETHER_MAX: u64 = 64;

/// With fewer slices of each trial, slices gain little over turns.
const ROUNDS_MIN: u64 = 4;

/// Chooses the pairing of a plan that names none: slices where a machine can have everything of a block side by side.
pub(super) fn choose(plan: &mut Plan) {
    let pods = plan.meshes.len() as u64 * plan.workload.pods();
    // On a cluster, whether there is room for all of them is not known.
    let on_cluster = plan.environment == EnvironmentKind::Kubernetes;
    // A generator that spins would use the CPU while other meshes are loaded.
    let spins = plan.loads.iter().any(|l| l.pace == Pace::Spin);
    if plan.meshes.len() < 2 || pods > PODS_TOGETHER_MAX || spins || on_cluster {
        return;
    }
    plan.pairing = Pairing::Slices;
    let trials = plan.meshes.len() as u32;
    let rounds = |l: &Load| l.duration_ns / plan.slice.times(l, trials).length_ns.max(1);
    let are_few = plan.loads.iter().any(|l| rounds(l) < ROUNDS_MIN);
    let mut problems = Problems::default();
    check(&mut problems, plan, Location::default());
    if are_few || !problems.list().is_empty() {
        plan.pairing = Pairing::Turns;
    }
}

/// Splits each block of a plan in slices with more meshes than can be deployed together: each part has the baseline, to
/// which its other meshes are compared, and a random share of them, so that none always has the same neighbours.
pub(super) fn split_blocks(problems: &mut Problems, plan: &mut Plan, at: Location) {
    if plan.pairing != Pairing::Slices || plan.meshes.len() as u64 <= TOGETHER_MAX {
        return;
    }
    if plan.until.is_some() || plan.sweep.is_some() {
        let count = plan.meshes.len();
        problems
            .add(
                at,
                format!("{count} meshes in slices with `until` or `vary`"),
            )
            .expected(format!(
                "at most {TOGETHER_MAX} of them, or a fixed number of `repeats`"
            ));
        return;
    }
    let mut others: Vec<&str> = plan.meshes.iter().map(|m| &*m.name).collect();
    others.retain(|name| *name != plan.baseline);
    let parts = others.len().div_ceil(TOGETHER_MAX as usize - 1);
    let mut rng = Rng::stream(plan.seed, PARTS);
    let mut groups = Vec::new();
    for _ in 0..plan.repeats {
        rng.shuffle(&mut others);
        groups.extend((0..parts).map(|part| {
            let of_part = others.iter().skip(part).step_by(parts);
            BlockGroup {
                blocks: 1,
                loads: plan.loads.iter().map(|l| l.name.clone()).collect(),
                meshes: of_part
                    .chain([&&*plan.baseline])
                    .map(|name| (*name).to_owned())
                    .collect(),
            }
        }));
    }
    plan.repeats = groups.len() as u32;
    plan.block_groups = groups;
}

/// Stream of the random parts of blocks.
const PARTS: u64 = (1 << 63) + 2;

/// Checks that the trials of a block can be deployed at the same time, if the plan says so.
pub(super) fn check(problems: &mut Problems, plan: &Plan, at: Location) {
    let name = match plan.pairing {
        Pairing::Turns => return,
        Pairing::Slices => "`pairing: slices`",
        Pairing::Together => "`pairing: together`",
    };
    if plan.environment == EnvironmentKind::Kubernetes {
        check_on_cluster(problems, plan, at, name);
    }
    if !plan.loads.iter().all(Load::is_open) {
        problems
            .add(
                at,
                format!("{name} does not work with `capacity`, `users` or `overload`"),
            )
            .expected("loads with a rate, or `pairing: turns`");
    }
    let own_times: Vec<u64> = plan.loads.iter().map(|l| l.own_time_ns()).collect();
    if plan.pairing == Pairing::Together && own_times.windows(2).any(|w| w[0] != w[1]) {
        problems
            .add(at, format!("{name} needs loads of the same length"))
            .expected("the same `duration` and `warmup` in all of them");
    }
    let even = |l: &Load| matches!(l.arrivals, Arrivals::Constant | Arrivals::Poisson);
    if plan.pairing == Pairing::Slices && !plan.loads.iter().all(even) {
        problems
            .add(
                at,
                format!("{name} works with constant and random arrivals only"),
            )
            .expected("`arrivals: poisson`, `arrivals: constant`, or `pairing: turns`");
    }
    let groups = plan.block_groups();
    let Some(first) = groups.first() else {
        return;
    };
    for load in plan
        .loads
        .iter()
        .filter(|_| plan.pairing == Pairing::Slices)
    {
        let count = u64::from(plan.trials_together(first));
        let window_ns = plan.trial_time_ns(load, first).saturating_mul(count);
        let requests = load.rate_rps().unwrap_or(0.0) * load.duration_ns as f64 / 1e9;
        if window_ns > TRIAL_WINDOW_NS_MAX || requests > TRACE_SLOTS_MAX as f64 / 2.0 {
            problems
                .add(at, format!("the load {} is too long for {name}", load.name))
                .expected(format!(
                    "at most {} hours for all meshes, and {} requests",
                    TRIAL_WINDOW_NS_MAX / HOUR_NS,
                    TRACE_SLOTS_MAX / 2
                ));
        }
    }
    let trials = u64::from(plan.trials_together(first));
    if trials > TOGETHER_MAX {
        problems
            .add(at, format!("{trials} trials at the same time"))
            .expected(format!(
                "at most {TOGETHER_MAX} with {name}: fewer meshes, or `pairing: turns`"
            ));
    }
}

/// Checks that a cluster can have the meshes of a block at the same time.
fn check_on_cluster(problems: &mut Problems, plan: &Plan, at: Location, name: &str) {
    if plan.pairing == Pairing::Together {
        problems
            .add(at, format!("{name} does not work on Kubernetes"))
            .expected("`environment: local`")
            .help("on a cluster, use `pairing: turns`; for `tare gate`, use another plan, such as cluster-quick");
    }
    let sampling = plan.kubernetes.as_ref().map(|k| k.sampling);
    if sampling == Some(SamplingSource::Kubelet) {
        problems
            .add(at, format!("{name} with `sampling: kubelet`"))
            .expected(
                "`sampling: agents`: kubelets read CPU some seconds apart, and a slice is shorter",
            );
    }
    if plan.loads.iter().any(|l| l.churn.is_some()) {
        problems.add(at, format!("{name} with `churn`")).expected(
            "`pairing: turns`: a control plane that is busy for one mesh would disturb the others",
        );
    }
    let meshes = plan.meshes.iter();
    let meshes = meshes.filter_map(|m| Some((&m.name, m.kubernetes.as_deref()?)));
    let meshes: Vec<_> = meshes.collect();
    for (i, (first, a)) in meshes.iter().enumerate() {
        for (second, b) in &meshes[i + 1..] {
            if let Some(both) = a.collision(b) {
                problems
                    .add(at, format!("{name}, but {first} and {second} cannot be installed at the same time"))
                    .expected("`pairing: turns`, or meshes that differ only in `join`, which is how pods join them")
                    .help(format!("both would change {both}"));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::plan::{PlanErrors, resolve};
    use crate::trial::order;

    #[test]
    fn a_plan_that_names_no_pairing_has_slices_where_they_fit() {
        let of = |rest: &str| {
            let text = format!("workload: {{graph: chain-2}}\n{rest}");
            let plan = resolve("p.yaml", &text, &[], &|_| Err(String::new()));
            plan.unwrap().pairing
        };
        let two = "meshes: [bare, envoy]\n";
        assert_eq!(of(two), Pairing::Slices);
        assert_eq!(of(&format!("{two}pairing: turns\n")), Pairing::Turns);
        let short = format!("{two}load: {{rate: 40, duration: 5s}}\nslice: {{length: 250ms}}\n");
        assert_eq!(of(&short), Pairing::Slices);
        for in_turns in [
            "meshes: [bare]\n",
            "meshes: [bare, envoy]\nload: {rate: 9, pace: spin}\n",
            "meshes: [bare, envoy]\nload: {rate: 9, arrivals: bursts:3}\n",
            "meshes: [bare, envoy]\nload: {users: 9}\n",
            "meshes: [bare, envoy]\nload: {rate: 40, duration: 5s}\n",
            "meshes: [bare, istio/minimal]\nenvironment: kubernetes\n",
        ] {
            assert_eq!(of(in_turns), Pairing::Turns, "{in_turns}");
        }
        let of = |instances: u32| {
            let text = format!(
                "workload: {{graph: chain-2, instances: {instances}}}\nmeshes: [bare, envoy]\n"
            );
            let plan = resolve("p.yaml", &text, &[], &|_| Err(String::new()));
            plan.unwrap().pairing
        };
        assert_eq!(
            (of(16), of(17)),
            (Pairing::Slices, Pairing::Turns),
            "64 pods"
        );
    }

    fn plan(repeats: &str) -> Result<Plan, PlanErrors> {
        let text = "workload: chain-2\nload: {rate: 100}\npairing: slices\nbaseline: envoy\n";
        let others = (1..=9).map(|i| format!("{{name: e{i}, mesh: envoy}}"));
        let meshes = others.collect::<Vec<_>>().join(", ");
        let text = format!("{text}meshes: [envoy, {meshes}]\nrepeats: {repeats}\n");
        resolve("p.yaml", &text, &[], &|_| Err(String::new()))
    }

    #[test]
    fn each_of_many_meshes_is_in_a_block_with_the_baseline_as_often_as_the_others() {
        let plan = plan("6").unwrap_or_else(|e| panic!("{e}"));
        let trials = order(&plan);
        let mut blocks: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
        for trial in &trials {
            let meshes = blocks.entry(trial.block).or_default();
            assert!(meshes.insert(&trial.mesh.name), "twice in a block");
        }
        // 9 meshes in 2 parts, 6 times.
        assert_eq!((blocks.len(), plan.repeats, trials.len()), (12, 12, 6 * 11));
        assert_eq!(plan.trial_count(), 6 * 11);
        assert!(blocks.values().all(|meshes| meshes.contains("envoy")));
        for i in 1..=9 {
            let name = format!("e{i}");
            let with: Vec<_> = blocks.values().filter(|m| m.contains(&*name)).collect();
            assert_eq!(with.len(), 6, "{name}");
            let neighbours: BTreeSet<_> = with.into_iter().collect();
            assert!(
                neighbours.len() > 1,
                "{name} has the same ones in each block"
            );
        }
        let indices: BTreeSet<u32> = trials.iter().map(|t| t.index).collect();
        assert_eq!(indices.len(), trials.len());
    }

    #[test]
    fn many_meshes_in_slices_have_a_fixed_number_of_blocks() {
        let errors = plan("{until: {p50: 5%}}").unwrap_err().to_string();
        let expected = "10 meshes in slices with `until` or `vary`";
        assert!(errors.contains(expected), "{errors}");
    }
}
