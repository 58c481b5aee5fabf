//! Unary gRPC methods without generated code, and the adapter from closures to services.

use std::task::{Context, Poll};

use futures_util::TryFutureExt;
use futures_util::future::MapOk;
use hyper::body::{Bytes, Incoming};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response};
use tare_plan::graph::SYNTHETIC;
use tonic::Status;
use tonic::body::Body;
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::MESSAGE_MAX;

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

/// The names of the service and of the method in the path of a call.
pub(crate) fn service_and_method(path: &str) -> (&str, &str) {
    let path = path.trim_start_matches('/');
    path.split_once('/').unwrap_or((path, ""))
}

/// Whether the call has failed. The status of an error is in the headers, status 0 in the trailers.
pub(crate) fn is_error<B>(response: &Response<B>) -> bool {
    response.headers().contains_key("grpc-status")
}

/// Handles calls of one method.
pub(crate) fn handler<In, Out>() -> tonic::server::Grpc<ProstCodec<Out, In>>
where
    In: prost::Message + Default + 'static,
    Out: prost::Message + 'static,
{
    tonic::server::Grpc::new(ProstCodec::default())
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Decodes one message, calls `method`, encodes its reply.
pub(crate) async fn unary<In, Out, F, Fut>(request: Request<Incoming>, method: F) -> Response<Body>
where
    In: prost::Message + Default + 'static,
    Out: prost::Message + 'static,
    F: FnMut(In) -> Fut,
    Fut: Future<Output = Result<Out, Status>>,
{
    handler::<In, Out>().unary(Method(method), request).await
}

/// Adapts a closure to the service that tonic expects.
pub(crate) struct Method<F>(pub(crate) F);

impl<F, Fut, In, Out> Service<tonic::Request<In>> for Method<F>
where
    F: FnMut(In) -> Fut,
    Fut: Future<Output = Result<Out, Status>>,
{
    type Response = tonic::Response<Out>;
    type Error = Status;
    type Future = MapOk<Fut, fn(Out) -> tonic::Response<Out>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<In>) -> Self::Future {
        (self.0)(request.into_inner()).map_ok(tonic::Response::new)
    }
}
