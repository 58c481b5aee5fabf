//! Checks the cost of each mesh in a summary against the trials of the run, however many of them
//! are usable.

#![allow(clippy::unwrap_used, reason = "a test")]

use tare_model::summary::{Cell, Difference, Distinction, Summary};
use tare_model::worker::Plane;

/// Student's t at 95 %, two-sided, of 2, 3 and 4 pairs.
const STUDENT: [f64; 3] = [12.706_205, 4.302_653, 3.182_446];

/// Panics unless the summary has these meshes, `bare` first, under one load; the data plane costs
/// more than zero in each pair of usable trials; the interval over the pairs is Student's; and the
/// outcome follows from the interval.
pub(crate) fn weighed(summary: &Summary, expected: &[&str]) {
    let meshes: Vec<&str> = summary.cells.iter().map(|c| c.mesh.as_str()).collect();
    assert_eq!(meshes, expected);
    for cell in &summary.cells {
        assert!(cell.counts.identity_holds(), "{:?}", cell.counts);
        let is_proxied = cell.mesh != "bare" && !cell.trials_used.is_empty();
        assert_eq!(cell.planes.contains_key(&Plane::DataPlane), is_proxied);
        if cell.mesh == "bare" {
            assert!(cell.overhead.is_none());
            continue;
        }
        for what in ["cpu", "memory"] {
            above_zero(cell, what, common_blocks(summary, &cell.mesh));
        }
    }
}

/// Blocks in which the trials of a mesh and of `bare` are both usable.
fn common_blocks(summary: &Summary, mesh: &str) -> usize {
    let of = |mesh: &str, block: u32| {
        let mut used = summary.trials.iter().filter(|t| t.used);
        used.any(|t| t.mesh == mesh && t.block == block)
    };
    let blocks = 0..summary.setup.repeats;
    blocks.filter(|b| of(mesh, *b) && of("bare", *b)).count()
}

fn above_zero(cell: &Cell, what: &str, blocks: usize) {
    let differences = cell.overhead.iter().flat_map(|o| &o.resources);
    let found: Vec<&Difference> = differences.filter(|d| d.what == what).collect();
    // Without a block in which both are usable, nothing is compared.
    assert_eq!(found.len(), blocks.min(1), "{}: {what}", cell.mesh);
    let Some(found) = found.first() else { return };
    assert_eq!(found.pairs.len(), blocks, "{found:#?}");
    assert!(
        found.pairs.iter().all(|p| *p > 0.0),
        "{}: {found:#?}",
        cell.mesh
    );
    let pairs = blocks as f64;
    let mean = found.pairs.iter().sum::<f64>() / pairs;
    assert!(is_near(found.value, mean), "{found:#?}");
    let Some(t) = blocks.checked_sub(2).map(|i| STUDENT[i]) else {
        assert_eq!(
            (found.low, found.distinction),
            (None, Distinction::TooFewBlocks)
        );
        return;
    };
    let squares: f64 = found.pairs.iter().map(|p| (p - mean).powi(2)).sum();
    let low = mean - t * (squares / (pairs - 1.0) / pairs).sqrt();
    assert!(
        is_near(found.low.unwrap() + mean, low + mean),
        "{low}: {found:#?}"
    );
    let is_clear = found.low.unwrap() > 0.0;
    assert_eq!(
        found.distinction == Distinction::Higher,
        is_clear,
        "{found:#?}"
    );
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 1e-5
}
