//! Loads without a rate of their own: the search for the capacity, and closed loops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::LoadFile;
use super::load_kind::LoadKind;
use crate::limits::{CONNECTIONS_MAX, SECOND_NS, TRIAL_WINDOW_NS_MAX};
use crate::load::Objective;
use crate::load::search::{SearchLimits, SearchSetting, lowest_and_first_rps};
use crate::source::{
    Count, Duration, Field, List, Location, ObjectiveText, Problems, Rate, Share, Spanned,
};
use crate::units::exact_duration;

/// Default of the highest rate.
const MAX_RPS: f64 = 1e6;

/// A search for the highest open-loop rate that meets objectives. The length of a step is
/// [`Load::duration_ns`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacitySearch {
    /// The objectives, as written, with the default ones.
    pub objectives: Vec<String>,
    /// Requests that a step needs for the objectives that were given.
    pub samples: u64,
    /// Lowest rate, above 0.
    pub min_rps: f64,
    /// Highest rate.
    pub max_rps: f64,
    /// Rate of the first step.
    pub start_rps: f64,
    /// Width of the interval at which the search stops, as a share of its lower end.
    pub tolerance: f64,
    /// Time for all steps of a trial with the pauses between them, but without the starts of generators on a
    /// cluster. The search then ends with its best estimate.
    pub budget_ns: u64,
}

impl CapacitySearch {
    /// The parsed objectives.
    ///
    /// # Errors
    /// What was found and expected, if the file of a resolved plan was changed.
    pub fn parsed(&self) -> Result<Vec<Objective>, String> {
        self.objectives
            .iter()
            .map(|o| Objective::parse(o))
            .collect()
    }
}

/// Searches for the highest open-loop rate that meets objectives.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Capacity",
    deny_unknown_fields,
    default,
    expecting = "the capacity"
)]
pub(super) struct CapacityFile {
    /// Objectives to meet: p99<20ms (p50 to p99.999, max, mean), errors<0.1% or achieved>99%.
    /// errors<1% and achieved>99% apply unless you give others.
    #[schemars(required)]
    pub(super) slo: Field<List<ObjectiveText>>,
    /// Connections in all, 1 to 1000000. Default: 64.
    pub(super) connections: Field<Count<1, CONNECTIONS_MAX>>,
    /// Lowest rate to try; the search starts there. Default: start at 100, lowest 1.
    pub(super) min_rate: Field<Rate>,
    /// Highest rate to try. Default: 1 million.
    pub(super) max_rate: Field<Rate>,
    /// Length of a step, up to 24h. A step is up to ten times longer if the percentile of an
    /// objective needs more requests. Default: 2s.
    pub(super) step: Field<Duration<1, TRIAL_WINDOW_NS_MAX>>,
    /// Width of the 95 % interval at which the search stops, relative to its lower end. Default: 5%.
    pub(super) tolerance: Field<Share>,
    /// Time for the steps of a trial, up to 24h, without the starts of generators on a cluster; the search then
    /// ends with its best estimate. Default: 90s.
    pub(super) budget: Field<Duration<1, TRIAL_WINDOW_NS_MAX>>,
}

/// What a load without a rate of its own is made of.
pub(super) struct Special {
    pub(super) name: String,
    pub(super) connections: Spanned<u32>,
    pub(super) kind: LoadKind,
    pub(super) step_ns: Option<u64>,
}

/// Resolves `capacity` or `users` of a load; `Some(None)` for a load with a rate.
pub(super) fn resolve(
    problems: &mut Problems,
    entry: &mut LoadFile,
    location: Location,
) -> Option<Option<Special>> {
    let capacity = std::mem::take(&mut entry.capacity);
    let users = std::mem::take(&mut entry.users);
    let think = std::mem::take(&mut entry.think);
    if let (Some(location), true) = (think.location(), users.is_absent()) {
        problems
            .add(location, "`think` needs `users`")
            .expected("`users` as well: the number of virtual users");
        return None;
    }
    match (capacity, users) {
        (Field::Absent, Field::Absent) => Some(None),
        (Field::Given(capacity), Field::Given(_)) => {
            problems
                .add(capacity.location, "found both `capacity` and `users`")
                .expected("one of them")
                .help("`loads` is a list of several loads");
            None
        }
        (Field::Absent, users) => {
            let at = users.location().unwrap_or(location);
            let Count(users) = users.optional()??;
            refuse(
                problems,
                entry,
                "users",
                &["rate", "arrivals", "connections"],
            )?;
            let Duration(think_ns) = think.or(Duration(0))?;
            Some(Some(Special {
                name: match think_ns {
                    0 => format!("{users}-users"),
                    ns => format!("{users}-users-{}", exact_duration(ns)),
                },
                kind: LoadKind::Closed { think_ns },
                connections: Spanned {
                    value: users,
                    location: at,
                },
                step_ns: None,
            }))
        }
        (capacity, _) => {
            let at = capacity.location().unwrap_or(location);
            let capacity = capacity.optional()??;
            refuse(problems, entry, "capacity", &["rate", "duration", "warmup"])?;
            search(problems, capacity, entry, at).map(Some)
        }
    }
}

/// Reports the keys of `entry` that do not apply beside `beside`.
fn refuse(problems: &mut Problems, entry: &LoadFile, beside: &str, keys: &[&str]) -> Option<()> {
    let before = problems.list().len();
    for key in keys {
        let location = match *key {
            "rate" => entry.rate.location(),
            "arrivals" => entry.arrivals.location(),
            "connections" => entry.connections.location(),
            "duration" => entry.duration.location(),
            _ => entry.warmup.location(),
        };
        let Some(location) = location else { continue };
        let why = match (beside, *key) {
            ("users", "connections") => "each virtual user has a connection of its own",
            ("users", _) => "in a closed loop, responses determine the rate",
            (_, "rate") => "the search chooses the rates; `min_rate` and `max_rate` limit them",
            _ => "`step` in `capacity` is the length of a step",
        };
        problems
            .add(location, format!("`{key}` does not work with `{beside}`"))
            .expected(format!("no `{key}`"))
            .help(why);
    }
    (problems.list().len() == before).then_some(())
}

fn search(
    problems: &mut Problems,
    file: CapacityFile,
    entry: &mut LoadFile,
    location: Location,
) -> Option<Special> {
    let connections = match (file.connections.location(), entry.connections.location()) {
        (Some(at), Some(_)) => {
            problems
                .add(
                    at,
                    "`connections` is there twice: in the load and in `capacity`",
                )
                .expected("one of them");
            return None;
        }
        (Some(at), None) => (file.connections.or(Count(64))?.0, at),
        (None, _) => match std::mem::take(&mut entry.connections).optional()? {
            None => (64, location),
            Some(List(list)) if list.len() == 1 => (list[0].value.0, list[0].location),
            Some(List(list)) => {
                let found = format!("{} numbers of connections", list.len());
                let at = list.first().map_or(location, |c| c.location);
                problems
                    .add(at, found)
                    .expected("one, because the search takes minutes")
                    .help("`loads` is a list of several loads");
                return None;
            }
        },
    };
    let given = file.slo.optional()?.map_or_else(Vec::new, |list| list.0);
    if given.is_empty() {
        problems
            .add(location, "found a capacity without an objective")
            .expected("`slo`, such as `slo: [p99<20ms, errors<0.1%]`");
        return None;
    }
    let given: Vec<Objective> = given.into_iter().map(|o| o.value.0).collect();
    let samples = given.iter().map(Objective::samples_needed).max();
    let samples = samples.unwrap_or(0);
    let max_location = file.max_rate.location().unwrap_or(location);
    let step_location = file.step.location().unwrap_or(location);
    let budget_location = file.budget.location().unwrap_or(location);
    let min = file.min_rate.optional()?.map(|r| r.0);
    let Rate(max_rps) = file.max_rate.or(Rate(MAX_RPS))?;
    let (min_rps, start_rps) = lowest_and_first_rps(min, max_rps);
    if min_rps * 1.01 >= max_rps {
        problems
            .add(
                max_location,
                format!("found rates from {min_rps} to {max_rps}"),
            )
            .expected("`max_rate` above `min_rate`");
        return None;
    }
    let Duration(step_ns) = file.step.or(Duration(2 * SECOND_NS))?;
    let Duration(budget_ns) = file.budget.or(Duration(90 * SECOND_NS))?;
    let limits = SearchLimits {
        min_rps,
        start_rps,
        max_rps,
        samples,
        step_ns,
        budget_ns,
    };
    if let Err((setting, problem)) = limits.check() {
        let location = match setting {
            SearchSetting::Step => step_location,
            SearchSetting::Budget => budget_location,
        };
        problems.add_at(location, problem);
        return None;
    }
    Some(Special {
        name: "capacity".to_owned(),
        connections: Spanned {
            value: connections.0,
            location: connections.1,
        },
        kind: LoadKind::Capacity(CapacitySearch {
            objectives: Objective::with_defaults(given)
                .iter()
                .map(Objective::to_string)
                .collect(),
            samples,
            min_rps,
            max_rps,
            start_rps,
            tolerance: file.tolerance.or(Share(0.05))?.0,
            budget_ns,
        }),
        step_ns: Some(step_ns),
    })
}

#[cfg(test)]
mod tests {
    use crate::plan::{LoadKind, Plan, PlanErrors, resolve};

    fn plan(text: &str) -> Result<Plan, PlanErrors> {
        resolve("plan.yaml", text, &[], &|_| Err("no files".into()))
    }

    #[test]
    fn a_search_on_a_cluster_starts_its_generators_for_each_step() {
        let time_ns = |environment: &str| {
            let text = format!(
                "{{load: {{capacity: {{slo: [p50<20ms], step: 2s, budget: 24s}}}}, meshes: [bare], \
                 environment: {environment}, repeats: 1}}"
            );
            let plan = plan(&text).unwrap();
            assert_eq!(plan.loads[0].steps_max(), 10);
            plan.estimated_duration_ns()
        };
        // Nine more starts, and the slower start of a trial.
        assert_eq!(
            (time_ns("kubernetes") - 45_000_000_000 - 24_000_000_000) / 9,
            8_000_000_000
        );
        assert!(time_ns("local") < 26_000_000_000);
    }

    #[test]
    fn a_capacity_has_objectives_and_the_default_ones() {
        let text = "load: {capacity: {slo: [p99<20ms, errors<0.1%], connections: 64}}";
        let plan = plan(text).unwrap();
        let load = &plan.loads[0];
        let search = load.capacity().unwrap();
        assert_eq!(
            search.objectives,
            ["p99<20ms", "errors<0.1%", "achieved>99%"]
        );
        assert_eq!(search.samples, 2_995, "for errors<0.1%");
        assert_eq!((load.name.as_str(), load.connections), ("capacity", 64));
        assert_eq!((search.start_rps, search.max_rps), (100.0, 1e6));
        assert_eq!(load.duration_ns, 2_000_000_000);
        assert!(!load.is_open());
        // 15 trials of 90 s each.
        assert!(plan.estimated_duration_ns() > 15 * 90_000_000_000);
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    }

    #[test]
    fn users_are_a_closed_loop_with_as_many_connections() {
        let without = plan("load: {users: 60, think: 0ms, duration: 5s}").unwrap();
        let load = &without.loads[0];
        assert!(load.is_closed());
        assert_eq!((load.name.as_str(), load.connections), ("60-users", 60));
        assert_eq!(load.own_time_ns(), 8_000_000_000);
        assert_eq!(load.users(), "60 users");
        let thinking = plan("load: {users: 60, think: 100ms}").unwrap();
        let load = &thinking.loads[0];
        assert_eq!(
            (&load.kind, load.name.as_str()),
            (
                &LoadKind::Closed {
                    think_ns: 100_000_000
                },
                "60-users-100ms"
            )
        );
        assert_eq!(load.users(), "60 users with a think time of 100ms");
        let json = serde_json::to_string(&thinking).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), thinking);
    }

    #[test]
    fn every_problem_is_reported() {
        for (text, found) in [
            ("load: {think: 0ms}", "`think` needs `users`"),
            (
                "load: {users: 60, rate: 5}",
                "`rate` does not work with `users`",
            ),
            ("load: {capacity: {}}", "without an objective"),
            ("load: {capacity: {slo: [p99<20]}}", "no unit"),
            ("load: {capacity: {slo: [latency<20ms]}}", "\"latency\""),
            (
                "load: {capacity: {slo: [p99<1s]}, rate: 5}",
                "`rate` does not work with `capacity`",
            ),
            (
                "load: {capacity: {slo: [p99<1s]}, duration: 5s}",
                "`step` in `capacity`",
            ),
            (
                "load: {capacity: {slo: [p99<1s]}, users: 5}",
                "both `capacity` and `users`",
            ),
            (
                "load: {capacity: {slo: [p99<1s], step: 1ns}}",
                "expected steps of at least 100ms",
            ),
            (
                "load: {capacity: {slo: [p99.99<1s], max_rate: 500}}",
                "the objectives need 29956",
            ),
            (
                "load: {capacity: {slo: [p99<1s], step: 5s, budget: 4s}}",
                "too short for 3 steps",
            ),
            (
                "load: {capacity: {slo: [p99.9<1s], budget: 20s}}",
                "2995 requests",
            ),
            ("load: {capacity: {slo: [p99<0ms]}}", "can never be met"),
            (
                "load: {capacity: {slo: [p99<1s], min_rate: 9, max_rate: 5}}",
                "from 9 to 5",
            ),
            (
                "load: {capacity: {slo: [p99<1s]}, arrivals: ramp:1..9}",
                "the search chooses the rates",
            ),
            (
                "{load: {capacity: {slo: [p99<1s]}}, vary: {connections: [32, 64]}}",
                "`vary` does not work with the load `capacity`",
            ),
            (
                "{load: {users: 60}, vary: {connections: [32, 64]}}",
                "`vary` does not work with the load `60-users`",
            ),
            (
                "loads: [{rate: 5}, {users: 60}]",
                "loads with a rate and loads without one",
            ),
            (
                "{load: {users: 60}, repeats: {until: {p99: 5%}}}",
                "`until`",
            ),
        ] {
            let error = plan(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(found), "{text}: {error}");
        }
    }
}
