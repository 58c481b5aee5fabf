//! New levels of a factor for a sweep that was run.

use super::super::blocks::BlockGroup;
use super::super::loads::{self, PlacedLoad};
use super::super::resolve::{check_size, checked_loads};
use super::super::resolved::{Load, Plan, Workload};
use super::super::sweep::{Design, FactorKind, Level, Levels, Sweep};
use super::super::tcp;
use super::setting::Setting;
use super::{Varied, VaryFile, check_levels, factors};
use crate::source::{Location, Node, Problems, Setter, Spanned, Value, apply_set};

/// The option of the command line that names the new levels.
const VARY: Setter = Setter {
    option: "--vary",
    example: "response_bytes=512KiB,1MiB",
};

/// Adds levels to a factor of the sweep `plan`: `vary` is a factor with its new levels, such as
/// `response_bytes=512KiB,1MiB`. The new plan has as many blocks more as the plan had at first. They
/// have the anchor of the factor and the new levels; all earlier trials are the same in both plans.
///
/// # Errors
/// What was found, and what was expected.
pub fn extend(plan: &Plan, vary: &str) -> Result<Plan, Problems> {
    let mut problems = Problems::default();
    let extended = extended(&mut problems, plan, vary);
    problems.check(extended)
}

fn extended(problems: &mut Problems, plan: &Plan, vary: &str) -> Option<Plan> {
    let mut root = Node {
        location: Location::default(),
        value: Value::Null,
    };
    apply_set(problems, &mut root, VARY, vary);
    let file: VaryFile = problems.decode(&root)?;
    let (_, factors) = factors(file)?;
    let [factor] = &factors[..] else {
        let expected = "one factor with new levels, like `response_bytes=512KiB,1MiB`";
        let found = format!("found {} factors", factors.len());
        problems.add(Location::default(), found).expected(expected);
        return None;
    };
    let sweep = of_loads(problems, plan, factor)?;
    check_new(problems, sweep, factor);
    if !problems.list().is_empty() {
        return None;
    }
    let added = added(problems, plan, sweep, factor);
    if !problems.list().is_empty() {
        return None;
    }
    let (plan, loads) = with(plan, sweep, factor, added);
    let sweep = plan.sweep.as_ref();
    checked_loads(problems, Some(loads), Some(&plan.workload), sweep)?;
    check_size(problems, &plan, factor.location, factor.location);
    tcp::check(problems, &plan, factor.location);
    Some(plan)
}

/// The sweep of the plan, if the factor is one of its factors and changes loads.
fn of_loads<'a>(problems: &mut Problems, plan: &'a Plan, factor: &Varied) -> Option<&'a Sweep> {
    let key = factor.kind.key();
    let Some(sweep) = &plan.sweep else {
        problems
            .add(
                factor.location,
                format!("the plan `{}` is not a sweep", plan.name),
            )
            .expected("a run of a plan with `vary`");
        return None;
    };
    let known = sweep.factors.iter().map(|f| f.kind);
    let known: Vec<FactorKind> = known.filter(|k| !k.is_of_mesh()).collect();
    if known.contains(&factor.kind) {
        return Some(sweep);
    }
    let found = match factor.kind.is_of_mesh() {
        true => format!("`{key}` is a setting of meshes: new levels would be new meshes"),
        false => format!("the sweep does not have the factor `{key}`"),
    };
    let problem = problems.add(factor.location, found);
    match known.is_empty() {
        true => problem.expected("a sweep with a factor of the load"),
        false => problem.one_of(key, known.iter().map(|k| k.key())),
    }
    .help("start another run with these levels");
    None
}

/// Checks that the sweep does not have the levels.
fn check_new(problems: &mut Problems, sweep: &Sweep, factor: &Varied) {
    let known = sweep.factors.iter().find(|f| f.kind == factor.kind);
    let known: Vec<&str> = known
        .into_iter()
        .flat_map(|f| f.levels.iter().map(|l| l.label.as_str()))
        .collect();
    for level in &factor.levels {
        let label = level.value.level().label;
        if known.contains(&label.as_str()) {
            let found = format!("the sweep has the level {label} of `{}`", factor.kind.key());
            let expected = format!("other levels than {}", known.join(", "));
            problems.add(level.location, found).expected(expected);
        }
    }
    check_levels(problems, factor);
}

/// A new load with its workload and its levels, and the name of the load from which it was made.
struct Added {
    load: Load,
    workload: Workload,
    levels: Levels,
    location: Location,
}

/// The loads at the anchor of the factor: with `one_at_a_time`, only that with all anchors.
fn anchors<'a>(plan: &'a Plan, sweep: &'a Sweep, kind: FactorKind) -> Vec<&'a Load> {
    let is_base = |load: &&Load| {
        let levels = sweep.loads.get(&load.name);
        let at_anchor = |f: &super::super::sweep::Factor| {
            let level = levels.and_then(|l| l.get(&f.kind));
            level.is_none_or(|level| Some(level) == f.levels.first().map(|l| &l.label))
        };
        let mut factors = sweep.factors.iter();
        factors.all(|f| (sweep.design == Design::Full && f.kind != kind) || at_anchor(f))
    };
    plan.loads.iter().filter(is_base).collect()
}

fn added(problems: &mut Problems, plan: &Plan, sweep: &Sweep, factor: &Varied) -> Vec<Added> {
    let anchors = anchors(plan, sweep, factor.kind);
    let mut all = Vec::new();
    for Spanned {
        value: setting,
        location,
    } in &factor.levels
    {
        for anchor in &anchors {
            let (mut load, mut workload) = ((*anchor).clone(), plan.workload_of(anchor).clone());
            let mut levels = sweep.loads.get(&anchor.name).cloned().unwrap_or_default();
            setting.apply(&mut load, &mut workload);
            if matches!(setting, Setting::Depth(_) | Setting::Width(_)) {
                // The graph is a new one, without the levels of the other factors.
                for setting in services(sweep, &levels) {
                    setting.apply(&mut load, &mut workload);
                }
            }
            levels.insert(factor.kind, setting.level().label);
            load.name = name(sweep, factor.kind, &levels);
            loads::check(problems, &load, *location);
            if let Err(error) = workload.graph.validate() {
                let found = format!("the workload of `{}` is invalid: {error}", load.name);
                problems.add_message(*location, &found);
            }
            all.push(Added {
                load,
                workload,
                levels,
                location: *location,
            });
        }
    }
    all
}

/// The settings of the services at these levels.
fn services(sweep: &Sweep, levels: &Levels) -> Vec<Setting> {
    let level = |kind: &FactorKind, label: &String| -> Option<Level> {
        let factor = sweep.factors.iter().find(|f| f.kind == *kind)?;
        factor.levels.iter().find(|l| l.label == *label).cloned()
    };
    let setting =
        |(kind, label): (&FactorKind, &String)| Setting::of_services(*kind, &level(kind, label)?);
    levels.iter().filter_map(setting).collect()
}

/// The name that `vary` gives to a load at these levels.
fn name(sweep: &Sweep, kind: FactorKind, levels: &Levels) -> String {
    let named = |k: &FactorKind| sweep.design == Design::Full || *k == kind;
    let named = levels.iter().filter(|(k, _)| named(k));
    let parts: Vec<String> = named
        .map(|(kind, label)| format!("{}={label}", kind.short()))
        .collect();
    parts.join(",")
}

/// The plan with the new loads and blocks, and all its loads with the locations of the new ones.
fn with(plan: &Plan, sweep: &Sweep, factor: &Varied, added: Vec<Added>) -> (Plan, Vec<PlacedLoad>) {
    let mut sweep = sweep.clone();
    let mut groups = plan.block_groups.clone();
    if groups.is_empty() {
        groups.push(BlockGroup {
            blocks: plan.repeats,
            loads: plan.loads.iter().map(|l| l.name.clone()).collect(),
            meshes: Vec::new(),
        });
    }
    let blocks = groups[0].blocks;
    let anchors = anchors(plan, &sweep, factor.kind).into_iter();
    let mut names: Vec<String> = anchors.map(|l| l.name.clone()).collect();
    names.extend(added.iter().map(|a| a.load.name.clone()));
    groups.push(BlockGroup {
        blocks,
        loads: names,
        meshes: Vec::new(),
    });
    for known in sweep.factors.iter_mut().filter(|f| f.kind == factor.kind) {
        let levels = factor.levels.iter().map(|l| l.value.level());
        known.levels.extend(levels);
        // The anchor stays first.
        let by_value = |a: &Level, b: &Level| a.value.partial_cmp(&b.value);
        known.levels[1..].sort_by(|a, b| by_value(a, b).unwrap_or(std::cmp::Ordering::Equal));
    }
    let placed = |load: &Load, location| PlacedLoad {
        load: load.clone(),
        location,
        connections_location: location,
    };
    let mut extended = plan.clone();
    extended.repeats += blocks;
    extended.block_groups = groups;
    let old = plan.loads.iter().map(|l| placed(l, factor.location));
    let mut loads: Vec<PlacedLoad> = old.collect();
    for new in added {
        loads.push(placed(&new.load, new.location));
        if new.workload != plan.workload {
            sweep.workloads.insert(new.load.name.clone(), new.workload);
        }
        sweep.loads.insert(new.load.name.clone(), new.levels);
        extended.loads.push(new.load);
    }
    extended.sweep = Some(sweep);
    (extended, loads)
}
