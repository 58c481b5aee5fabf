//! The application under load: a server for any node of a service graph.
//!
//! [`Server`] is one service of one instance: HTTP/1.1 or gRPC at the front
//! (`http`, `grpc`), a built-in application (`emojivoto`) or synthetic endpoints
//! (`synthetic`) in the middle, and `upstream` towards the services that it calls.
//! [`run_worker`] is the worker process around it; [`Playground`] is a whole
//! instance in one process. [`EchoServer`] is a server whose behaviour the client
//! chooses, to check instruments against.
//!
//! Everything runs on one thread: a worker stands for a small service, and the
//! less it does besides serving, the quieter is the baseline.

mod burn;
mod counters;
mod echo;
mod emojivoto;
mod events;
mod failure;
mod grpc;
mod http;
mod listen;
mod node;
mod own;
mod playground;
mod server;
mod synthetic;
mod timer;
mod upstream;
mod worker;

pub use counters::Tally;
pub use echo::{EchoOptions, EchoServer, Issued, KnobError, Knobs, TlsError, TlsOptions, run_echo};
pub use playground::{Playground, run_playground};
pub use server::{Server, WorkloadError};
pub use worker::run_worker;
