//! The server side of a node: accepts connections, answers requests over HTTP/1.1 or gRPC, and
//! answers the probes that every node has.

mod grpc;
mod http;
mod listen;
mod probes;

pub(crate) use listen::{accept, accept_node, serve};
pub(crate) use probes::probe;
