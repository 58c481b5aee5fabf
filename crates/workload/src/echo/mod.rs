//! `tare serve-echo`: a server whose behaviour the client chooses, over HTTP/1.1,
//! HTTP/2 and gRPC, plain and with TLS, so that anyone can check an instrument
//! against answers that are known.
//!
//! `choice` and `knobs` are what a request may ask for, `queue` is the capacity
//! that the server is given, `http` and `grpc` answer, `connection`, `tls` and
//! `server` carry it.

mod choice;
mod connection;
mod desk;
mod grpc;
mod http;
mod knobs;
mod messages;
mod metrics;
mod queue;
mod server;
mod tls;

pub use knobs::{KnobError, Knobs};
pub use server::{EchoOptions, EchoServer, run_echo};
pub use tls::{Issued, TlsError, TlsOptions};
