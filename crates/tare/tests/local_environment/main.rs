//! The local environment on the real parts: this program's own servers, real Envoys.
//! Envoy is found or installed as `tare run` does it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests may panic, and tell what they install"
)]

mod bench;
mod endings;
mod proofs;
