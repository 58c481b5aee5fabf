//! Checks the cost of each mesh in a summary against the trials of the run, however many of them
//! are usable.

#![allow(clippy::unwrap_used, reason = "a test")]

use tare_plan::Figure;
use tare_records::summary::{Outcome, Ratio, Summary, TrialStatus};
use tare_records::worker::Plane;

/// Student's t at 95 %, two-sided, of 2, 3 and 4 blocks.
const STUDENT: [f64; 3] = [12.706_205, 4.302_653, 3.182_446];

/// Panics unless the summary has these meshes, `bare` first, under one load; the proxies of each mesh
/// used CPU; the interval of a ratio over the blocks is Student's; and the outcome follows from it.
pub(crate) fn weighed(summary: &Summary, expected: &[&str]) {
    let meshes: Vec<&str> = summary.cells.iter().map(|c| c.mesh.as_str()).collect();
    assert_eq!(meshes, expected);
    for cell in &summary.cells {
        assert!(cell.counts.identity_holds(), "{:?}", cell.counts);
        let is_proxied = cell.mesh != "bare" && !cell.trials_used.is_empty();
        let proxies = cell.planes.get(&Plane::DataPlane);
        assert_eq!(proxies.is_some(), is_proxied);
        assert!(proxies.is_none_or(|p| p.cpu_cores.value > 0.0 && p.memory_bytes.value > 0.0));
    }
    for (i, mesh) in expected.iter().enumerate() {
        for reference in &expected[..i] {
            let blocks = common_blocks(summary, mesh, reference);
            let same = |c: &&_| is_pair(c, mesh, reference);
            let found = summary.comparisons.iter().find(same);
            // Without a block in which both are usable, nothing is compared.
            assert_eq!(
                found.is_some(),
                !blocks.is_empty(),
                "{mesh} over {reference}"
            );
            let Some(found) = found else { continue };
            assert_eq!(found.blocks, blocks, "{mesh} over {reference}");
            student(found.ratio(Figure::Cpu).unwrap(), blocks.len());
        }
    }
}

fn is_pair(c: &tare_records::summary::MeshComparison, mesh: &str, reference: &str) -> bool {
    c.mesh == mesh && c.reference == reference
}

/// Blocks in which the trials of both meshes are used.
fn common_blocks(summary: &Summary, mesh: &str, reference: &str) -> Vec<u32> {
    let of = |mesh: &str, block: u32| {
        let mut used = summary
            .trials
            .iter()
            .filter(|t| t.status == TrialStatus::Used);
        used.any(|t| t.mesh == mesh && t.block == block)
    };
    let blocks = 0..summary.setup.repeats;
    blocks
        .filter(|b| of(mesh, *b) && of(reference, *b))
        .collect()
}

fn student(ratio: &Ratio, blocks: usize) {
    assert_eq!(ratio.blocks.len(), blocks, "{ratio:#?}");
    let logs: Vec<f64> = ratio.blocks.iter().map(|x| x.ln()).collect();
    let n = blocks as f64;
    let mean = logs.iter().sum::<f64>() / n;
    assert!(is_near(ratio.value.ln(), mean), "{ratio:#?}");
    let Some(t) = blocks.checked_sub(2).map(|i| STUDENT[i]) else {
        assert_eq!((ratio.low, ratio.outcome), (None, Outcome::NotResolved));
        return;
    };
    let squares: f64 = logs.iter().map(|x| (x - mean).powi(2)).sum();
    let half = t * (squares / (n - 1.0) / n).sqrt();
    // The interval is at least as wide as the resolution of the figures.
    let found = [ratio.low, ratio.high].map(|x| x.unwrap().ln());
    assert!(
        is_near(found[0], mean - half) || found[0] < mean - half,
        "{half}: {ratio:#?}"
    );
    assert!(
        is_near(found[1], mean + half) || found[1] > mean + half,
        "{half}: {ratio:#?}"
    );
    assert!(
        found[1] - found[0] < 2.0 * half + 0.01,
        "{half}: {ratio:#?}"
    );
    let excludes_one = found[0] > 0.0 || found[1] < 0.0;
    match ratio.outcome {
        Outcome::Different => assert!(excludes_one, "{ratio:#?}"),
        Outcome::Same => assert!(mean.abs() <= ratio.margin.ln_1p(), "{ratio:#?}"),
        // Holm's correction may take back what the interval alone would show.
        Outcome::NotResolved => assert!(!excludes_one || ratio.p_holm > ratio.p, "{ratio:#?}"),
    }
}

fn is_near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-5
}
