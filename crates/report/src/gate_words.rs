//! A gate in sentences.

use tare_analysis::figures;
use tare_records::summary::{GateOutcome, GateResult};

use crate::words;

/// The meshes of a gate.
pub(crate) fn heading(gate: &GateResult) -> String {
    format!("Gate: {} against {}", gate.candidate, gate.reference)
}

/// The outcome of a gate with its reason.
pub(crate) fn outcome(gate: &GateResult) -> String {
    let outcome = words::capitalised(verdict(gate));
    format!("{outcome}: {}.", gate.reason)
}

/// The outcome in one word.
pub(crate) fn verdict(gate: &GateResult) -> &'static str {
    gate.outcome.map_or("undecided", GateOutcome::words)
}

/// How to read the figures of a gate.
pub(crate) fn reading(gate: &GateResult) -> String {
    let looks: Vec<String> = gate.looks.iter().map(u32::to_string).collect();
    format!(
        "{} of at most {} blocks. Each ratio is the candidate divided by the mean of two runs of the reference, by \
         block, with its 95 % interval. Reference / itself shows the noise of this machine. The decisions after {} \
         blocks use stricter levels (docs/gate.md).",
        gate.blocks,
        gate.blocks_max,
        looks.join(", ")
    ) + &growth(gate)
}

/// How fast memory grows; empty if it was not measured.
fn growth(gate: &GateResult) -> String {
    let Some(growth) = gate.memory_growth else {
        return String::new();
    };
    let words = |bytes_per_s: f64| figures::bytes(bytes_per_s * 60.0);
    format!(
        " During a trial, proxy memory grows by {} per minute (candidate) and {} per minute (reference).",
        words(growth.candidate_bytes_per_s),
        words(growth.reference_bytes_per_s)
    )
}
