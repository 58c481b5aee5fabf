//! The gRPC server of a node. It dispatches on the method name, because a graph may define
//! methods for which no code was generated.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};
use tare_plan::graph::SYNTHETIC;
use tonic::body::Body;

use crate::app::messages;
use crate::calls::Timed;
use crate::counters::UNKNOWN;
use crate::node::{Application, Node};
use crate::protocol::grpc::{Payload, unary, unimplemented};
use crate::protocol::http::error;

use super::{http, probes};

pub(super) async fn answer(
    node: Arc<Node>,
    request: Request<Incoming>,
) -> Result<Response<Timed<Body>>, Infallible> {
    let started = node.window.start();
    if let Some(reply) = http::probe(&node, &request).await {
        return Ok(http::untimed(reply.map(Body::new)));
    }
    if request.version() < Version::HTTP_2 {
        let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
        let mut reply = error(status, "expected gRPC over HTTP/2");
        let close = HeaderValue::from_static("close");
        reply.headers_mut().insert(CONNECTION, close);
        node.counters.count(UNKNOWN, false);
        return Ok(http::untimed(reply.map(Body::new)));
    }
    let path = request.uri().path().to_owned();
    let mut parts = path.splitn(3, '/').skip(1);
    let (service, method) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let (name, response) = match (&node.application, service) {
        (_, probes::HEALTH) if method == "Check" => {
            return Ok(http::untimed(probes::health(&node, request).await));
        }
        (_, probes::ECHO) if method == "Echo" => {
            return Ok(http::untimed(probes::grpc_echo(&node, request).await));
        }
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
    // The status of an error is in the headers, status 0 in the trailers.
    let ok = !response.headers().contains_key("grpc-status");
    Ok(node.answered(name, ok, started, response))
}
