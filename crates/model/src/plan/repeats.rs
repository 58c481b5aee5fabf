//! How many blocks: a number, or until intervals are narrow enough.

use schemars::JsonSchema;

use super::resolved::{PrecisionTarget, StopRule, TARGETS, UNTIL_MIN};
use crate::limits::REPEATS_MAX;
use crate::source::{Decoder, Node, Part, Place, Shape, Share};
use crate::units::parse_share;

/// Blocks of an adaptive plan that does not say.
const MAX_DEFAULT: u32 = 20;
/// Blocks of a plan that does not say.
const REPEATS_DEFAULT: u32 = 3;

/// How many blocks.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "Repeats", deny_unknown_fields, default)]
pub(super) struct RepeatsFile {
    /// Stop when every mesh under every load has intervals this narrow: half their width
    /// as a share of the percentile, as `{p99: 5%}`.
    pub(super) until: Part<UntilFile>,
    /// Fewest blocks, 5 to 1000. Default: 5. Only with `until`.
    #[schemars(range(min = UNTIL_MIN, max = REPEATS_MAX))]
    pub(super) min: Part<u32>,
    /// Most blocks, 1 to 1000. Default: 20 with `until`.
    #[schemars(range(min = 1, max = REPEATS_MAX))]
    pub(super) max: Part<u32>,
}

/// Percentiles, and how narrow their intervals are to be.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "Until", deny_unknown_fields, default)]
pub(super) struct UntilFile {
    /// Of the median.
    #[schemars(with = "Share")]
    pub(super) p50: Part<f64>,
    /// Of the 90th percentile.
    #[schemars(with = "Share")]
    pub(super) p90: Part<f64>,
    /// Of the 99th percentile.
    #[schemars(with = "Share")]
    pub(super) p99: Part<f64>,
    /// Of the 99.9th percentile.
    #[schemars(rename = "p99.9", with = "Share")]
    pub(super) p99_9: Part<f64>,
}

pub(super) static UNTIL: Shape = Shape::Map {
    keys: &[
        ("p50", &Shape::Scalar),
        ("p90", &Shape::Scalar),
        ("p99", &Shape::Scalar),
        ("p99.9", &Shape::Scalar),
    ],
    shorthand: None,
};

pub(super) static REPEATS: Shape = Shape::Map {
    keys: &[
        ("until", &UNTIL),
        ("min", &Shape::Scalar),
        ("max", &Shape::Scalar),
    ],
    shorthand: Some("max"),
};

pub(super) fn decode(d: &mut Decoder, node: &Node) -> Option<RepeatsFile> {
    let fields = d.fields(node, &REPEATS, "the repeats")?;
    Some(RepeatsFile {
        until: d.part(&fields, "until", until),
        min: d.part(&fields, "min", |d, n| d.count_of(n, UNTIL_MIN, REPEATS_MAX)),
        max: d.part(&fields, "max", |d, n| d.count_of(n, 1, REPEATS_MAX)),
    })
}

fn until(d: &mut Decoder, node: &Node) -> Option<UntilFile> {
    let fields = d.fields(node, &UNTIL, "`until`")?;
    let file = UntilFile {
        p50: d.part(&fields, "p50", share),
        p90: d.part(&fields, "p90", share),
        p99: d.part(&fields, "p99", share),
        p99_9: d.part(&fields, "p99.9", share),
    };
    let parts = [&file.p50, &file.p90, &file.p99, &file.p99_9];
    if parts.iter().all(|p| matches!(p, Part::Absent)) {
        d.problem(node.place, "no percentile")
            .expected("at least one of p50, p90, p99 and p99.9")
            .help("as in `until: {p99: 5%}`");
        return None;
    }
    Some(file)
}

fn share(d: &mut Decoder, node: &Node) -> Option<f64> {
    let value = d.unit(node, "a share with its sign, like `5%`", parse_share)?;
    if value > 0.0 && value <= 1.0 {
        return Some(value);
    }
    d.problem(node.place, format!("found {}", node.describe()))
        .expected("a share above 0 and up to 100 %");
    None
}

/// Most blocks, and when to stop before.
pub(super) fn resolve(
    d: &mut Decoder,
    part: Part<RepeatsFile>,
    place: Place,
) -> Option<(u32, Option<StopRule>)> {
    let file = part.or_else(RepeatsFile::default)?;
    let min_place = file.min.place();
    if matches!(file.until, Part::Absent) {
        if let Some(place) = min_place {
            d.problem(place, "`min` without `until`")
                .expected("`until` beside it, or a number of repeats");
        }
        return Some((file.max.or(REPEATS_DEFAULT)?, None));
    }
    let until = file.until.or_else(UntilFile::default)?;
    let (min, max) = (file.min.or(UNTIL_MIN)?, file.max.or(MAX_DEFAULT)?);
    if max < min {
        d.problem(place, format!("at most {max} repeats, at least {min}"))
            .expected(format!("`max` of at least {min}"));
        return None;
    }
    let mut targets = Vec::new();
    for (part, (what, _)) in [until.p50, until.p90, until.p99, until.p99_9]
        .into_iter()
        .zip(TARGETS)
    {
        let half_width = part.or(0.0)?;
        if half_width > 0.0 {
            targets.push(PrecisionTarget {
                what: what.to_owned(),
                half_width,
            });
        }
    }
    Some((max, Some(StopRule { targets, min })))
}

#[cfg(test)]
mod tests {
    use crate::plan::{Plan, PlanErrors, resolve};

    fn plan(text: &str, sets: &[&str]) -> Result<Plan, PlanErrors> {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
        resolve("plan.yaml", text, &sets, &|_| Err("no files".into()))
    }

    #[test]
    fn a_number_or_until_narrow_enough() {
        let fixed = plan("repeats: 4", &[]).unwrap();
        assert_eq!((fixed.repeats, fixed.until), (4, None));
        let until = plan("repeats: {until: {p99: 5%, p50: 1.5 %}}", &[]).unwrap();
        assert_eq!(until.repeats, 20);
        let rule = until.until.unwrap();
        assert_eq!(rule.min, 5);
        let targets: Vec<(&str, f64)> = rule
            .targets
            .iter()
            .map(|t| (t.what.as_str(), t.half_width))
            .collect();
        assert_eq!(targets, [("p50", 0.015), ("p99", 0.05)]);
        let set = plan("repeats: {until: {p99: 5%}, min: 6}", &["repeats.max=8"]).unwrap();
        assert_eq!((set.repeats, set.until.unwrap().min), (8, 6));
        assert_eq!(plan("", &["repeats=7"]).unwrap().repeats, 7);
        // What a run directory of an older version says is a fixed number.
        let mut json = serde_json::to_value(plan("", &[]).unwrap()).unwrap();
        assert!(json.get("until").is_none());
        json["repeats"] = 2.into();
        assert_eq!(serde_json::from_value::<Plan>(json).unwrap().until, None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, found) in [
            ("repeats: {until: {}}", "no percentile"),
            ("repeats: {until: {p98: 5%}}", "unknown key `p98`"),
            ("repeats: {until: {p99: 5}}", "without its unit"),
            ("repeats: {until: {p99: 0%}}", "0%"),
            ("repeats: {min: 5}", "`min` without `until`"),
            ("repeats: {until: {p99: 5%}, min: 3}", "3"),
            (
                "repeats: {until: {p99: 5%}, max: 4}",
                "at most 4 repeats, at least 5",
            ),
        ] {
            let error = plan(text, &[]).unwrap_err().to_string();
            assert!(error.contains(found), "{text}: {error}");
            assert!(error.contains("plan.yaml:1:"), "{error}");
        }
    }
}
