//! What the lines of a factor show, in sentences.

use tare_plan::mesh::DataPlaneKind;
use tare_plan::{FactorKind, Figure, Plan};
use tare_records::summary::{Estimate, Fit, Slice};

use crate::figures;

/// The figures of the sentences, in their order.
const FIGURES: [Figure; 3] = [Figure::Cpu, Figure::Mean, Figure::Memory];

/// One sentence for each figure with a line: the meshes in the order of the plan, the baseline last.
pub(super) fn of(plan: &Plan, kind: FactorKind, slice: &Slice) -> Vec<String> {
    let Some(each) = kind.each() else {
        return Vec::new();
    };
    let sentence = |what: Figure| {
        let fit = |line: &'_ tare_records::summary::SweepLine| {
            let fit = line.fits.iter().find(|f| f.what == what)?;
            Some((line.mesh.clone(), fit.clone()))
        };
        let mut fits: Vec<(String, Fit)> = slice.lines.iter().filter_map(fit).collect();
        let baseline = super::fits::baseline(plan);
        fits.sort_by_key(|(mesh, _)| mesh == baseline);
        let parts: Vec<String> = fits
            .iter()
            .map(|(mesh, fit)| part(plan, mesh, fit))
            .collect();
        let figure = figure(what, kind);
        let list = list(&parts)?;
        let bent: Vec<&str> = fits
            .iter()
            .filter(|(_, f)| f.curved)
            .map(|(m, _)| m.as_str())
            .collect();
        let bent = match bent.is_empty() {
            true => String::new(),
            false => format!(
                " The levels are not on a straight line with {}: this is an average over the range.",
                bent.join(", ")
            ),
        };
        Some(format!("{each} adds {figure}: {list}.{bent}"))
    };
    FIGURES.into_iter().filter_map(sentence).collect()
}

fn figure(what: Figure, kind: FactorKind) -> &'static str {
    match (what, kind) {
        (Figure::Cpu, FactorKind::RequestsPerConnection) => "CPU time",
        (Figure::Cpu, _) => "CPU time per request",
        _ => what.phrase(),
    }
}

fn part(plan: &Plan, mesh: &str, fit: &Fit) -> String {
    let bare = |m: &&tare_plan::mesh::Mesh| m.name == mesh && m.data_plane == DataPlaneKind::None;
    let with = match plan.meshes.iter().find(bare) {
        Some(_) => "without a mesh".to_owned(),
        None => format!("with {mesh}"),
    };
    let resolved = fit
        .slope
        .low
        .zip(fit.slope.high)
        .is_some_and(|(low, high)| low > 0.0 || high < 0.0);
    let Estimate {
        value, low, high, ..
    } = fit.slope;
    let amount = figures::amount_interval(value, low, high, fit.unit);
    match (resolved, low) {
        (true, _) => format!("{amount} {with}"),
        (false, None) => format!("{amount} in a single block {with}"),
        (false, Some(_)) => {
            let interval = amount
                .interval
                .map_or_else(String::new, |i| format!("{i}, "));
            format!("{} ({interval}not resolved) {with}", amount.value)
        }
    }
}

fn list(parts: &[String]) -> Option<String> {
    let (last, rest) = parts.split_last()?;
    Some(match rest {
        [] => last.clone(),
        _ => format!("{} and {last}", rest.join(", ")),
    })
}
