//! The HTTP/1.1 server of a node.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};

use tare_records::calls::{CALLS_PATH, WINDOW_PATH};

use crate::app::Synthetic;
use crate::calls::Timed;
use crate::counters::UNKNOWN;
use crate::node::{Application, Node};
use crate::protocol::MESSAGE_MAX;
use crate::protocol::http::{Reply, answered, error, no_such_path, reply};

use super::probes;

pub(super) async fn answer(
    node: Arc<Node>,
    request: Request<Incoming>,
) -> Result<Response<Timed<Full<Bytes>>>, Infallible> {
    let started = node.window.start();
    if let Some(reply) = probe(&node, &request).await {
        return Ok(untimed(reply));
    }
    let (name, reply) = match (request.uri().path(), &node.application) {
        (path, Application::Web(web)) => match *request.method() {
            Method::GET | Method::HEAD => web.answer(path, request.uri().query()).await,
            _ => {
                let reply = error(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD");
                (UNKNOWN, reply)
            }
        },
        (path, Application::Synthetic(app)) => {
            let known = app.endpoint(path);
            let Some(path) = known.map(str::to_owned) else {
                node.counters.count(UNKNOWN, false);
                return Ok(untimed(no_such_path()));
            };
            let reply = synthetic(app, &path, request).await;
            let ok = reply.status().as_u16() < 400;
            return Ok(node.answered(&path, ok, started, reply));
        }
        (_, Application::Emoji(_) | Application::Voting(_)) => (UNKNOWN, no_such_path()),
    };
    let ok = reply.status().as_u16() < 400;
    Ok(node.answered(name, ok, started, reply))
}

/// A response that is not timed.
pub(super) fn untimed<B: Body>(response: Response<B>) -> Response<Timed<B>> {
    response.map(|body| Timed::new(body, None))
}

/// Answers the probes, which every node has over HTTP; `None` for other paths.
pub(super) async fn probe(node: &Node, request: &Request<Incoming>) -> Option<Reply> {
    match request.uri().path() {
        probes::READY => Some(probes::ready(node)),
        probes::HTTP_ECHO => Some(probes::http_echo(node, request).await),
        WINDOW_PATH => Some(probes::window(node, request)),
        CALLS_PATH => Some(probes::calls(node)),
        _ => None,
    }
}

/// Reads the complete request before it answers, as a real service does.
async fn synthetic(app: &Synthetic, path: &str, request: Request<Incoming>) -> Reply {
    let body = Limited::new(request.into_body(), MESSAGE_MAX);
    if let Err(problem) = body.collect().await {
        if problem.is::<http_body_util::LengthLimitError>() {
            return error(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request body is larger than 16 MiB",
            );
        }
        return error(StatusCode::BAD_REQUEST, "the request body is incomplete");
    }
    let body = app.answer(path).await;
    answered(body.map(|body| reply(StatusCode::OK, "text/plain", body)))
}
