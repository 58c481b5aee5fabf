//! Compares the result of a load with the objectives that it must meet.

use tare_model::load::{LoadResult, Measure};
use tare_model::units::format_duration_ns;
use tare_stats::{Histogram, WireError};

pub use tare_model::load::Objective;

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
    let of_planned = |n: f64| n / (counts.planned.max(1)) as f64;
    let (name, bound) = (objective.name(), objective.bound());
    let latency = match objective.measure() {
        Measure::Errors | Measure::Achieved => {
            let errors = objective.measure() == Measure::Errors;
            let share = if errors {
                of_planned((counts.planned - counts.ok.min(counts.planned)) as f64)
            } else {
                of_planned(result.rate.achieved * result.window_ns as f64 / 1e9)
            };
            return Ok(Judged {
                met: if errors {
                    share < bound || (share == 0.0 && bound == 0.0)
                } else {
                    share > bound
                },
                found: format!("{name} {:.3} %", share * 100.0),
            });
        }
        _ if result.latency_ns.count == 0 => {
            return Ok(Judged {
                met: false,
                found: format!("{name}: no ok response"),
            });
        }
        Measure::Quantile(q) => {
            Histogram::from_wire(&result.histograms.latency)?.quantile(q) as f64
        }
        Measure::Max => result.latency_ns.max as f64,
        Measure::Mean => result.latency_ns.mean,
    };
    Ok(Judged {
        met: latency < bound,
        found: format!("{name} {}", format_duration_ns(latency as u64)),
    })
}
