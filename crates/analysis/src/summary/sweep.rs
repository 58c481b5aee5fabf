//! The factors of a sweep: the figures at each level, the lines through them, and sentences about the
//! lines.

mod answers;
mod fits;

use std::collections::BTreeMap;

use tare_plan::{Factor, FactorKind, Figure, Level, Levels, Plan, Sweep};
use tare_records::summary::{
    FactorSummary, MeshComparison, Ratio, Slice, SweepFigure, SweepLine, SweepPoint, SweepRatio,
    SweepSummary,
};

use super::cell::estimate;
use crate::compare::figures::{comparable, value};
use crate::compare::ratio::Question;
use crate::compare::stopping;
use crate::trials::{self, Trial};

/// The figures of a point. The mean latency is not compared: it is there because each part of the path adds to it, and
/// percentiles have no such sums.
const FIGURES: [Figure; 10] = [
    Figure::Mean,
    Figure::P50,
    Figure::P99,
    Figure::Cpu,
    Figure::ProxyCpu,
    Figure::Memory,
    Figure::Convergence,
    Figure::PodReady,
    Figure::ControlCpu,
    Figure::ControlMemory,
];

/// Mesh and load with a combination of levels.
struct Place<'a> {
    /// Name of the mesh in the plan file.
    base: &'a str,
    mesh: &'a str,
    load: &'a str,
    levels: Levels,
}

struct Analysis<'a, 'b> {
    plan: &'a Plan,
    trials: &'a [Trial<'b>],
    comparisons: &'a [MeshComparison],
    places: Vec<Place<'a>>,
}

/// The factors of the plan's sweep; `None` if nothing varies.
pub(super) fn of(
    plan: &Plan,
    trials: &[Trial<'_>],
    comparisons: &[MeshComparison],
) -> Option<SweepSummary> {
    let sweep = plan.sweep.as_ref()?;
    let analysis = Analysis {
        plan,
        trials,
        comparisons,
        places: places(plan, sweep),
    };
    Some(SweepSummary {
        design: sweep.design,
        factors: sweep.factors.iter().map(|f| analysis.factor(f)).collect(),
    })
}

fn places<'a>(plan: &'a Plan, sweep: &'a Sweep) -> Vec<Place<'a>> {
    let mut all = Vec::new();
    let mut meshes: Vec<&str> = plan.meshes.iter().map(|m| m.name.as_str()).collect();
    meshes.sort_by_key(|name| *name != plan.baseline);
    for mesh in meshes {
        let swept = sweep.meshes.get(mesh);
        for load in &plan.loads {
            let mut levels = sweep.loads.get(&load.name).cloned().unwrap_or_default();
            levels.extend(swept.into_iter().flat_map(|s| s.levels.clone()));
            all.push(Place {
                base: swept.map_or(mesh, |s| &s.mesh),
                mesh,
                load: &load.name,
                levels,
            });
        }
    }
    all
}

/// The levels without that of one factor.
fn without(levels: &Levels, kind: FactorKind) -> Levels {
    let mut others = levels.clone();
    others.remove(&kind);
    others
}

impl Analysis<'_, '_> {
    fn factor(&self, factor: &Factor) -> FactorSummary {
        let kind = factor.kind;
        let slices: Vec<Slice> = self
            .slices(kind)
            .iter()
            .map(|others| self.slice(factor, others))
            .filter(|slice| !slice.lines.is_empty())
            .collect();
        FactorSummary {
            kind,
            title: kind.title().to_owned(),
            unit: kind.unit().to_owned(),
            levels: factor.levels.clone(),
            answers: slices
                .first()
                .map_or_else(Vec::new, |s| answers::of(self.plan, kind, s)),
            slices,
        }
    }

    /// The combinations of levels of the other factors, the anchors first. A mesh without settings that
    /// vary belongs to all levels of the settings.
    fn slices(&self, kind: FactorKind) -> Vec<Levels> {
        let varied = self.places.iter().filter(|p| p.levels.contains_key(&kind));
        let factors = varied.clone().map(|p| p.levels.len()).max().unwrap_or(0);
        let mut all: Vec<Levels> = Vec::new();
        for place in varied.filter(|p| p.levels.len() == factors) {
            let others = without(&place.levels, kind);
            if !all.contains(&others) {
                all.push(others);
            }
        }
        all
    }

    fn slice(&self, factor: &Factor, others: &Levels) -> Slice {
        let matches = |p: &&Place<'_>| {
            let own = without(&p.levels, factor.kind);
            p.levels.contains_key(&factor.kind)
                && own
                    .iter()
                    .all(|(kind, level)| others.get(kind) == Some(level))
        };
        let here: Vec<&Place<'_>> = self.places.iter().filter(matches).collect();
        let mut bases: Vec<&str> = Vec::new();
        for place in &here {
            if !bases.contains(&place.base) {
                bases.push(place.base);
            }
        }
        let groups = self.plan.block_groups();
        let lines: Vec<Measured<'_, '_>> = bases
            .into_iter()
            .map(|base| {
                let of_base = here.iter().copied().filter(|p| p.base == base);
                self.measured(factor, base, &of_base.collect::<Vec<_>>())
            })
            .filter(|line| line.points.len() > 1)
            .collect();
        let confidence = stopping::level(self.plan).different;
        let baseline = fits::baseline(self.plan);
        let baseline = lines.iter().find(|l| l.base == baseline);
        let at = others
            .iter()
            .map(|(kind, level)| format!("{}={level}", kind.short()));
        Slice {
            at: at.collect::<Vec<_>>().join(","),
            lines: lines
                .iter()
                .map(|line| SweepLine {
                    mesh: line.base.to_owned(),
                    points: line.points.iter().map(|p| self.point(line, p)).collect(),
                    fits: fits::of(factor.kind, line, baseline, &groups, confidence),
                })
                .collect(),
        }
    }

    /// The levels at which a mesh has used trials.
    fn measured<'s>(
        &'s self,
        factor: &'s Factor,
        base: &'s str,
        places: &[&'s Place<'s>],
    ) -> Measured<'s, 's> {
        let point = |level: &'s Level| {
            let has = |p: &&&Place<'_>| p.levels.get(&factor.kind) == Some(&level.label);
            let place = places.iter().find(has)?;
            let used = trials::used(self.trials, place.mesh, place.load);
            let by_block: BTreeMap<u32, &Trial<'_>> = used
                .into_iter()
                .map(|t| (t.result.trial.block, t))
                .collect();
            (!by_block.is_empty()).then_some(Point {
                level,
                mesh: place.mesh,
                load: place.load,
                trials: by_block,
            })
        };
        Measured {
            base,
            anchor: &factor.levels[0].label,
            points: factor.levels.iter().filter_map(point).collect(),
        }
    }

    fn point(&self, line: &Measured<'_, '_>, point: &Point<'_, '_>) -> SweepPoint {
        let confidence = stopping::level(self.plan).different;
        let anchor = line.points.iter().find(|p| p.level.label == line.anchor);
        let anchor = anchor.filter(|a| a.level.label != point.level.label);
        let figure = |figure: Figure| {
            let runs: Vec<f64> = point
                .trials
                .values()
                .filter_map(|t| value(figure, t))
                .collect();
            Some(SweepFigure {
                what: figure,
                unit: figure.unit(),
                estimate: estimate(&runs, confidence)?,
                to_baseline: self.to_baseline(figure, point),
                to_anchor: anchor
                    .filter(|_| figure != Figure::Mean)
                    .and_then(|anchor| self.to_anchor(figure, point, anchor)),
            })
        };
        SweepPoint {
            level: point.level.label.clone(),
            value: point.level.value,
            mesh: point.mesh.to_owned(),
            load: point.load.to_owned(),
            figures: FIGURES.into_iter().filter_map(figure).collect(),
        }
    }

    fn to_baseline(&self, what: Figure, point: &Point<'_, '_>) -> Option<SweepRatio> {
        let same = |c: &&MeshComparison| {
            c.mesh == point.mesh && c.reference == self.plan.baseline && c.load == point.load
        };
        let comparison = self.comparisons.iter().find(same)?;
        comparison.ratio(what).map(ratio)
    }

    fn to_anchor(
        &self,
        figure: Figure,
        point: &Point<'_, '_>,
        anchor: &Point<'_, '_>,
    ) -> Option<SweepRatio> {
        let question = Question {
            what: figure,
            margin: self.plan.margins.of(figure),
            level: stopping::level(self.plan),
        };
        let pair = |(block, trial): (&u32, &&Trial<'_>)| {
            let other = anchor.trials.get(block)?;
            let pair = (value(figure, trial)?, value(figure, other)?);
            comparable(figure, trial, other).then_some(pair)
        };
        let blocks: Vec<(f64, f64)> = point.trials.iter().filter_map(pair).collect();
        question.paired(&blocks).as_ref().map(ratio)
    }
}

fn ratio(ratio: &Ratio) -> SweepRatio {
    SweepRatio {
        value: ratio.value,
        low: ratio.low,
        high: ratio.high,
        outcome: ratio.outcome,
    }
}

/// A mesh over the levels of a factor, with its trials.
struct Measured<'a, 'b> {
    base: &'a str,
    /// Label of the anchor.
    anchor: &'a str,
    points: Vec<Point<'a, 'b>>,
}

/// A mesh at a level.
struct Point<'a, 'b> {
    level: &'a Level,
    mesh: &'a str,
    load: &'a str,
    /// The used trials by block.
    trials: BTreeMap<u32, &'a Trial<'b>>,
}
