//! Decides whether an adaptive plan or a gate has enough blocks. The decision uses the trials on disk, so
//! that a resumed run decides as an uninterrupted one.

use tare_analysis::StoredTrial;
use tare_analysis::compare::stopping;
use tare_analysis::gate;
use tare_plan::trial::{TrialSpec, block_order};
use tare_plan::{Blocks, Plan, StopRule};
use tare_records::trial::{Event, EventKind};

use crate::events::event;
use crate::store::RunDir;

/// Whether to run another block.
pub(super) enum Look {
    /// The reason to stop.
    Enough(Event),
    /// With how far an adaptive plan is from its targets.
    Continue(Option<String>),
}

/// Returns the event that gives the reason to stop an adaptive plan or a gate before block `block` of
/// `blocks`, which have the same loads; `None` to continue.
pub(super) fn enough(run: &RunDir, blocks: &Blocks<'_>, block: u32) -> Option<Event> {
    match look(run, blocks, block) {
        Look::Enough(event) => Some(event),
        Look::Continue(_) => None,
    }
}

/// Looks at an adaptive plan or a gate before block `block` of `blocks`, which have the same loads.
pub(super) fn look(run: &RunDir, blocks: &Blocks<'_>, block: u32) -> Look {
    let plan = &run.manifest().plan;
    let ran = block - blocks.range.start;
    let is_look = |until: &StopRule| !until.resolved || until.is_look(ran);
    let is_look = plan.until.as_ref().is_some_and(is_look);
    let adaptive = plan.until.as_ref().is_some_and(|until| ran >= until.min);
    if plan.gate.is_none() && !adaptive {
        return Look::Continue(None);
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
        Some(_) => decided(plan, &stored).map_or(Look::Continue(None), Look::Enough),
        None => match stopping::look(plan, blocks, &stored) {
            Some(found) if found.stopped_after().is_some_and(|n| n <= ran) => {
                let found = stopping::words(&found);
                Look::Enough(event(EventKind::NarrowEnough, "", found))
            }
            // Between two looks, that all questions are resolved decides nothing.
            Some(found) if is_look => Look::Continue(Some(stopping::progress(&found))),
            _ => Look::Continue(None),
        },
    }
}

fn decided(plan: &Plan, stored: &[StoredTrial]) -> Option<Event> {
    let result = gate::look(plan, stored, false)?;
    let found = format!("{}: {}", result.outcome?.words(), result.reason);
    Some(event(EventKind::GateDecided, "", found))
}
