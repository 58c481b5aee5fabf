//! Lines through the levels of a factor: one in each block, averaged over the blocks. The blocks of an
//! extension have other levels than those before.

use std::collections::BTreeMap;

use tare_plan::{Blocks, FactorKind, Figure, Plan};
use tare_records::summary::{Estimate, Fit, Residual};

use super::Measured;
use crate::compare::figures::value;
use tare_stats::effect::mean_interval;
use tare_stats::line::{BlockLines, Line, lack_of_fit};
use tare_stats::weighted::weighted_mean_interval;

/// The p-value below which levels are not on a straight line.
const CURVED_P: f64 = 0.05;

/// Name in the plan file of the mesh that the others are compared with.
pub(super) fn baseline(plan: &Plan) -> &str {
    let swept = plan
        .sweep
        .as_ref()
        .and_then(|s| s.meshes.get(&plan.baseline));
    swept.map_or(&plan.baseline, |s| &s.mesh)
}

/// The lines of a mesh; empty if nothing is expected to be proportional to the factor.
pub(super) fn of(
    kind: FactorKind,
    line: &Measured<'_, '_>,
    baseline: Option<&Measured<'_, '_>>,
    groups: &[Blocks<'_>],
    confidence: f64,
) -> Vec<Fit> {
    if kind.each().is_none() {
        return Vec::new();
    }
    let baseline = baseline.filter(|b| b.base != line.base);
    let of_memory = matches!(
        kind,
        FactorKind::Depth | FactorKind::Width | FactorKind::Instances | FactorKind::Connections
    );
    let fit = |figure: Figure| {
        let lines = Lines::new(figure, groups, line)?;
        let baseline = baseline.and_then(|b| Lines::new(figure, groups, b));
        lines.fit(figure, baseline.as_ref(), confidence)
    };
    let memory = of_memory.then_some(Figure::Memory);
    let figures = [Figure::Mean, Figure::Cpu].into_iter().chain(memory);
    figures.filter_map(fit).collect()
}

/// The weighted mean of pairs of slope and weight, with its interval.
fn weighted(slopes: &[(f64, f64)], confidence: f64) -> Option<Estimate> {
    let (value, half) = weighted_mean_interval(slopes, confidence)?;
    Some(Estimate {
        value,
        low: half.map(|half| value - half),
        high: half.map(|half| value + half),
        runs: slopes.iter().map(|(slope, _)| *slope).collect(),
    })
}

/// The mean of values that may be negative, with Student's interval.
fn estimate(runs: &[f64], confidence: f64) -> Option<Estimate> {
    let (value, half) = mean_interval(runs, confidence)?;
    Some(Estimate {
        value,
        low: half.map(|half| value - half),
        high: half.map(|half| value + half),
        runs: runs.to_vec(),
    })
}

/// The lines of the blocks.
struct Lines<'a> {
    levels: Vec<&'a str>,
    blocks: BTreeMap<u32, BlockLine>,
    /// Largest figure.
    scale: f64,
}

/// The line of a block.
struct BlockLine {
    line: Line,
    /// The group of the block, whose blocks have the same levels.
    group: usize,
    /// The position of each level, and its measurement: the anchor first.
    points: Vec<(usize, (f64, f64))>,
}

impl BlockLine {
    /// Measured minus fitted at a level, with this slope through the middle of the block.
    fn residual(&self, (x, y): (f64, f64), slope: f64) -> f64 {
        let middle = self.line.at(self.line.middle);
        y - (middle + slope * (x - self.line.middle))
    }
}

impl<'a> Lines<'a> {
    /// The lines of the blocks that have the figure at each of their levels; `None` without one.
    fn new(figure: Figure, groups: &[Blocks<'_>], line: &Measured<'a, '_>) -> Option<Self> {
        let points = &line.points;
        let mut found = Self {
            levels: points.iter().map(|p| p.level.label.as_str()).collect(),
            blocks: BTreeMap::new(),
            scale: 0.0,
        };
        for (group, blocks) in groups.iter().enumerate() {
            let of_group = || {
                points
                    .iter()
                    .enumerate()
                    .filter(|(_, p)| blocks.has(p.load))
            };
            for block in blocks.range.clone() {
                let measured = |(i, p): (usize, &super::Point<'_, '_>)| {
                    Some((i, (p.level.value?, value(figure, p.trials.get(&block)?)?)))
                };
                let Some(points) = of_group().map(measured).collect::<Option<Vec<_>>>() else {
                    continue;
                };
                let xy: Vec<(f64, f64)> = points.iter().map(|(_, xy)| *xy).collect();
                let Some(line) = Line::least_squares(&xy) else {
                    continue;
                };
                let largest = xy.iter().map(|(_, y)| y.abs());
                found.scale = largest.fold(found.scale, f64::max);
                let of_block = BlockLine {
                    line,
                    group,
                    points,
                };
                found.blocks.insert(block, of_block);
            }
        }
        (!found.blocks.is_empty()).then_some(found)
    }

    fn fit(&self, figure: Figure, baseline: Option<&Self>, confidence: f64) -> Option<Fit> {
        let slope = |line: &Line| (line.slope, line.spread);
        let slopes: Vec<(f64, f64)> = self.blocks.values().map(|b| slope(&b.line)).collect();
        let over = baseline.map_or_else(Vec::new, |baseline| {
            let over = |(block, own): (&u32, &BlockLine)| {
                let (slope, weight) = slope(&own.line);
                Some((slope - baseline.blocks.get(block)?.line.slope, weight))
            };
            self.blocks.iter().filter_map(over).collect()
        });
        let slope = weighted(&slopes, confidence)?;
        let lack_of_fit_p = lack_of_fit(&self.groups(), self.scale);
        let residual = |(level, label): (usize, &&str)| {
            let residual: Estimate = estimate(&self.residuals(level, slope.value), confidence)?;
            let level = (*label).to_owned();
            Some(Residual { level, residual })
        };
        let residuals = self.levels.iter().enumerate();
        Some(Fit {
            what: figure,
            unit: figure.unit(),
            intercept: estimate(&self.intercepts(slope.value), confidence)?,
            over_baseline: weighted(&over, confidence),
            residuals: match self.levels.len() {
                ..=2 => Vec::new(),
                _ => residuals.filter_map(residual).collect(),
            },
            slope,
            lack_of_fit_p,
            curved: lack_of_fit_p.is_some_and(|p| p < CURVED_P),
        })
    }

    /// What each block contributes to the value at 0 of the line with the mean slope. The mean of these
    /// values is that of the middles of the blocks, taken to 0; the deviations contain those of the slope. With
    /// the same levels in all blocks, these are the values at 0 of the lines of the blocks.
    fn intercepts(&self, slope: f64) -> Vec<f64> {
        let lines = || self.blocks.values().map(|b| &b.line);
        let n = self.blocks.len() as f64;
        let middle = lines().map(|l| l.middle).sum::<f64>() / n;
        let total: f64 = lines().map(|l| l.spread).sum();
        let contribution = |l: &Line| {
            let through_middle = l.at(l.middle) - slope * l.middle;
            through_middle - n * l.spread / total * middle * (l.slope - slope)
        };
        lines().map(contribution).collect()
    }

    /// The residuals of a level: from the line of each block or, if blocks have different levels, from the line
    /// with the mean slope, because a block with few levels has no residuals of its own.
    fn residuals(&self, level: usize, slope: f64) -> Vec<f64> {
        let mut groups = self.blocks.values().map(|b| b.group);
        let first = groups.next();
        let different = groups.any(|g| Some(g) != first);
        let of_block = |block: &BlockLine| {
            let (_, xy) = block.points.iter().find(|(i, _)| *i == level)?;
            let slope = if different { slope } else { block.line.slope };
            Some(block.residual(*xy, slope))
        };
        self.blocks.values().filter_map(of_block).collect()
    }

    /// The lines as the test of a straight line needs them.
    fn groups(&self) -> Vec<BlockLines> {
        let mut groups: BTreeMap<usize, BlockLines> = BTreeMap::new();
        for block in self.blocks.values() {
            let group = groups.entry(block.group).or_default();
            group.slopes.push(block.line.slope);
            let anchor = block.points.first();
            group.anchors.extend(anchor.map(|(_, (_, y))| y));
            group.residuals.resize(block.points.len(), Vec::new());
            for (residuals, (_, xy)) in group.residuals.iter_mut().zip(&block.points) {
                residuals.push(block.residual(*xy, block.line.slope));
            }
        }
        groups.into_values().collect()
    }
}
