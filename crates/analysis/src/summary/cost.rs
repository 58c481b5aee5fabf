//! Monthly cost of a mesh, for the rate, the number of proxies and the prices of the plan.
//!
//! The data plane's CPU is the fixed cost of the proxies and that of each request; where idle proxies
//! were not sampled, it is assumed to be proportional to the rate. Its memory is assumed to be
//! proportional to the number of proxies. The control plane counts as it was measured. The cost is
//! computed for each trial, so that its interval is that of the sum. A rate far above the measured ones
//! has no cost, because nothing shows that the line continues.

use std::collections::BTreeMap;

use tare_plan::{Load, Plan, Prices};
use tare_records::summary::{Cell, Cost};
use tare_records::worker::Plane;

use super::cell::estimate;
use crate::figures;
use crate::trials::Trial;
use tare_stats::line::Line;

/// Hours in a month: 365.25 days divided by 12.
const HOURS: f64 = 730.5;
const GIB: f64 = 1_073_741_824.0;
/// Largest rate for which costs are computed, relative to the measured one.
const BEYOND_MAX: f64 = 2.0;

/// The cost of a cell; `None` without prices, without a sampled run, or for a mesh without
/// processes.
pub(super) fn of(
    prices: Option<&Prices>,
    used: &[&Trial<'_>],
    lines: &BTreeMap<u32, Line>,
    load: &Load,
    confidence: f64,
) -> Option<Cost> {
    let (prices, rate_rps) = prices.zip(load.rate_rps())?;
    let rps = prices.rps.unwrap_or(rate_rps);
    if rps > BEYOND_MAX * rate_rps {
        return None;
    }
    let mut proxies = prices.proxies;
    let (mut cores, mut gib, mut money) = (Vec::new(), Vec::new(), Vec::new());
    for trial in used {
        let achieved = trial
            .load
            .as_ref()
            .and_then(|_| trial.result.achieved_rps());
        let Some((resources, achieved)) = trial.resources().zip(achieved) else {
            continue;
        };
        let plane = |p| resources.planes.get(&p).cloned().unwrap_or_default();
        let (data, control) = (plane(Plane::DataPlane), plane(Plane::ControlPlane));
        if data.processes + control.processes == 0 || achieved <= 0.0 {
            continue;
        }
        let at = *proxies.get_or_insert(f64::from(data.processes));
        let share = at / f64::from(data.processes.max(1));
        let proxies = match lines.get(&trial.result.trial.block) {
            Some(line) => line.at_zero * share + line.slope * rps,
            None => data.cpu_cores / achieved * rps,
        };
        let c = proxies + control.cpu_cores;
        let g = (data.memory_mean_bytes * share + control.memory_mean_bytes) / GIB;
        cores.push(c);
        gib.push(g);
        money.push(HOURS * (c * prices.core_hour + g * prices.gib_hour));
    }
    Some(Cost {
        rps,
        proxies: proxies?,
        cores: estimate(&cores, confidence)?,
        memory_gib: estimate(&gib, confidence)?,
        per_month: estimate(&money, confidence)?,
    })
}

/// Why no cost is stated under some loads; `None` if it is stated under all.
pub(super) fn refused(plan: &Plan, cells: &[Cell]) -> Option<String> {
    let rps = plan.prices.as_ref()?.rps?;
    let rates = plan.loads.iter().filter_map(Load::rate_rps);
    let too_low = rates.filter(|rate_rps| rps > BEYOND_MAX * rate_rps);
    let highest = too_low.reduce(f64::max)?;
    cells.iter().any(|c| c.planes.contains_key(&Plane::DataPlane)).then(|| {
        format!(
            "no cost at {} from the load with {}: a rate more than {BEYOND_MAX} times the measured one \
             would be a guess; add a load with at least {}",
            figures::rate(rps),
            figures::rate(highest),
            figures::rate(rps / BEYOND_MAX)
        )
    })
}
