//! `tare load`, `search`, `merge` and the servers of workloads.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod interop;
#[path = "../support/judged.rs"]
mod judged;
mod load;
mod load_failures;
mod load_sidecar;
mod load_streams;
mod search;
#[path = "../support/mod.rs"]
mod support;
mod targets;
mod witness;
mod workload;
