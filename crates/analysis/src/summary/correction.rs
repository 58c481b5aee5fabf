//! Correction for many comparisons in one report, some of which differ by chance alone.

use tare_model::summary::{Cell, Difference, Distinction, Inference, Overhead};

use crate::compare::figures::correct;

/// Corrects the p-values over all stated comparisons of latency, and separately over all of
/// resources, each for the level `level`. Returns the numbers of both kinds of comparisons.
pub(super) fn apply(cells: &mut [Cell], level: f64) -> (usize, usize) {
    let latencies = family(cells, level, |o| &mut o.latency);
    let resources = family(cells, level, |o| &mut o.resources);
    (latencies, resources)
}

/// Corrects one family of comparisons; returns their number.
fn family(cells: &mut [Cell], level: f64, of: fn(&mut Overhead) -> &mut Vec<Difference>) -> usize {
    let overheads = cells.iter_mut().filter_map(|c| c.overhead.as_mut());
    let differences = overheads.flat_map(of).filter(|d| d.supported);
    let mut inferences: Vec<(Distinction, &mut Inference)> = differences
        .filter_map(|d| Some((d.distinction, d.inference.as_mut()?)))
        .collect();
    let count = correct(inferences.iter_mut().map(|(_, i)| &mut i.p_holm));
    for (distinction, inference) in inferences {
        inference.corrected = if inference.p_holm < level {
            distinction
        } else {
            Distinction::NotDistinguishable
        };
    }
    count
}
