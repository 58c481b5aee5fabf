//! What cleanup needs: the state of the cluster before a run, and a way to delete stuck pods.

pub(crate) mod snapshot;
mod stuck_pods;

pub(crate) use snapshot::Snapshot;
pub(crate) use stuck_pods::ForcedDeletion;
