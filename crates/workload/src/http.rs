//! The HTTP/1.1 front.

use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;

use crate::counters::UNKNOWN;
use crate::failure::Failure;
use crate::node::{Application, Node};
use crate::own;
use crate::synthetic::Synthetic;
use crate::upstream::MESSAGE_MAX;

pub(crate) type Reply = Response<Full<Bytes>>;

pub(crate) async fn answer(
    node: Arc<Node>,
    request: Request<Incoming>,
) -> Result<Reply, Infallible> {
    if let Some(reply) = of_every_server(&node, &request).await {
        return Ok(reply);
    }
    let (name, reply) = match (request.uri().path(), &node.application) {
        (path, Application::Web(web)) => match *request.method() {
            Method::GET | Method::HEAD => web.answer(path, request.uri().query()).await,
            _ => {
                let found = error(StatusCode::METHOD_NOT_ALLOWED, "expected GET or HEAD");
                (UNKNOWN, found)
            }
        },
        (path, Application::Synthetic(app)) => {
            let known = app.endpoint(path);
            let Some(path) = known.map(str::to_owned) else {
                node.counters.count(UNKNOWN, false);
                return Ok(no_such_path());
            };
            let reply = synthetic(app, &path, request).await;
            node.counters.count(&path, reply.status().as_u16() < 400);
            return Ok(reply);
        }
        (_, Application::Emoji(_) | Application::Voting(_)) => (UNKNOWN, no_such_path()),
    };
    node.counters.count(name, reply.status().as_u16() < 400);
    Ok(reply)
}

/// What every server answers by HTTP, whatever it speaks otherwise.
pub(crate) async fn of_every_server(node: &Node, request: &Request<Incoming>) -> Option<Reply> {
    match request.uri().path() {
        own::READY => Some(own::ready(node)),
        own::HTTP_ECHO => Some(own::http_echo(node, request).await),
        _ => None,
    }
}

/// Reads the whole request before it answers, as a real service would.
async fn synthetic(app: &Synthetic, path: &str, request: Request<Incoming>) -> Reply {
    let body = Limited::new(request.into_body(), MESSAGE_MAX);
    if let Err(problem) = body.collect().await {
        if problem.is::<http_body_util::LengthLimitError>() {
            return error(StatusCode::PAYLOAD_TOO_LARGE, "expected at most 16 MiB");
        }
        return error(StatusCode::BAD_REQUEST, "the request body was cut short");
    }
    match app.answer(path).await {
        Ok(body) => reply(StatusCode::OK, "text/plain", body),
        Err(failure) => failed(&failure),
    }
}

pub(crate) fn no_such_path() -> Reply {
    error(StatusCode::NOT_FOUND, "no such path here")
}

pub(crate) fn failed(failure: &Failure) -> Reply {
    error(failure.http_status(), &failure.to_string())
}

pub(crate) fn reply(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Reply {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// `{"error": "..."}`.
pub(crate) fn error(status: StatusCode, message: &str) -> Reply {
    json(status, &serde_json::json!({ "error": message }))
}

pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(body) => reply(status, "application/json", body),
        Err(e) => reply(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain",
            e.to_string(),
        ),
    }
}

/// The decoded value of `key` in a query, the first if there are several.
pub(crate) fn query_value(query: &str, key: &str) -> Option<String> {
    let pairs = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .into_iter()
        .find(|(k, _)| *k == key)
        .map(|(_, v)| percent_decode(v))
}

/// `%3A` to `:`, `+` to a space; what is no valid escape stays as it is.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes
            .get(at + 1..at + 3)
            .and_then(|h| std::str::from_utf8(h).ok());
        let digits = hex.filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|h| u8::from_str_radix(h, 16).ok());
        match (bytes[at], byte) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
                continue;
            }
            (b'+', _) => decoded.push(b' '),
            (other, _) => decoded.push(other),
        }
        at += 1;
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let value = |q| query_value(q, "choice");
        assert_eq!(value("choice=:joy:").as_deref(), Some(":joy:"));
        assert_eq!(
            value("a=b&choice=%3Ajoy%3a&choice=x").as_deref(),
            Some(":joy:")
        );
        assert_eq!(value("choice").as_deref(), Some(""));
        assert_eq!(value("choices=1"), None);
        assert_eq!(value("choice=a+b%2").as_deref(), Some("a b%2"));
        assert_eq!(value("choice=%+1%zz").as_deref(), Some("% 1%zz"));
        assert_eq!(value("choice=%ff").as_deref(), Some("\u{fffd}"));
    }
}
