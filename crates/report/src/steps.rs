//! The steps of a search for the capacity: checks that they are complete, and that the rate of the trial
//! follows from them.

use std::io::BufReader;
use std::path::Path;

use tare_analysis::search::{STEPS_MAX, Search};
use tare_files::open_without_links;
use tare_plan::Load;
use tare_records::capacity::{Capacity, CapacityStep};
use tare_records::layout;
use tare_stats::search::RateEstimate;

use crate::store::next_line;
use crate::text::printable;

/// Largest relative difference of two rates that are computed from the same steps.
const ROUNDING: f64 = 1e-6;

/// Checks the steps in the trial's directory against its result.
pub(crate) fn verify(dir: &Path, load: &Load, capacity: &Capacity) -> Result<(), String> {
    let in_file = |found: &str| format!("{}: {found}", layout::STEPS);
    let steps = read(&dir.join(layout::STEPS)).map_err(|found| in_file(&found))?;
    let count = steps.len();
    if count != capacity.steps as usize {
        let expected = capacity.steps;
        return Err(in_file(&format!(
            "found {count} steps, expected {expected}"
        )));
    }
    let search = Search::replay(load, steps.into_iter().map(|s| s.step));
    match search.is_some_and(|s| same(s.found(), capacity.found)) {
        true => Ok(()),
        false => Err(format!("{} and {} differ", layout::STEPS, layout::RESULT)),
    }
}

fn same(a: Option<RateEstimate>, b: Option<RateEstimate>) -> bool {
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < ROUNDING;
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            near(a.rate_rps, b.rate_rps)
                && near(a.low_rps, b.low_rps)
                && near(a.high_rps, b.high_rps)
        }
        _ => false,
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<CapacityStep>, String> {
    let mut reader = BufReader::new(open_without_links(path).map_err(|e| e.to_string())?);
    let (mut line, mut steps) = (String::new(), Vec::new());
    while next_line(&mut reader, &mut line).map_err(|e| e.to_string())? {
        if steps.len() >= STEPS_MAX {
            return Err(format!("more than {STEPS_MAX} steps"));
        }
        let step = serde_json::from_str(&line).map_err(|e| printable(&e.to_string()))?;
        steps.push(step);
    }
    Ok(steps)
}
