//! Lines through the levels of a factor: one in each block, averaged over the blocks.

use std::collections::BTreeMap;

use tare_model::plan::{FactorKind, Plan};
use tare_model::summary::{Estimate, Fit, Residual};

use super::{MEAN, Measured};
use crate::compare::figures::{FIGURES, Figure};
use tare_stats::effect::mean_interval;
use tare_stats::line::{Line, lack_of_fit};

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
    let figures = FIGURES
        .iter()
        .filter(|f| f.what == "cpu" || (f.what == "memory" && of_memory));
    let fit = |figure: &Figure| {
        let lines = Lines::new(figure, line)?;
        let baseline = baseline.and_then(|b| Lines::new(figure, b));
        lines.fit(figure, baseline.as_ref(), confidence)
    };
    std::iter::once(&MEAN)
        .chain(figures)
        .filter_map(fit)
        .collect()
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

/// The line of each block.
struct Lines<'a> {
    levels: Vec<&'a str>,
    lines: BTreeMap<u32, Line>,
    /// Residuals of the blocks, by level.
    residuals: Vec<Vec<f64>>,
    /// Largest figure.
    scale: f64,
}

impl<'a> Lines<'a> {
    /// The lines of the blocks that have the figure at every level; `None` without one.
    fn new(figure: &Figure, line: &Measured<'a, '_>) -> Option<Self> {
        let points = &line.points;
        let mut found = Self {
            levels: points.iter().map(|p| p.level.label.as_str()).collect(),
            lines: BTreeMap::new(),
            residuals: vec![Vec::new(); points.len()],
            scale: 0.0,
        };
        for block in points.first()?.trials.keys() {
            let xy = |p: &super::Point<'_, '_>| {
                Some((p.level.value?, figure.value(p.trials.get(block)?)?))
            };
            let Some(measured) = points.iter().map(xy).collect::<Option<Vec<_>>>() else {
                continue;
            };
            let fitted = Line::least_squares(&measured)?;
            for (level, (x, y)) in found.residuals.iter_mut().zip(&measured) {
                level.push(y - fitted.at(*x));
                found.scale = found.scale.max(y.abs());
            }
            found.lines.insert(*block, fitted);
        }
        (!found.lines.is_empty()).then_some(found)
    }

    fn fit(&self, figure: &Figure, baseline: Option<&Self>, confidence: f64) -> Option<Fit> {
        let values = |of: fn(&Line) -> f64| self.lines.values().map(of).collect::<Vec<_>>();
        let over = baseline.map_or_else(Vec::new, |baseline| {
            let slope =
                |(block, line): (&u32, &Line)| Some(line.slope - baseline.lines.get(block)?.slope);
            self.lines.iter().filter_map(slope).collect()
        });
        let lack_of_fit_p = lack_of_fit(&self.residuals, self.scale);
        let residual = |(level, runs): (&&str, &Vec<f64>)| {
            let residual: Estimate = estimate(runs, confidence)?;
            let level = (*level).to_owned();
            Some(Residual { level, residual })
        };
        let residuals = self.levels.iter().zip(&self.residuals);
        Some(Fit {
            what: figure.what.to_owned(),
            unit: figure.unit.to_owned(),
            slope: estimate(&values(|l| l.slope), confidence)?,
            intercept: estimate(&values(|l| l.at_zero), confidence)?,
            over_baseline: estimate(&over, confidence),
            residuals: match self.levels.len() {
                ..=2 => Vec::new(),
                _ => residuals.filter_map(residual).collect(),
            },
            lack_of_fit_p,
            curved: lack_of_fit_p.is_some_and(|p| p < CURVED_P),
        })
    }
}
