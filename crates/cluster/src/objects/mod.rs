//! Kubernetes objects as values: names, manifests to apply, and readers of pods and nodes.

pub(crate) mod churn;
pub(crate) mod manifests;
pub(crate) mod names;
pub(crate) mod node;
mod pod;
mod pod_failure;
pub(crate) mod pod_parts;
pub(crate) mod read;
pub(crate) mod timestamp;

pub(crate) use node::Node;
pub(crate) use pod::Pod;
pub(crate) use read::{Metadata, Object, parts};
