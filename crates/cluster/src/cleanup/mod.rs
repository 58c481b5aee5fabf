//! Parts of the cleanup: the state of the cluster before a run, and the deletion of stuck pods.

pub(crate) mod snapshot;
mod stuck_pods;

pub(crate) use snapshot::Snapshot;
pub(crate) use stuck_pods::ForcedDeletion;
