//! Deletes pods without a grace period when their node does not respond: their kubelet never
//! confirms that they ended, so their namespace would never be deleted.

use std::time::Duration;

use kube::api::DeleteParams;
use tare_records::trial::{Event, EventKind};
use tokio::time::Instant;

use crate::api::kinds::POD;
use crate::api::{ApiClient, ApiError};
use crate::objects::Pod;
use tare_run::events::event;

/// Time before deletion is forced, longer than any pod of a run or of a mesh may take to end.
const AFTER: Duration = Duration::from_secs(45);

/// Deletes stuck pods by force, once, when [`AFTER`] has passed since the creation of this value.
#[derive(Debug)]
pub(crate) struct ForcedDeletion {
    due: Option<Instant>,
}

impl ForcedDeletion {
    pub(crate) fn new() -> Self {
        Self {
            due: Some(Instant::now() + AFTER),
        }
    }

    /// When it is due, deletes the pods of these namespaces that are still terminating, and returns
    /// an event for each.
    pub(crate) async fn when_due(
        &mut self,
        api: &ApiClient,
        namespaces: impl Iterator<Item = &str>,
    ) -> Result<Vec<Event>, ApiError> {
        let mut events = Vec::new();
        if self.due.is_none_or(|due| Instant::now() < due) {
            return Ok(events);
        }
        self.due = None;
        for namespace in namespaces {
            for pod in api.list::<Pod>(POD, Some(namespace), "").await? {
                if pod.is_terminating() {
                    let now = DeleteParams::default().grace_period(0);
                    api.delete_with(POD, Some(namespace), pod.name(), &now)
                        .await?;
                    let found = format!(
                        "did not terminate on node {} and was deleted by force",
                        pod.node()
                    );
                    events.push(event(EventKind::RemovedByForce, pod.title(), found));
                }
            }
        }
        Ok(events)
    }
}
