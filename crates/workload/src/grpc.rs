//! The gRPC front: dispatches on the method's name, without generated code, so
//! that a graph can name its methods.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, StatusCode, Version};
use tare_model::graph::SYNTHETIC;
use tonic::Status;
use tonic::body::Body;
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::counters::UNKNOWN;
use crate::emojivoto::messages;
use crate::http;
use crate::node::{Application, Node};
use crate::own;
use crate::upstream::MESSAGE_MAX;

/// Request and response of synthetic methods: bytes.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Payload {
    /// So many of them as the graph says.
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) body: hyper::body::Bytes,
}

/// The path of a synthetic method.
pub(crate) fn synthetic_path(method: &str) -> Result<PathAndQuery, hyper::http::uri::InvalidUri> {
    format!("/{SYNTHETIC}/{method}").parse()
}

pub(crate) async fn answer(
    node: Arc<Node>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if let Some(reply) = http::of_every_server(&node, &request).await {
        return Ok(reply.map(Body::new));
    }
    if request.version() < Version::HTTP_2 {
        let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
        let mut reply = http::error(status, "expected gRPC over HTTP/2");
        let close = HeaderValue::from_static("close");
        reply.headers_mut().insert(CONNECTION, close);
        node.counters.count(UNKNOWN, false);
        return Ok(reply.map(Body::new));
    }
    let path = request.uri().path().to_owned();
    let mut parts = path.splitn(3, '/').skip(1);
    let (service, method) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let (name, response) = match (&node.application, service) {
        (_, own::HEALTH) if method == "Check" => return Ok(own::health(&node, request).await),
        (_, own::ECHO) if method == "Echo" => return Ok(own::grpc_echo(&node, request).await),
        (Application::Emoji(app), messages::EMOJI) => app.answer(method, request).await,
        (Application::Voting(app), messages::VOTING) => app.answer(method, request).await,
        (Application::Synthetic(app), SYNTHETIC) if app.endpoint(method).is_some() => {
            let call = |_: Payload| async {
                let body = app.answer(method).await?;
                Ok(tonic::Response::new(Payload { body }))
            };
            (method, unary(request, call).await)
        }
        _ => (UNKNOWN, unimplemented(&path)),
    };
    // An error's status is in the headers, a good one in the trailers.
    let ok = !response.headers().contains_key("grpc-status");
    node.counters.count(name, ok);
    Ok(response)
}

pub(crate) fn unimplemented(path: &str) -> Response<Body> {
    Status::unimplemented(format!("no method {path} here")).into_http()
}

/// Decodes one message, calls, encodes the answer.
pub(crate) async fn unary<M1, M2, F, Fut>(request: Request<Incoming>, call: F) -> Response<Body>
where
    M1: prost::Message + Default + 'static,
    M2: prost::Message + 'static,
    F: FnMut(M1) -> Fut,
    Fut: Future<Output = Result<tonic::Response<M2>, Status>>,
{
    tonic::server::Grpc::new(ProstCodec::<M2, M1>::default())
        .max_decoding_message_size(MESSAGE_MAX)
        .unary(Call(call), request)
        .await
}

/// A closure as the service that tonic wants.
struct Call<F>(F);

impl<F, Fut, M1, M2> Service<tonic::Request<M1>> for Call<F>
where
    F: FnMut(M1) -> Fut,
    Fut: Future<Output = Result<tonic::Response<M2>, Status>>,
{
    type Response = tonic::Response<M2>;
    type Error = Status;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<M1>) -> Fut {
        (self.0)(request.into_inner())
    }
}
