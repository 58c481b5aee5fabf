//! One trial: the application, the generators, the proofs, and the records of the trial.

mod answered;
mod artifacts;
pub(crate) mod churn;
mod container_watch;
pub(crate) mod deploy;
pub(crate) mod deployment;
mod entry;
mod events;
mod generator_records;
pub(crate) mod generators;
pub(crate) mod hooks;
mod pod_log;
pub(crate) mod probe;
pub(crate) mod prove;
pub(crate) mod pull_secrets;
pub(crate) mod ready;
mod termination;

pub(crate) use deployment::Deployment;
pub(crate) use events::Events;
pub(crate) use pod_log::{Line, PodLog};
pub(crate) use termination::PodTerminations;
