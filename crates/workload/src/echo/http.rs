//! The HTTP side: paths, queries and headers.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Request, Response, StatusCode, Version};
use tonic::Code;

use super::connection::Line;
use super::desk::Desk;
use super::grpc;
use super::knobs::{BODY_MAX, Close, Drawn, KnobError, Knobs, NAMES, Wanted};
use super::metrics::Protocol;
use crate::http::query_value;

pub(crate) type Body = Either<Full<Bytes>, tonic::body::Body>;

/// What headers of knobs begin with.
const PREFIX: &str = "tare-";
const PATHS: &str = "/, /echo, /delay/10ms, /status/503, /bytes/1KiB, /headers, /ready, /metrics";

/// A request that gets no answer, as it wanted.
#[derive(Debug, thiserror::Error)]
#[error("cut off, as the request wanted")]
pub(crate) struct Cut;

/// What a path is about.
enum Route {
    Echo,
    Headers,
    Ready,
    Metrics,
}

/// Answers one request of either kind.
pub(crate) async fn answer(
    desk: Arc<Desk>,
    line: Arc<Line>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Cut> {
    let content_type = request.headers().get(CONTENT_TYPE);
    if content_type.is_some_and(|t| t.as_bytes().starts_with(b"application/grpc")) {
        return Ok(grpc::answer(desk, &line, request).await?.map(Either::Right));
    }
    let protocol = match request.version() {
        Version::HTTP_2 => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let result = plain(&desk, &line, request).await;
    let status = result.as_ref().ok().map(|r| r.status().as_u16());
    desk.metrics.answered(protocol, status);
    result.map(|r| r.map(Either::Left))
}

async fn plain(
    desk: &Desk,
    line: &Line,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Cut> {
    let (route, knobs) = match wanted(&request) {
        Ok(wanted) => wanted,
        Err((status, reason)) => return Ok(text(status, reason)),
    };
    match route {
        Route::Ready => return Ok(text(StatusCode::OK, "ready\n")),
        Route::Metrics => return Ok(text(StatusCode::OK, desk.metrics.text())),
        Route::Headers | Route::Echo => {}
    }
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(problem) if problem.is::<http_body_util::LengthLimitError>() => {
            let said = "found a body of more than 16 MiB, expected at most that\n";
            return Ok(text(StatusCode::PAYLOAD_TOO_LARGE, said));
        }
        Err(_) => return Ok(text(StatusCode::BAD_REQUEST, "the body was cut short\n")),
    };
    let drawn = desk.draw(knobs);
    desk.serve(drawn.delay_ns).await;
    let closes = end(line, drawn.close)?;
    let mut reply = match route {
        Route::Headers => json_of_headers(&head.headers),
        _ => echo(body, head.headers.get(CONTENT_TYPE), &drawn),
    };
    *reply.status_mut() = status(drawn.status);
    if matches!(reply.status().as_u16(), 204 | 205 | 304) {
        *reply.body_mut() = Full::default();
    }
    if closes && head.version == Version::HTTP_11 {
        let close = HeaderValue::from_static("close");
        reply.headers_mut().insert(CONNECTION, close);
    }
    Ok(reply)
}

/// Ends the connection as drawn; whether it goes on until after the answer and
/// ends then.
pub(crate) fn end(line: &Line, close: Option<Close>) -> Result<bool, Cut> {
    let Some(close) = close else { return Ok(false) };
    line.end(close);
    match close {
        Close::After => Ok(true),
        Close::Abort | Close::Reset | Close::Stream => Err(Cut),
    }
}

/// # Errors
/// The status and the reason to refuse with.
fn wanted(request: &Request<Incoming>) -> Result<(Route, Knobs), (StatusCode, String)> {
    let refused = |e: KnobError| (StatusCode::BAD_REQUEST, format!("{e}\n"));
    let mut knobs = from_headers(request.headers()).map_err(refused)?;
    let query = request.uri().query().unwrap_or("");
    for name in NAMES {
        if let Some(value) = query_value(query, name) {
            knobs.set(name, &value).map_err(refused)?;
        }
    }
    let path = request.uri().path();
    let route = match path {
        "/" | "/echo" => Route::Echo,
        "/headers" => Route::Headers,
        "/ready" => Route::Ready,
        "/metrics" => Route::Metrics,
        _ => {
            let Some((name, value)) = knob_of_path(path) else {
                let said = format!("found the path {path}, expected one of: {PATHS}\n");
                return Err((StatusCode::NOT_FOUND, said));
            };
            knobs.set(name, &value).map_err(refused)?;
            Route::Echo
        }
    };
    Ok((route, knobs))
}

/// `/delay/10ms`, `/status/503`, `/bytes/1KiB`; a bare number is a delay in seconds.
fn knob_of_path(path: &str) -> Option<(&'static str, String)> {
    let (kind, value) = path.strip_prefix('/')?.split_once('/')?;
    let value = query_value(&format!("v={value}"), "v")?;
    let name = match kind {
        "delay" => "delay",
        "status" => "status",
        "bytes" => "size",
        _ => return None,
    };
    let seconds = name == "delay" && value.parse::<f64>().is_ok_and(|v| v > 0.0);
    Some((name, if seconds { format!("{value}s") } else { value }))
}

/// The knobs that `tare-delay` and its like set.
///
/// # Errors
/// A value that a knob cannot have, and a header of that prefix which is no knob.
pub(crate) fn from_headers(headers: &HeaderMap) -> Result<Knobs, KnobError> {
    let mut knobs = Knobs::default();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(PREFIX) else {
            continue;
        };
        let value = String::from_utf8_lossy(value.as_bytes());
        if !knobs.set(name, &value)? {
            return Err(KnobError {
                knob: "header",
                problem: format!(
                    "found {PREFIX}{name}, expected one of: tare-delay, tare-size, tare-status, tare-close"
                ),
            });
        }
    }
    Ok(knobs)
}

fn echo(body: Bytes, content_type: Option<&HeaderValue>, drawn: &Drawn) -> Response<Full<Bytes>> {
    let (body, content_type) = match drawn.size {
        Some(size) => (filling(size), None),
        None => (body, content_type),
    };
    let default = HeaderValue::from_static("text/plain");
    let mut reply = Response::new(Full::new(body));
    let content_type = content_type.cloned().unwrap_or(default);
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

/// So many letters.
pub(crate) fn filling(size: usize) -> Bytes {
    static FILLING: OnceLock<Bytes> = OnceLock::new();
    let all = FILLING.get_or_init(|| {
        let letters = b"abcdefghijklmnopqrstuvwxyz01234\n";
        Bytes::from(letters.repeat(BODY_MAX / letters.len()))
    });
    all.slice(..size.min(BODY_MAX))
}

fn json_of_headers(headers: &HeaderMap) -> Response<Full<Bytes>> {
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let joined = all.entry(name.as_str()).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(&value);
    }
    let body = serde_json::json!({ "headers": all }).to_string();
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    let json = HeaderValue::from_static("application/json");
    reply.headers_mut().insert(CONTENT_TYPE, json);
    reply
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    crate::http::reply(status, "text/plain", body)
}

/// The status as HTTP has it; codes of gRPC as gateways translate them.
fn status(wanted: Option<Wanted>) -> StatusCode {
    let code = match wanted {
        None => return StatusCode::OK,
        Some(Wanted::Http(status)) => return status,
        Some(Wanted::Grpc(code)) => code,
    };
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Aborted | Code::AlreadyExists => StatusCode::CONFLICT,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_knobs_too() {
        let of = |path| knob_of_path(path);
        let known = |name, value: &str| Some((name, value.to_owned()));
        assert_eq!(of("/delay/10ms"), known("delay", "10ms"));
        assert_eq!(of("/delay/1.5"), known("delay", "1.5s"));
        assert_eq!(of("/status/503%3A2,500:1"), known("status", "503:2,500:1"));
        assert_eq!(of("/bytes/1KiB"), known("size", "1KiB"));
        assert_eq!((of("/nothing/1"), of("/delay")), (None, None));
    }

    #[test]
    fn a_strange_header_of_ours_is_a_mistake() {
        let mut headers = HeaderMap::new();
        headers.insert("tare-delay", HeaderValue::from_static("1ms"));
        assert!(from_headers(&headers).is_ok());
        headers.insert("tare-dealy", HeaderValue::from_static("1ms"));
        let said = from_headers(&headers).unwrap_err().to_string();
        assert!(
            said.contains("tare-dealy") && said.contains("tare-size"),
            "{said}"
        );
    }

    #[test]
    fn fillings_have_their_size() {
        assert_eq!(filling(3).as_ref(), b"abc");
        assert_eq!(filling(BODY_MAX).len(), BODY_MAX);
    }
}
