//! Sampling of CPU and memory, by agents or from kubelets.

pub(crate) mod agents;
pub(crate) mod kubelet;
mod merge;
mod pprof;
pub(crate) mod readings;
mod stacks;
