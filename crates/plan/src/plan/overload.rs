//! Loads beyond the capacity: shares of a capacity that the same run found first.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::BlockGroup;
use super::file::LoadFile;
use super::load_kind::LoadKind;
use super::loads::{self, PlacedLoad};
use super::resolved::{Load, Plan};
use crate::limits::{LIST_MAX, SECOND_NS, TRIAL_WINDOW_NS_MAX};
use crate::load::{Arrivals, RateStep, TRIAL_WARMUP_NS};
use crate::source::{Count, Duration, Field, List, Location, Problems, Spanned};

/// Time before the overload.
const BEFORE_NS: u64 = 2 * SECOND_NS;
/// Rate before and after the overload, as a share of the mesh's own capacity.
const CALM_SHARE: f64 = 0.5;
/// Blocks of searches for the capacity.
const SEARCHES: u32 = 3;
const PERCENTS: [u32; 4] = [80, 100, 120, 150];

/// An overload: the rate is a share of a capacity that earlier blocks of the run found. Before and after
/// it, the rate is half of the mesh's own capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Overload {
    /// Percent of the capacity that is offered.
    pub percent: u32,
    /// Whose capacity.
    pub of: CapacityOf,
    /// Length of the overload: whole seconds. It begins two seconds after the window. The rest of the window
    /// follows it.
    pub overload_ns: u64,
    /// The objectives of the search for the capacity: after the overload, the first second that meets them
    /// ends the recovery.
    pub objectives: Vec<String>,
    /// Blocks of the run, from the first, that search for the capacity.
    pub searches: u32,
}

/// Whose capacity the percentages of an overload are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapacityOf {
    /// That of the mesh itself.
    Own,
    /// That of the baseline.
    Baseline,
}

impl CapacityOf {
    fn key(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Baseline => "baseline",
        }
    }
}

/// The parts of the window: seconds of intended time, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phases {
    /// Before the overload.
    pub before: Range<u32>,
    /// The overload.
    pub overload: Range<u32>,
    /// After it.
    pub after: Range<u32>,
}

impl Overload {
    /// `120 % of its own capacity`.
    #[must_use]
    pub fn words(&self) -> String {
        let of = match self.of {
            CapacityOf::Own => "its own capacity",
            CapacityOf::Baseline => "the baseline's capacity",
        };
        format!("{} % of {of}", self.percent)
    }

    /// The rate of the overload, and the arrivals of the whole window, in requests per second. `own_rps` is the
    /// mesh's own capacity, and `capacity_rps` the one that the overload is a share of.
    #[must_use]
    pub fn arrivals(&self, own_rps: f64, capacity_rps: f64, window_ns: u64) -> (f64, Arrivals) {
        let rate_rps = capacity_rps * f64::from(self.percent) / 100.0;
        let step = |rate_rps, duration_ns| RateStep {
            rate_rps,
            duration_ns,
        };
        let calm = CALM_SHARE * own_rps;
        let after_ns = window_ns
            .saturating_sub(BEFORE_NS + self.overload_ns)
            .max(1);
        let steps = vec![
            step(calm, BEFORE_NS),
            step(rate_rps, self.overload_ns),
            step(calm, after_ns),
        ];
        (rate_rps, Arrivals::Steps(steps))
    }

    /// The parts of a window.
    #[must_use]
    pub fn phases(&self, window_ns: u64) -> Phases {
        let seconds = |ns: u64| (ns / SECOND_NS) as u32;
        let (begin, end) = (seconds(BEFORE_NS), seconds(BEFORE_NS + self.overload_ns));
        Phases {
            before: 0..begin,
            overload: begin..end,
            after: end..seconds(window_ns),
        }
    }
}

/// Offers shares of the capacity that a load with `capacity` of the same plan finds first.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Overload",
    deny_unknown_fields,
    default,
    expecting = "the overload"
)]
pub(super) struct OverloadFile {
    /// Percent of a capacity; each makes a load. Default: 80, 100, 120 and 150.
    pub(super) percent: Field<List<Count<1, 1000>>>,
    /// Whose capacity: own, baseline or both. Default: both.
    pub(super) of: Field<List<CapacityOf>>,
    /// Time after the overload at half of the capacity, in whole seconds. Default: 5s.
    pub(super) recovery: Field<Duration<1, TRIAL_WINDOW_NS_MAX>>,
    /// Number of blocks that search for the capacity first; `repeats` are those with overloads. Default: 3.
    pub(super) searches: Field<Count<1, 100>>,
}

/// Loads of an `overload`, one for each percentage and capacity. Their objectives and connections are those
/// of the plan's load with `capacity`: see [`complete`].
pub(super) fn resolve(
    problems: &mut Problems,
    entry: &mut LoadFile,
    location: Location,
) -> Option<Option<Vec<PlacedLoad>>> {
    let Field::Given(Spanned { value: file, .. }) = std::mem::take(&mut entry.overload) else {
        return Some(None);
    };
    let refused = [
        ("rate", entry.rate.location()),
        ("arrivals", entry.arrivals.location()),
        ("capacity", entry.capacity.location()),
        ("users", entry.users.location()),
        ("name", entry.name.location()),
        ("connections", entry.connections.location()),
        ("threads", entry.threads.location()),
    ];
    let before = problems.list().len();
    for (key, at) in refused {
        let Some(at) = at else { continue };
        problems
            .add(at, format!("`{key}` does not work with `overload`"))
            .expected(format!("no `{key}`"))
            .help("an overload takes rate, connections and threads from the load with `capacity`");
    }
    let duration_at = entry.duration.location().unwrap_or(location);
    let recovery_at = file.recovery.location().unwrap_or(location);
    let Duration(overload_ns) = std::mem::take(&mut entry.duration).or(Duration(6 * SECOND_NS))?;
    let Duration(recovery_ns) = file.recovery.or(Duration(5 * SECOND_NS))?;
    for (ns, at) in [(overload_ns, duration_at), (recovery_ns, recovery_at)] {
        if ns % SECOND_NS != 0 {
            problems
                .add(at, format!("found {}", crate::units::exact_duration(ns)))
                .expected("whole seconds");
        }
    }
    let Count(searches) = file.searches.or(Count(SEARCHES))?;
    let percents = match file.percent.optional()? {
        Some(List(list)) if list.len() > LIST_MAX => {
            loads::too_many(problems, list.len(), list[LIST_MAX].location);
            return None;
        }
        Some(List(list)) => list.iter().map(|p| p.value.0).collect(),
        None => PERCENTS.to_vec(),
    };
    let of = match file.of.optional()? {
        Some(List(list)) if list.len() > LIST_MAX => {
            loads::too_many(problems, list.len(), list[LIST_MAX].location);
            return None;
        }
        Some(List(list)) => list.iter().map(|of| of.value).collect(),
        None => vec![CapacityOf::Own, CapacityOf::Baseline],
    };
    let pace = std::mem::take(&mut entry.pace).or_else(Default::default)?;
    let warmup = std::mem::take(&mut entry.warmup);
    // The calm part of the window is under load as well.
    let Duration(warmup_ns) = warmup.or(Duration(TRIAL_WARMUP_NS - BEFORE_NS))?;
    let Duration(timeout_ns) = std::mem::take(&mut entry.timeout).or(Duration(SECOND_NS))?;
    let load = |of: CapacityOf, percent: u32| Load {
        name: format!("{}-{percent}", of.key()),
        kind: LoadKind::Overload(Overload {
            percent,
            of,
            overload_ns,
            objectives: Vec::new(),
            searches,
        }),
        connections: 1,
        threads: 1,
        arrivals: Arrivals::Constant,
        pace,
        duration_ns: BEFORE_NS + overload_ns + recovery_ns,
        warmup_ns,
        timeout_ns,
        requests_per_connection: None,
        streams: None,
        churn: None,
    };
    let all = of
        .iter()
        .flat_map(|of| percents.iter().map(|p| load(*of, *p)));
    let placed = |load| PlacedLoad {
        load,
        location,
        connections_location: location,
    };
    (problems.list().len() == before).then(|| Some(all.map(placed).collect()))
}

/// Completes the overloads among the loads of a plan by its load with `capacity`.
pub(super) fn complete(problems: &mut Problems, loads: &mut [PlacedLoad]) -> Option<()> {
    let is_overload = |l: &&PlacedLoad| l.load.overload().is_some();
    let first = loads.iter().find(is_overload).map(|l| l.location);
    let Some(location) = first else {
        return Some(());
    };
    let searches: Vec<Load> = loads
        .iter()
        .filter(|l| l.load.capacity().is_some())
        .map(|l| l.load.clone())
        .collect();
    let [search] = searches.as_slice() else {
        problems
            .add(
                location,
                format!(
                    "`overload` needs one load with `capacity`, this plan has {}",
                    searches.len()
                ),
            )
            .expected("one load with `capacity`")
            .help("it finds the capacity that the overload is a share of");
        return None;
    };
    for PlacedLoad { load, .. } in loads {
        let LoadKind::Overload(overload) = &mut load.kind else {
            continue;
        };
        overload.objectives = search
            .capacity()
            .iter()
            .flat_map(|c| c.objectives.clone())
            .collect();
        load.connections = search.connections;
        load.threads = search.threads;
        load.streams = search.streams;
        load.requests_per_connection = search.requests_per_connection;
    }
    Some(())
}

/// Splits the blocks of a plan with `overload`: first the searches, then `repeats` blocks of overloads.
pub(super) fn split_blocks(plan: &mut Plan) {
    let mut overloads = plan.loads.iter().filter_map(|l| l.overload());
    let Some(searches) = overloads.next().map(|o| o.searches) else {
        return;
    };
    let names = |of_overload: bool| {
        let loads = plan.loads.iter();
        let loads = loads.filter(|l| l.overload().is_some() == of_overload);
        loads.map(|l| l.name.clone()).collect()
    };
    plan.block_groups = vec![
        BlockGroup {
            blocks: searches,
            loads: names(false),
            meshes: Vec::new(),
        },
        BlockGroup {
            blocks: plan.repeats,
            loads: names(true),
            meshes: Vec::new(),
        },
    ];
    plan.repeats += searches;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, PlanErrors, resolve};

    const SEARCH: &str = "{capacity: {slo: [p99<20ms], connections: 16}}";

    fn plan(text: &str) -> Result<Plan, PlanErrors> {
        resolve("plan.yaml", text, &[], &|_| Err("no files".into()))
    }

    #[test]
    fn each_percentage_and_capacity_is_a_load_in_blocks_after_the_searches() {
        let text = format!("{{loads: [{SEARCH}, {{overload: {{}}}}], repeats: 4}}");
        let plan = plan(&text).unwrap();
        let names: Vec<&str> = plan.loads.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names[..3], ["capacity", "own-80", "own-100"]);
        assert_eq!(names[8], "baseline-150");
        assert_eq!((plan.repeats, plan.block_groups.len()), (7, 2));
        let groups = plan.block_groups();
        assert_eq!(
            (groups[0].range.clone(), groups[1].range.clone()),
            (0..3, 3..7)
        );
        assert_eq!((groups[0].loads.len(), groups[1].loads.len()), (1, 8));
        let load = &plan.loads[8];
        assert!(!load.is_open());
        assert_eq!((load.connections, load.timeout_ns), (16, SECOND_NS));
        assert_eq!(load.duration_ns, 13 * SECOND_NS);
        let overload = load.overload().unwrap();
        assert_eq!(
            overload.objectives,
            ["p99<20ms", "errors<1%", "achieved>99%"]
        );
        let (rate_rps, arrivals) = overload.arrivals(400.0, 1000.0, load.duration_ns);
        assert!((rate_rps - 1500.0).abs() < 1e-9);
        assert_eq!(arrivals.to_string(), "steps:200:2s,1500:6s,200:5s");
        let phases = overload.phases(load.duration_ns);
        assert_eq!(
            (phases.before, phases.overload, phases.after),
            (0..2, 2..8, 8..13)
        );
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
        plan.check_names().unwrap();
    }

    #[test]
    fn every_problem_is_reported() {
        for (loads, found) in [
            (
                "[{overload: {}}]".to_owned(),
                "needs one load with `capacity`, this plan has 0",
            ),
            (
                format!("[{SEARCH}, {{overload: {{}}, rate: 5}}]"),
                "`rate` does not work with",
            ),
            (
                format!("[{SEARCH}, {{overload: {{}}, connections: 5}}]"),
                "`connections` does not work with",
            ),
            (
                format!("[{SEARCH}, {{overload: {{}}, duration: 1500ms}}]"),
                "1500ms",
            ),
            (
                format!("[{SEARCH}, {{overload: {{recovery: 100ms}}}}]"),
                "100ms",
            ),
            (format!("[{SEARCH}, {{overload: {{percent: 0}}}}]"), "0"),
            (format!("[{SEARCH}, {{overload: {{of: other}}}}]"), "other"),
            (
                format!("[{SEARCH}, {{overload: {{}}}}, {{rate: 5}}]"),
                "with a rate",
            ),
            (
                format!("[{SEARCH}, {{overload: {{}}}}, {{overload: {{}}}}]"),
                "own-80",
            ),
        ] {
            let error = plan(&format!("loads: {loads}"))
                .map(|_| ())
                .unwrap_err()
                .to_string();
            assert!(error.contains(found), "{loads}: {error}");
        }
    }
}
