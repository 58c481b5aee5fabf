//! Answers the requests of a node, over HTTP or gRPC. gRPC is dispatched on the method name, because a graph
//! may define methods for which no code was generated.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode, Version};
use tare_plan::graph::{SYNTHETIC, ServiceProtocol};

use crate::app::messages;
use crate::calls::Timed;
use crate::counters::UNKNOWN;
use crate::node::{Application, Node};
use crate::protocol::Body;
use crate::protocol::grpc::{Payload, is_error, service_and_method, unary, unimplemented};
use crate::protocol::http::{Reply, answered, close, error, no_such_path, read, reply};

use super::probes;

/// Answers one request. Probes are neither counted nor timed.
pub(crate) async fn answer(
    node: Arc<Node>,
    request: Request<Incoming>,
) -> Result<Response<Timed<Body>>, Infallible> {
    let started = node.window.start();
    let request = match probes::answer(&node, request).await {
        Ok(response) => return Ok(response.map(|body| Timed::new(body, None))),
        Err(request) => request,
    };
    let (name, response) = match node.protocol {
        ServiceProtocol::Grpc => grpc(&node.application, request).await,
        ServiceProtocol::Http | ServiceProtocol::Tcp | ServiceProtocol::Http2 => {
            let (name, reply) = http(&node.application, request).await;
            (name, reply.map(Either::Left))
        }
    };
    let ok = response.status().as_u16() < 400 && !is_error(&response);
    Ok(node.answered(name, ok, started, response))
}

/// Returns the name under which the request is counted, and the response.
async fn http(application: &Application, request: Request<Incoming>) -> (&str, Reply) {
    let path = request.uri().path();
    match application {
        Application::Web(web) => match *request.method() {
            Method::GET | Method::HEAD => web.answer(path, request.uri().query()).await,
            _ => {
                let reply = error(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD");
                (UNKNOWN, reply)
            }
        },
        Application::Synthetic(app) => {
            let Some((name, endpoint)) = app.find(path) else {
                return (UNKNOWN, no_such_path());
            };
            // Reads the complete request before it answers, as a real service does.
            if let Err((status, problem)) = read(request.into_body()).await {
                return (name, error(status, problem));
            }
            let body = app.answer(endpoint).await;
            let reply = body.map(|body| reply(StatusCode::OK, "text/plain", body));
            (name, answered(reply))
        }
        Application::Emoji(_) | Application::Voting(_) => (UNKNOWN, no_such_path()),
    }
}

/// Returns the name under which the call is counted, and the response.
async fn grpc(application: &Application, request: Request<Incoming>) -> (&str, Response<Body>) {
    if request.version() < Version::HTTP_2 {
        let status = StatusCode::HTTP_VERSION_NOT_SUPPORTED;
        let reply = close(error(status, "expected gRPC over HTTP/2"));
        return (UNKNOWN, reply.map(Either::Left));
    }
    let path = request.uri().path().to_owned();
    let (service, method) = service_and_method(&path);
    let (name, response) = match (application, service) {
        (Application::Emoji(app), messages::EMOJI) => app.answer(method, request).await,
        (Application::Voting(app), messages::VOTING) => app.answer(method, request).await,
        (Application::Synthetic(app), SYNTHETIC) => match app.find(method) {
            Some((name, endpoint)) => {
                let call = |_: Payload| async {
                    let body = app.answer(endpoint).await?;
                    Ok(Payload { body })
                };
                (name, unary(request, call).await)
            }
            None => (UNKNOWN, unimplemented(&path)),
        },
        _ => (UNKNOWN, unimplemented(&path)),
    };
    (name, response.map(Either::Right))
}
