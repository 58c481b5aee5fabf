//! Commands for Kubernetes, with a simulated API server.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod clusters;
mod detached;
#[path = "../../../run/tests/support/executable.rs"]
mod executable;
mod large;
mod platforms;
#[path = "../support/resident.rs"]
mod resident;
#[path = "../../../cluster/tests/kube/simulated/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the environment")]
mod simulated;
