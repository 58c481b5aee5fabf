//! The meshes beyond the capacity: one table for each capacity that the rates are a share of.

use tare_analysis::{figures, summary::recovery_words};
use tare_records::summary::{CellOverload, Estimate, Summary};

use super::output::{BOLD, DIM, Output, PLAIN, estimate};
use crate::text::fit;
use crate::words;

/// Width of percentage and mesh.
const NAME: usize = 19;

/// Appends the tables; nothing for a plan without an overload.
pub(super) fn tables(out: &mut Output, summary: &Summary) {
    let tables = words::overloads(summary);
    for (heading, overloads) in &tables {
        out.painted(BOLD, heading);
        let head = format!(
            "{:<NAME$}{:>8}{:>24}{:>8}{:>9}  {}",
            "", "offered", "goodput, rps", "failed", "p99, ms", "recovery"
        );
        out.painted(DIM, &head);
        for (mesh, overload) in overloads {
            row(out, mesh, overload);
        }
        out.line("");
    }
    if !tables.is_empty() {
        out.wrapped(PLAIN, words::OVERLOAD, "", "");
        out.line("");
    }
}

fn row(out: &mut Output, mesh: &str, overload: &CellOverload) {
    let rps = |rate: f64| figures::count(rate.round() as u64);
    let value = |e: Option<&Estimate>, words: fn(f64) -> String| {
        e.map_or("-".to_owned(), |e| words(e.value))
    };
    let goodput = overload.goodput_rps.as_ref();
    out.line(&format!(
        "{:<NAME$}{:>8}{:>24}{:>8}{:>9}  {}",
        fit(&format!("{:>3} % {mesh}", overload.percent), NAME - 1),
        rps(overload.rate_rps),
        goodput.map_or("-".to_owned(), |e| estimate(e, rps)),
        value(overload.failed_share.as_ref(), words::share),
        value(overload.p99_ns.as_ref(), figures::ms),
        recovery_words(overload),
    ));
}
