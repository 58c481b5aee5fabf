//! Pods whose node does not answer: no kubelet ever says that they ended, so they keep
//! their namespace from going. They are taken out of the books.

use std::time::Duration;

use tare_model::trial::Event;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::kinds::POD;
use super::pods::Pod;
use crate::experiment::event;

/// Longer than any pod of a run or of a mesh may take to end.
const AFTER: Duration = Duration::from_secs(45);

/// Waits, once, before it uses force.
#[derive(Debug)]
pub(super) struct Forced {
    due: Option<Instant>,
}

impl Forced {
    pub(super) fn new() -> Self {
        Self {
            due: Some(Instant::now() + AFTER),
        }
    }

    /// Removes, when it is time, the pods that are still on their way out of these
    /// namespaces; each is an event.
    pub(super) async fn when_due(
        &mut self,
        api: &Api,
        namespaces: impl Iterator<Item = &str>,
    ) -> Result<Vec<Event>, ApiError> {
        let mut events = Vec::new();
        if self.due.is_none_or(|due| Instant::now() < due) {
            return Ok(events);
        }
        self.due = None;
        for namespace in namespaces {
            for pod in api.list(POD, Some(namespace), "").await? {
                let pod = Pod(&pod);
                if pod.is_leaving() {
                    api.delete_now(POD, namespace, pod.name()).await?;
                    let message = format!(
                        "{} did not end on {} and was removed by force",
                        pod.title(),
                        pod.node()
                    );
                    events.push(event("forced", message));
                }
            }
        }
        Ok(events)
    }
}
