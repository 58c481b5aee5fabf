//! Servers of complete graphs on loopback, over real sockets.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod calls;
mod client;
mod echo;
mod echo_grpc;
mod emojivoto;
mod faults;
mod ipv6;
mod probes;
mod replicas;
mod synthetic;
