//! Compares the result of a load with the objectives that it must meet.

use tare_plan::load::Measure;
use tare_plan::units::format_duration_ns;
use tare_records::load::{Counts, LoadResult};
use tare_stats::{Histogram, WireError};

pub use tare_plan::load::Objective;

/// Outcome of one objective for one result.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Whether the objective was met.
    pub met: bool,
    /// The measured figure, such as `p99 31.4 ms`.
    pub found: String,
}

/// Compares a result with an objective. Without ok responses, an objective for a latency is
/// missed.
///
/// # Errors
/// [`WireError`] when a histogram cannot be decoded.
pub fn judge(objective: &Objective, result: &LoadResult) -> Result<Judged, WireError> {
    let counts = &result.counts;
    let (name, bound) = (objective.name(), objective.bound());
    let percent = |share: f64| format!("{name} {:.3} %", share * 100.0);
    Ok(match objective.measure() {
        Measure::Errors => Judged {
            met: errors_meet(counts, bound),
            found: percent(failed_share(counts)),
        },
        Measure::Achieved => {
            let responses = result.rate.achieved * result.window_ns as f64 / 1e9;
            let share = responses / counts.planned.max(1) as f64;
            Judged {
                met: share > bound,
                found: percent(share),
            }
        }
        measure => {
            let latency = Histogram::from_wire(&result.histograms.latency)?;
            match latency_ns(measure, &latency) {
                None => Judged {
                    met: false,
                    found: format!("{name}: no ok response"),
                },
                Some(ns) => Judged {
                    met: ns < bound,
                    found: format!("{name} {}", format_duration_ns(ns as u64)),
                },
            }
        }
    })
}

/// Share of the planned requests that were not answered well, 0 to 1.
pub(crate) fn failed_share(counts: &Counts) -> f64 {
    let failed = counts.planned - counts.ok.min(counts.planned);
    failed as f64 / counts.planned.max(1) as f64
}

/// Whether the share of failed requests is below `bound`; no failure is below 0 %.
pub(crate) fn errors_meet(counts: &Counts, bound: f64) -> bool {
    let share = failed_share(counts);
    share < bound || (share == 0.0 && bound == 0.0)
}

/// The latency that a measure is about, in nanoseconds; `None` without responses, and for measures of
/// something else.
pub(crate) fn latency_ns(measure: Measure, latency: &Histogram) -> Option<f64> {
    if latency.is_empty() {
        return None;
    }
    match measure {
        Measure::Quantile(q) => Some(latency.quantile(q) as f64),
        Measure::Max => Some(latency.summary().max as f64),
        Measure::Mean => Some(latency.mean()),
        Measure::Errors | Measure::Achieved => None,
    }
}
