//! The number of blocks: fixed, or until the intervals are narrow enough.

use schemars::JsonSchema;
use serde::Deserialize;

use super::resolved::{PrecisionTarget, StopRule, TARGETS, UNTIL_MIN};
use crate::limits::{REPEATS_MAX, TIME_NS_MAX};
use crate::source::{Count, Duration, Field, Location, Problems, Share, Short};

/// Default of `max` in an adaptive plan.
const MAX_DEFAULT: u32 = 20;
/// Default number of blocks.
const REPEATS_DEFAULT: u32 = 5;

/// Number of blocks.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Repeats",
    deny_unknown_fields,
    default,
    expecting = "the repeats"
)]
pub(super) struct RepeatsFile {
    /// Most blocks, 1 to 1000. Default: 20 with `until`.
    max: Field<Count<1, REPEATS_MAX>>,
    /// Fewest blocks, 5 to 1000. Default: 5. Only with `until`.
    min: Field<Count<UNTIL_MIN, REPEATS_MAX>>,
    /// Time limit for the blocks, such as `8m`. The first `min` blocks always run. Only with `until`.
    #[schemars(with = "Option<Duration<1, TIME_NS_MAX>>")]
    budget: Field<Duration<1, TIME_NS_MAX>>,
    /// Stop when the questions are answered: `resolved`. Or when every mesh under every load has intervals this narrow: half
    /// their width as a share of the percentile, such as `{p99: 5%}`.
    #[schemars(with = "Option<Short<Answers, UntilFile>>")]
    until: Field<Short<Answers, UntilFile>>,
}

/// What must be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", expecting = "`resolved`")]
pub(super) enum Answers {
    /// Each primary ratio is different or the same.
    Resolved,
}

/// Targets: percentiles, and half the width of their intervals as a share.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Until", deny_unknown_fields, default, expecting = "`until`")]
pub(super) struct UntilFile {
    /// `resolved`: for each pair of meshes under the load with the highest rate, the median, p99 and CPU per request are
    /// different or the same within the margin.
    answers: Field<Answers>,
    /// Target of the median.
    p50: Field<Share>,
    /// Target of the 90th percentile.
    p90: Field<Share>,
    /// Target of the 99th percentile.
    p99: Field<Share>,
    /// Target of the 99.9th percentile.
    #[serde(rename = "p99.9")]
    p99_9: Field<Share>,
}

/// Returns the maximum number of blocks and, for an adaptive plan, when to stop earlier.
pub(super) fn resolve(
    problems: &mut Problems,
    written: Field<Short<u32, RepeatsFile>>,
    location: Location,
) -> Option<(u32, Option<StopRule>)> {
    let Short(file, _) = written.or_else(Short::default)?;
    let until_location = file.until.location();
    let Some(Short(until, _)) = file.until.optional()? else {
        let needs_until = [
            ("min", file.min.location()),
            ("budget", file.budget.location()),
        ];
        for (key, location) in needs_until {
            if let Some(location) = location {
                problems
                    .add(location, format!("`{key}` needs `until`"))
                    .expected("`until` as well, or a number of repeats");
            }
        }
        return Some((file.max.or(Count(REPEATS_DEFAULT))?.0, None));
    };
    let (Count(min), Count(max)) = (
        file.min.or(Count(UNTIL_MIN))?,
        file.max.or(Count(MAX_DEFAULT))?,
    );
    if max < min {
        problems
            .add(location, format!("`max` {max} is below `min` {min}"))
            .expected(format!("`max` of at least {min}"));
        return None;
    }
    let mut targets = Vec::new();
    let shares = [until.p50, until.p90, until.p99, until.p99_9];
    for (share, what) in shares.into_iter().zip(TARGETS) {
        if let Some(Share(half_width)) = share.optional()? {
            targets.push(PrecisionTarget { what, half_width });
        }
    }
    let resolved = until.answers.optional()?.is_some();
    if targets.is_empty() && !resolved {
        // An unknown key is probably the percentile.
        if !problems.list().is_empty() {
            return None;
        }
        problems
            .add(until_location.unwrap_or(location), "found no percentile")
            .expected("`resolved`, or at least one of p50, p90, p99 and p99.9")
            .help("for example `until: resolved`, or `until: {p99: 5%}`");
        return None;
    }
    let rule = StopRule {
        targets,
        min,
        resolved,
        budget_ns: file.budget.optional()?.map(|d| d.0),
    };
    Some((max, Some(rule)))
}

#[cfg(test)]
mod tests {
    use crate::Figure;
    use crate::plan::{Plan, PlanErrors, resolve};

    fn plan(text: &str, sets: &[&str]) -> Result<Plan, PlanErrors> {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        resolve("plan.yaml", text, &sets, &|_| Err("no files".into()))
    }

    #[test]
    fn a_plan_can_run_until_its_questions_are_answered() {
        let plan = plan("repeats: {until: resolved, min: 6, budget: 4m}", &[]).unwrap();
        let rule = plan.until.unwrap();
        assert!(rule.resolved && rule.targets.is_empty());
        assert_eq!((rule.min, rule.budget_ns), (6, Some(240_000_000_000)));
        let looks: Vec<u32> = (1..=30).filter(|n| rule.is_look(*n)).collect();
        assert_eq!(looks, [6, 9, 14, 21]);
    }

    #[test]
    fn repeats_are_a_number_or_a_stop_rule() {
        let fixed = plan("repeats: 4", &[]).unwrap();
        assert_eq!((fixed.repeats, fixed.until), (4, None));
        let until = plan("repeats: {until: {p99: 5%, p50: 1.5 %}}", &[]).unwrap();
        assert_eq!(until.repeats, 20);
        let rule = until.until.unwrap();
        assert_eq!(rule.min, 5);
        let targets: Vec<(Figure, f64)> = rule
            .targets
            .iter()
            .map(|t| (t.what, t.half_width))
            .collect();
        assert_eq!(targets, [(Figure::P50, 0.015), (Figure::P99, 0.05)]);
        let set = plan("repeats: {until: {p99: 5%}, min: 6}", &["repeats.max=8"]).unwrap();
        assert_eq!((set.repeats, set.until.unwrap().min), (8, 6));
        assert_eq!(plan("", &["repeats=7"]).unwrap().repeats, 7);
        // Run directories of older versions have a fixed number.
        let mut json = serde_json::to_value(plan("", &[]).unwrap()).unwrap();
        assert!(json.get("until").is_none());
        json["repeats"] = 2.into();
        assert_eq!(serde_json::from_value::<Plan>(json).unwrap().until, None);
    }

    #[test]
    fn every_problem_has_its_location() {
        for (text, found) in [
            ("repeats: {until: {}}", "no percentile"),
            ("repeats: {until: {p98: 5%}}", "unknown key `p98`"),
            ("repeats: {until: {p99: 5}}", "has no unit"),
            ("repeats: {until: {p99: 0%}}", "0%"),
            ("repeats: {min: 5}", "`min` needs `until`"),
            ("repeats: {budget: 5m}", "`budget` needs `until`"),
            ("repeats: {until: solved}", "`resolved`"),
            ("repeats: {until: {p99: 5%}, min: 3}", "3"),
            (
                "repeats: {until: {p99: 5%}, max: 4}",
                "`max` 4 is below `min` 5",
            ),
        ] {
            let error = plan(text, &[]).unwrap_err().to_string();
            assert!(error.contains(found), "{text}: {error}");
            assert!(error.contains("plan.yaml:1:"), "{error}");
        }
    }
}
