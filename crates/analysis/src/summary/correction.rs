//! Many comparisons in one report: some come out as different by chance alone.

use tare_model::summary::{Cell, Difference, Distinction};

use tare_stats::hypothesis::holm;

/// Corrects the p-values over all stated comparisons of latency, and over all of
/// resources by themselves, each held to `level`. Returns how many of either there are.
pub(super) fn apply(cells: &mut [Cell], level: f64) -> (usize, usize) {
    let latencies = cells
        .iter_mut()
        .filter_map(|c| c.overhead.as_mut())
        .flat_map(|o| o.latency.iter_mut())
        .filter(|d| d.supported);
    let latencies = family(latencies, level);
    let resources = cells
        .iter_mut()
        .filter_map(|c| c.overhead.as_mut())
        .flat_map(|o| o.resources.iter_mut());
    (latencies, family(resources, level))
}

fn family<'a>(differences: impl Iterator<Item = &'a mut Difference>, level: f64) -> usize {
    let mut compared: Vec<&mut Difference> =
        differences.filter(|d| d.inference.is_some()).collect();
    let own: Vec<f64> = compared
        .iter()
        .filter_map(|d| d.inference.as_ref().map(|i| i.p))
        .collect();
    for (difference, p_holm) in compared.iter_mut().zip(holm(&own)) {
        let distinction = difference.distinction;
        if let Some(inference) = &mut difference.inference {
            inference.p_holm = p_holm;
            inference.corrected = if p_holm < level {
                distinction
            } else {
                Distinction::NotDistinguishable
            };
        }
    }
    own.len()
}
