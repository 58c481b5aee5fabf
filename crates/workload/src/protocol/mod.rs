//! HTTP and gRPC as all nodes use them: replies, unary methods, failures, and calls to
//! other services.

mod failure;
pub(crate) mod grpc;
pub(crate) mod http;
mod store;
mod upstream;

pub(crate) use failure::Failure;
pub(crate) use upstream::{GrpcUpstream, MESSAGE_MAX, Upstream, WINDOW_BYTES};
