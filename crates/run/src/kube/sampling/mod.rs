//! Sampling of CPU and memory, by agents or from kubelets.

pub(crate) mod agents;
mod kubelet;
mod merge;
mod pprof;
mod readings;
mod stacks;
