//! The application under load: a server for any node of a service graph.
//!
//! [`Server`] is one service of one instance: `front` accepts requests over HTTP/1.1 or gRPC,
//! `app` answers them, and `protocol` calls the services that it depends on. [`run_worker`] is
//! the worker process around it; [`LocalInstance`] is a complete instance in one process.
//! [`EchoServer`] is a server whose behaviour the client selects, for checking instruments.
//!
//! A service runs on one thread, because it represents a small service, and additional work
//! would add noise to the baseline.

mod answers;
mod app;
mod calls;
mod counters;
mod echo;
mod error;
mod events;
mod front;
mod instance;
mod node;
mod protocol;
mod queue;
mod server;
pub mod signals;
mod timer;
mod worker;

pub use answers::run_answers;
pub use counters::Tally;
pub use echo::{EchoOptions, EchoServer, Issued, KnobError, Knobs, TlsError, TlsOptions, run_echo};
pub use error::WorkloadError;
pub use instance::{LocalInstance, run_instance};
pub use server::Server;
pub use worker::run_worker;
