//! Unary gRPC methods without generated code, and the adapter from closures to services.

use std::future::Future;
use std::task::{Context, Poll};

use hyper::body::{Bytes, Incoming};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response};
use tare_plan::graph::SYNTHETIC;
use tonic::Status;
use tonic::body::Body;
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::upstream::MESSAGE_MAX;

/// Request and response of synthetic methods.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Payload {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) body: Bytes,
}

/// The path of a synthetic method.
pub(crate) fn synthetic_path(method: &str) -> Result<PathAndQuery, hyper::http::uri::InvalidUri> {
    format!("/{SYNTHETIC}/{method}").parse()
}

pub(crate) fn unimplemented(path: &str) -> Response<Body> {
    Status::unimplemented(format!("unknown method {path}")).into_http()
}

/// Decodes one message, calls `method`, encodes its reply.
pub(crate) async fn unary<M1, M2, F, Fut>(request: Request<Incoming>, method: F) -> Response<Body>
where
    M1: prost::Message + Default + 'static,
    M2: prost::Message + 'static,
    F: FnMut(M1) -> Fut,
    Fut: Future<Output = Result<tonic::Response<M2>, Status>>,
{
    tonic::server::Grpc::new(ProstCodec::<M2, M1>::default())
        .max_decoding_message_size(MESSAGE_MAX)
        .unary(Method(method), request)
        .await
}

/// Adapts a closure to the service that tonic expects.
pub(crate) struct Method<F>(pub(crate) F);

impl<F, Fut, In, Out> Service<tonic::Request<In>> for Method<F>
where
    F: FnMut(In) -> Fut,
    Fut: Future<Output = Result<tonic::Response<Out>, Status>>,
{
    type Response = tonic::Response<Out>;
    type Error = Status;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<In>) -> Fut {
        (self.0)(request.into_inner())
    }
}
