//! `tare serve-echo`: a server whose behaviour the client selects, over HTTP/1.1, HTTP/2 and
//! gRPC, with and without TLS. It is for checking instruments against known responses.
//!
//! `choice` and `knobs` are the settings of a request, `queue` is the capacity of the server,
//! `http`, `grpc` and `services` answer requests, `control` lets them end their connection, and
//! `connection`, `tls` and `server` accept them.

mod choice;
mod connection;
mod control;
mod grpc;
mod http;
mod knobs;
mod messages;
mod metrics;
mod server;
mod services;
mod state;
mod tls;

pub use knobs::{KnobError, Knobs};
pub use server::{EchoOptions, EchoServer, run_echo};
pub use tls::{Issued, TlsError, TlsOptions};
