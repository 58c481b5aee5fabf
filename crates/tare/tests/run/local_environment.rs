//! The local environment with real processes: the servers of this program, and real Envoys. Envoy
//! is found or installed as by `tare run`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests may panic, and report an installation"
)]

mod bench;
mod endings;
mod features;
mod proofs;
mod replicas;
