//! HTTP and gRPC as all nodes use them: replies, unary methods, failures, and calls to
//! other services.

mod failure;
pub(crate) mod grpc;
pub(crate) mod http;
mod store;
mod upstream;

use http_body_util::{Either, Full};
use hyper::body::Bytes;
use tare_plan::graph::BYTES_MAX;

pub(crate) use failure::Failure;
pub(crate) use upstream::{GrpcUpstream, Upstream};

/// Largest body of a request or a response.
pub(crate) const BODY_MAX: usize = BYTES_MAX as usize;
/// Largest message in either direction: the largest body and its framing.
pub(crate) const MESSAGE_MAX: usize = BODY_MAX + 4096;
/// HTTP/2 flow-control window: large enough that usual messages do not wait for it.
pub(crate) const WINDOW_BYTES: u32 = 1 << 20;

/// The body of a response over HTTP or gRPC.
pub(crate) type Body = Either<Full<Bytes>, tonic::body::Body>;
