//! Words that the terminal and the page share.

use std::collections::BTreeSet;

use tare_analysis::{cores, figures};
use tare_model::summary::{Outlier, Summary, TrialRow};

/// Returns the heading of a load: its rate, and its name unless that is only the rate.
pub(crate) fn load_heading(name: &str, rate_rps: f64) -> String {
    let rate = figures::rate(rate_rps);
    if name.replace(' ', "") == rate.replace([' ', ','], "") {
        rate
    } else {
        format!("{name} ({rate})")
    }
}

/// Returns the number of blocks that have a trial of this kind: `3`, or `2 of 3`.
pub(crate) fn blocks(summary: &Summary, of: impl Fn(&&TrialRow) -> bool) -> String {
    let found: BTreeSet<u32> = summary.trials.iter().filter(of).map(|t| t.block).collect();
    let (found, planned) = (found.len(), summary.setup.repeats);
    if found == planned as usize {
        planned.to_string()
    } else {
        format!("{found} of {planned}")
    }
}

/// Describes the largest instrument error of all cells, without a full stop. `None` if no trial
/// compared its timestamps with the kernel's.
pub(crate) fn instrument_error(summary: &Summary) -> Option<String> {
    let instruments = || summary.cells.iter().filter_map(|c| c.instrument.as_ref());
    let largest = |name: &str| {
        let rows = instruments().flat_map(|i| &i.service_time);
        let supported = rows.filter(|q| q.name == name && q.supported);
        let ns = supported.map(|q| q.value_ns).max()?;
        Some(format!("{} at {name}", figures::duration(ns as f64)))
    };
    let found: Vec<String> = ["p50", "p99"].into_iter().filter_map(largest).collect();
    let sampled: u64 = instruments().map(|i| i.sampled).sum();
    (!found.is_empty()).then(|| {
        format!(
            "the generator adds at most {} to a service time, by kernel timestamps of {} requests",
            found.join(" and "),
            figures::count(sampled)
        )
    })
}

/// Describes how the time from core to core varied, without a full stop. `None` if it did not, or
/// was not measured.
pub(crate) fn core_distances(summary: &Summary) -> Option<String> {
    let cells = summary.cells.iter().filter_map(|c| c.core_to_core);
    let all = cores::over(cells.flat_map(|c| [c.least_ns, c.most_ns]))?;
    cores::moved(all.least_ns, all.most_ns).then(|| {
        format!(
            "a cache line took {} to {} from core to core where the generators ran; the cost of a \
             request on one machine grows with that time",
            figures::nanoseconds(all.least_ns),
            figures::nanoseconds(all.most_ns)
        )
    })
}

/// Describes how a trial differs from the others of its cell, without a full stop.
pub(crate) fn outlier(outlier: &Outlier) -> String {
    let cores = outlier.cores.map_or_else(String::new, |c| {
        format!(
            "; core to core took {}, in the other trials {}",
            figures::nanoseconds(c.here_ns),
            figures::nanoseconds(c.median_ns)
        )
    });
    format!(
        "{} is {}, the median of the trials is {}{cores}",
        outlier.what,
        figures::duration(outlier.value_ns as f64),
        figures::duration(outlier.median_ns as f64),
    )
}
