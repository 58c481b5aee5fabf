//! Servers of whole graphs on loopback, asked over real sockets.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod client;
mod echo;
mod echo_grpc;
mod emojivoto;
mod faults;
mod own;
mod synthetic;
