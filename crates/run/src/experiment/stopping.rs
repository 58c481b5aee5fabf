//! Decides whether an adaptive plan or a gate has enough blocks. The decision uses the trials on disk, so
//! that a resumed run decides as an uninterrupted one.

use tare_analysis::StoredTrial;
use tare_analysis::compare::stopping;
use tare_analysis::gate;
use tare_plan::trial::{TrialSpec, block_order};
use tare_plan::{Blocks, Plan};
use tare_records::summary::Stopping;
use tare_records::trial::{Event, EventKind};

use crate::events::event;
use crate::store::RunDir;

/// Returns the event that gives the reason to stop an adaptive plan or a gate before block `block` of
/// `blocks`, which have the same loads; `None` to continue.
pub(super) fn enough(run: &RunDir, blocks: &Blocks<'_>, block: u32) -> Option<Event> {
    let plan = &run.manifest().plan;
    let ran = block - blocks.range.start;
    let adaptive = plan.until.as_ref().is_some_and(|until| ran >= until.min);
    if plan.gate.is_none() && !adaptive {
        return None;
    }
    let attempts = |block| (0..=plan.reruns).flat_map(move |n| block_order(plan, block, n));
    let before: Vec<TrialSpec> = (blocks.range.start..block).flat_map(attempts).collect();
    let stored: Vec<StoredTrial> = run
        .all_results(&before)
        .into_iter()
        .map(|(dir, result)| StoredTrial {
            dir,
            result,
            seconds: Vec::new(),
            failed_since_s: None,
            calls: None,
        })
        .collect();
    match plan.gate {
        Some(_) => decided(plan, &stored),
        None => narrow_enough(plan, blocks, &stored, ran),
    }
}

fn decided(plan: &Plan, stored: &[StoredTrial]) -> Option<Event> {
    let result = gate::look(plan, stored, false)?;
    let found = format!("{}: {}", result.outcome?.words(), result.reason);
    Some(event(EventKind::GateDecided, "", found))
}

fn narrow_enough(
    plan: &Plan,
    blocks: &Blocks<'_>,
    stored: &[StoredTrial],
    ran: u32,
) -> Option<Event> {
    let stopping = stopping::look(plan, blocks, stored)?;
    let stop = stopping.reached_after? <= ran;
    stop.then(|| event(EventKind::NarrowEnough, "", reason(&stopping, ran)))
}

fn reason(stopping: &Stopping, blocks: u32) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let targets: Vec<String> = stopping
        .targets
        .iter()
        .map(|t| {
            format!(
                "{} within {} (target: {})",
                t.what,
                percent(t.widest.unwrap_or(f64::INFINITY)),
                percent(t.half_width)
            )
        })
        .collect();
    format!(
        "stopped after {blocks} of at most {} blocks: {}",
        stopping.blocks_max,
        targets.join(", ")
    )
}
