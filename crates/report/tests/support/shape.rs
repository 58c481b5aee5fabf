//! The shape of a run: the kinds of figures and files that it has, and those that it may lack.
//!
//! Two runs of one plan have the same shape, except for figures that conditions on the host
//! prevent: a disturbed trial is invalid, and the distance to a busy core is not measured. Such a
//! kind may be absent only if no trial of the run records its cause.

#![allow(clippy::unwrap_used, dead_code, reason = "a test, in parts")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use tare_records::layout;
use tare_records::summary::{Cell, MeshComparison, Summary, TrialRow, TrialStatus};
use tare_records::trial::TrialResult;
use tare_records::verdict::{Cause, Grade};

/// The keys that a cell has only if a trial records their cause. It always has all others.
pub(crate) const CELL_OPTIONAL: [&str; 10] = [
    "capacity",
    "churn",
    "core_to_core",
    "cost",
    "instrument",
    "latency_of_all",
    "overload",
    "saturation",
    "throughput_rps",
    "tls",
];

/// The kinds of one run, for trials without a mesh (`bare`) and with one (`meshed`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    found: BTreeSet<String>,
    /// Prefixes of the kinds whose cause no trial of the run records.
    uncaused: BTreeSet<String>,
}

impl Shape {
    /// The shape of a run directory. Panics if a kind is present without its cause, or absent
    /// although its cause is recorded.
    pub(crate) fn read(dir: &Path) -> Self {
        let summary: Value = read(&dir.join(layout::SUMMARY));
        let trials = dir.join(layout::TRIALS);
        let stored = summary["trials"].as_array().unwrap().iter().map(|row| {
            let dir = trials.join(row["dir"].as_str().unwrap());
            let files = std::fs::read_dir(&dir).unwrap();
            let names = files.map(|f| f.unwrap().file_name().into_string().unwrap());
            (read(&dir.join(layout::RESULT)), names.collect())
        });
        Self::of(&summary, &stored.collect::<Vec<_>>())
    }

    /// The shape of a summary, with the result and the file names of each of its trials.
    pub(crate) fn of(summary: &Value, stored: &[(TrialResult, Vec<String>)]) -> Self {
        let mut shape = Self {
            found: keys(summary),
            uncaused: BTreeSet::new(),
        };
        let typed: Summary = serde_json::from_value(summary.clone()).unwrap();
        // Present only if something failed, which a real run may have at any time.
        if shape.found.remove("failures") {
            let failed = |(r, _): &(TrialResult, _)| {
                let counts = r.load.as_ref().map(|l| l.counts);
                r.verdict.grade == Grade::Invalid
                    || counts.is_none_or(|c| c.error + c.timeout + c.in_flight + c.not_sent > 0)
            };
            assert!(stored.iter().any(failed), "{:#?}", typed.failures);
        }
        let results: BTreeMap<u32, &TrialResult> =
            stored.iter().map(|(r, _)| (r.trial.index, r)).collect();
        for row in &typed.trials {
            match row.status {
                TrialStatus::Used => assert!(!has(row, Cause::Failure), "{row:#?}"),
                TrialStatus::Failed => assert!(has(row, Cause::Failure), "{row:#?}"),
                TrialStatus::LeftOut | TrialStatus::RunAgain => {
                    let mut block = typed.trials.iter().filter(|t| t.block == row.block);
                    assert!(block.any(|t| has(t, Cause::Exogenous)), "{row:#?}");
                }
                TrialStatus::Excluded | TrialStatus::Unplanned => panic!("{row:#?}"),
            }
            assert_eq!(
                row.verdict.reasons.is_empty(),
                row.verdict.grade == Grade::Valid
            );
        }
        let mut causes = Causes::default();
        for (cell, keyed) in typed.cells.iter().zip(summary["cells"].as_array().unwrap()) {
            let used = Used::new(&typed, cell, &results);
            shape.cell(cell, keyed, &used, &mut causes);
            shape.ratios(&typed, cell, &used, &mut causes);
        }
        for ((result, files), row) in stored.iter().zip(summary["trials"].as_array().unwrap()) {
            assert_eq!(row["index"], result.trial.index);
            let kind = kind(&result.trial.mesh.name);
            causes.note(kind, "trial latency.hlog", result.load.is_some());
            let all = keys(row).into_iter().chain(files.iter().cloned());
            shape
                .found
                .extend(all.map(|name| format!("{kind} trial {name}")));
        }
        shape.uncaused = causes.never();
        shape
    }

    fn cell(&mut self, cell: &Cell, keyed: &Value, used: &Used<'_>, causes: &mut Causes) {
        let kind = kind(&cell.mesh);
        let who = format!("{} at {}", cell.mesh, cell.load);
        let mut add = |part: &str, name: &str| self.found.insert(format!("{kind} {part} {name}"));
        for key in keys(keyed) {
            add("cell", &key);
        }
        for (key, caused) in used.optional(cell) {
            assert_eq!(keyed.get(key).is_some(), caused, "{who}: {key}");
            causes.note(kind, &format!("cell {key}"), caused);
        }
        for figure in &cell.latency {
            add("latency", figure.name.id());
        }
        let answered = used.any(|r| r.load.as_ref().is_some_and(|l| l.latency_ns.count > 0));
        assert_eq!(cell.latency.is_empty(), !answered, "{who}: latency");
        causes.note(kind, "latency ", answered);
        let planes = keys(&keyed["planes"]);
        assert_eq!(planes, used.planes(), "{who}: planes");
        for plane in &planes {
            add("plane", plane);
        }
        causes.note(kind, "plane ", used.any(|r| r.resources.is_some()));
    }

    /// The figures that meshes are compared by, against the baseline.
    fn ratios(&mut self, summary: &Summary, cell: &Cell, used: &Used<'_>, causes: &mut Causes) {
        if cell.mesh == summary.baseline {
            return;
        }
        let kind = kind(&cell.mesh);
        let with_baseline = |c: &&MeshComparison| {
            c.mesh == cell.mesh && c.reference == summary.baseline && c.load == cell.load
        };
        let found = summary.comparisons.iter().find(with_baseline);
        let blocks = found.map_or(&[][..], |c| &c.blocks);
        assert_eq!(
            blocks, used.blocks,
            "{}: blocks in common with the baseline",
            cell.mesh
        );
        causes.note(kind, "ratio ", !used.blocks.is_empty());
        for ratio in found.iter().flat_map(|c| &c.ratios) {
            self.found.insert(format!("{kind} ratio {}", ratio.what));
        }
    }

    /// The kinds that this run has and `other` lacks although it records their cause.
    pub(crate) fn beyond<'a>(&'a self, other: &Self) -> Vec<&'a str> {
        let lacks = |kind: &&String| !other.found.contains(*kind) && !other.excuses(kind);
        let all = self.found.iter().filter(lacks);
        all.map(String::as_str).collect()
    }

    /// Those of `kinds` whose cause both runs record.
    pub(crate) fn caused_in_both<'a>(&self, other: &Self, kinds: &[&'a str]) -> Vec<&'a str> {
        let all = kinds.iter().copied();
        all.filter(|kind| !self.excuses(kind) && !other.excuses(kind))
            .collect()
    }

    fn excuses(&self, kind: &str) -> bool {
        self.uncaused.iter().any(|start| kind.starts_with(start))
    }
}

/// Prefixes of kinds, and whether any trial records their cause.
#[derive(Default)]
struct Causes(BTreeMap<String, bool>);

impl Causes {
    fn note(&mut self, kind: &str, start: &str, caused: bool) {
        *self.0.entry(format!("{kind} {start}")).or_default() |= caused;
    }

    fn never(self) -> BTreeSet<String> {
        let never = self.0.into_iter().filter(|(_, caused)| !caused);
        never.map(|(start, _)| start).collect()
    }
}

/// The results that the figures of a cell are made of.
struct Used<'a> {
    results: Vec<&'a TrialResult>,
    /// Blocks in which the baseline has a used trial, too; none for the baseline itself.
    blocks: Vec<u32>,
    has_prices: bool,
}

impl<'a> Used<'a> {
    fn new(summary: &Summary, cell: &Cell, results: &BTreeMap<u32, &'a TrialResult>) -> Self {
        let of = |mesh: &str| {
            let here = summary
                .trials
                .iter()
                .filter(move |t| t.status == TrialStatus::Used && t.load == cell.load);
            let mesh = mesh.to_owned();
            here.filter(move |t| t.mesh == mesh)
        };
        let used: Vec<u32> = of(&cell.mesh).map(|t| t.index).collect();
        assert_eq!(cell.trials_used, used, "{} at {}", cell.mesh, cell.load);
        let base: BTreeSet<u32> = of(&summary.baseline).map(|t| t.block).collect();
        let common = of(&cell.mesh).map(|t| t.block).filter(|b| base.contains(b));
        let mut blocks: Vec<u32> = common.collect();
        blocks.sort_unstable();
        if cell.mesh == summary.baseline {
            blocks.clear();
        }
        Self {
            results: used.iter().map(|index| results[index]).collect(),
            blocks,
            has_prices: summary.setup.prices.is_some(),
        }
    }

    fn any(&self, has: impl Fn(&TrialResult) -> bool) -> bool {
        self.results.iter().any(|r| has(r))
    }

    fn planes(&self) -> BTreeSet<String> {
        let sampled = self.results.iter().filter_map(|r| r.resources.as_ref());
        let planes = sampled.flat_map(|r| r.planes.iter().filter(|(_, p)| p.processes > 0));
        let named = planes.map(|(plane, _)| serde_json::to_value(plane).unwrap());
        named.map(|v| v.as_str().unwrap().to_owned()).collect()
    }

    /// Whether a used trial records the cause of each of [`CELL_OPTIONAL`].
    fn optional(&self, cell: &Cell) -> [(&'static str, bool); CELL_OPTIONAL.len()] {
        let load = |has: fn(&tare_records::load::LoadResult) -> bool| {
            self.any(|r| r.load.as_ref().is_some_and(has))
        };
        let proxies = ["data_plane", "control_plane"];
        let is_proxied = self.planes().iter().any(|p| proxies.contains(&p.as_str()));
        let causes = [
            self.any(|r| r.trial.load.capacity().is_some()),
            self.any(|r| r.trial.load.churn.is_some()),
            load(|l| !l.generator.core_to_core_ns.is_empty()),
            self.has_prices && is_proxied && cell.achieved_rps.is_some_and(|r| r > 0.0),
            load(|l| l.instrument_error.is_some()),
            cell.counts.planned > cell.counts.ok,
            self.any(|r| r.trial.load.overload().is_some()),
            self.any(|r| {
                let mut reasons = r.verdict.reasons.iter();
                reasons.any(|f| f.grade == Grade::Invalid && f.reason.is_saturation())
            }),
            self.any(|r| r.trial.load.is_closed()),
            load(|l| l.tls.is_some()),
        ];
        std::array::from_fn(|i| (CELL_OPTIONAL[i], causes[i]))
    }
}

/// Whether a trial has a finding of this cause that is above its threshold for invalid trials.
fn has(row: &TrialRow, cause: Cause) -> bool {
    let mut reasons = row.verdict.reasons.iter();
    reasons.any(|f| f.grade == Grade::Invalid && f.reason.cause() == cause)
}

fn kind(mesh: &str) -> &'static str {
    match mesh {
        "bare" => "bare",
        _ => "meshed",
    }
}

pub(crate) fn keys(of: &Value) -> BTreeSet<String> {
    of.as_object().unwrap().keys().cloned().collect()
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
