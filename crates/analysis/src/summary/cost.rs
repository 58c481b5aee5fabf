//! Monthly cost of a mesh, for the rate, the number of proxies and the prices of the plan.
//!
//! The data plane's CPU is assumed to be proportional to the rate, and its memory to the number of
//! proxies. The control plane counts as it was measured. The cost is computed for each run, so that
//! its interval is that of the sum.

use tare_model::plan::{Load, Prices};
use tare_model::summary::Cost;
use tare_model::worker::Plane;

use crate::compare::estimates::estimate;
use crate::trials::Trial;

/// Hours in a month: 365.25 days divided by 12.
const HOURS: f64 = 730.5;
const GIB: f64 = 1_073_741_824.0;

/// The cost of a cell; `None` without prices, without a sampled run, or for a mesh without
/// processes.
pub(super) fn of(
    prices: Option<&Prices>,
    used: &[&Trial<'_>],
    load: &Load,
    confidence: f64,
) -> Option<Cost> {
    let prices = prices?;
    let rps = prices.rps.unwrap_or(load.rate_rps);
    let mut proxies = prices.proxies;
    let (mut cores, mut gib, mut money) = (Vec::new(), Vec::new(), Vec::new());
    for trial in used {
        let Some((resources, decoded)) = trial.resources().zip(trial.load.as_ref()) else {
            continue;
        };
        let plane = |p| resources.planes.get(&p).cloned().unwrap_or_default();
        let (data, control) = (plane(Plane::DataPlane), plane(Plane::ControlPlane));
        let achieved = decoded.result.rate.achieved;
        if data.processes + control.processes == 0 || achieved <= 0.0 {
            continue;
        }
        let at = *proxies.get_or_insert(f64::from(data.processes));
        let share = at / f64::from(data.processes.max(1));
        let c = data.cpu_cores / achieved * rps + control.cpu_cores;
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
