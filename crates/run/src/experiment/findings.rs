//! What a trial has found so far.

use std::collections::BTreeMap;

use tare_records::capacity::Capacity;
use tare_records::churn::ChurnResult;
use tare_records::load::LoadResult;
use tare_records::overload::OverloadResult;
use tare_records::trial::{Event, EventKind, Proof, Resources, SliceUse};
use tare_records::verdict::Finding;

use crate::environment::EnvironmentError;
use crate::events::event;

/// The results of a trial so far.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) load: Option<LoadResult>,
    /// Requests that the generator sent, for the proofs after the load.
    pub(super) sent: u64,
    pub(super) capacity: Option<Capacity>,
    pub(super) overload: Option<OverloadResult>,
    pub(super) churn: Option<ChurnResult>,
    pub(super) resources: Option<Resources>,
    pub(super) idle: Option<Resources>,
    pub(super) slices: Option<SliceUse>,
    pub(super) proofs: Vec<Proof>,
    pub(super) terms: BTreeMap<String, String>,
    pub(super) events: Vec<Event>,
    pub(super) incomplete: Vec<String>,
    /// Further findings for the verdict.
    pub(super) verdict: Vec<Finding>,
    pub(super) failure: Option<String>,
    /// Whether another attempt most likely fails in the same way, after a long wait.
    pub(super) is_permanent: bool,
    pub(super) interrupted: bool,
}

impl Findings {
    /// The trial failed before its measurement.
    pub(super) fn failed(&mut self, error: &EnvironmentError) {
        let found = error.to_string();
        self.events.push(event(EventKind::NotStarted, "", &found));
        self.failure = Some(found);
        self.is_permanent = matches!(error, EnvironmentError::NotReady { .. });
    }

    /// Data of the trial are missing or damaged.
    pub(super) fn lost(&mut self, what: String) {
        self.incomplete.push(what);
    }

    /// CPU and memory are missing, in part or as a whole.
    pub(super) fn unsampled(&mut self, what: String) {
        self.events.push(event(EventKind::NotSampled, "", what));
    }

    /// The calls between services are missing.
    pub(super) fn untimed(&mut self, what: String) {
        self.events.push(event(EventKind::CallsMissing, "", what));
    }

    /// Returns the proofs and the missing data as events.
    pub(super) fn remarks(&self) -> Vec<Event> {
        let proof = |p: &Proof| {
            let kind = match p.holds {
                true => EventKind::Proved,
                false => EventKind::NotProved,
            };
            event(kind, &p.claim, format!("observed: {}", p.seen))
        };
        let lost = |what: &String| event(EventKind::Incomplete, "", what);
        let proofs = self.proofs.iter().map(proof);
        proofs.chain(self.incomplete.iter().map(lost)).collect()
    }
}
