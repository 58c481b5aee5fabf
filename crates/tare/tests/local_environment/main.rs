//! The local environment on the real parts: this program's own servers, real Envoys.
//! Envoy is found or installed as `tare run` does it.

mod bench;
mod endings;
mod proofs;
