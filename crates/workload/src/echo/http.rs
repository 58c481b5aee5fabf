//! Answers HTTP: paths, queries and headers.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode, Version};
use tonic::Code;

use super::control::{Aborted, ConnectionControl};
use super::knobs::{Drawn, KnobError, Knobs, NAMES, ReplyStatus, filling};
use super::metrics::Protocol;
use super::state::WorkerState;
use crate::protocol::http::{Reply, close, joined, json, query_value, read, reply};

const PATHS: &str = "/, /echo, /delay/10ms, /status/503, /bytes/1KiB, /headers, /ready, /metrics";

/// The kind of a path.
enum Route {
    Echo,
    Headers,
    Ready,
    Metrics,
}

/// Answers one HTTP request.
pub(crate) async fn answer(
    state: &WorkerState,
    control: &ConnectionControl,
    request: Request<Incoming>,
) -> Result<Reply, Aborted> {
    let protocol = match request.version() {
        Version::HTTP_2 => Protocol::Http2,
        _ => Protocol::Http1,
    };
    let result = plain(state, control, request).await;
    let status = result.as_ref().ok().map(|r| r.status().as_u16());
    state.shared.metrics.answered(protocol, status);
    result
}

async fn plain(
    state: &WorkerState,
    control: &ConnectionControl,
    request: Request<Incoming>,
) -> Result<Reply, Aborted> {
    let (route, knobs) = match parse(&request) {
        Ok(parsed) => parsed,
        Err((status, reason)) => return Ok(text(status, reason)),
    };
    match route {
        Route::Ready => return Ok(text(StatusCode::OK, "ready\n")),
        Route::Metrics => return Ok(text(StatusCode::OK, state.shared.metrics.text())),
        Route::Headers | Route::Echo => {}
    }
    let (head, body) = request.into_parts();
    let body = match read(body).await {
        Ok(body) => body.to_bytes(),
        Err((status, problem)) => return Ok(text(status, format!("{problem}\n"))),
    };
    let drawn = state.draw(knobs);
    state.serve(drawn.delay_ns).await;
    let closes = control.end(drawn.close)?;
    let mut reply = match route {
        Route::Headers => {
            let headers = joined(&head.headers);
            json(StatusCode::OK, &serde_json::json!({ "headers": headers }))
        }
        _ => echo(body, head.headers.get(CONTENT_TYPE), &drawn),
    };
    *reply.status_mut() = status(drawn.status);
    if matches!(reply.status().as_u16(), 204 | 205 | 304) {
        *reply.body_mut() = Full::default();
    }
    Ok(match closes && head.version == Version::HTTP_11 {
        true => close(reply),
        false => reply,
    })
}

/// Parses path, query and headers.
///
/// # Errors
/// The status and the text of the error response.
fn parse(request: &Request<Incoming>) -> Result<(Route, Knobs), (StatusCode, String)> {
    let refused = |e: KnobError| (StatusCode::BAD_REQUEST, format!("{e}\n"));
    let mut knobs = Knobs::from_headers(request.headers()).map_err(refused)?;
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
                let message = format!("unknown path {path}, expected one of: {PATHS}\n");
                return Err((StatusCode::NOT_FOUND, message));
            };
            knobs.set(name, &value).map_err(refused)?;
            Route::Echo
        }
    };
    Ok((route, knobs))
}

/// The knob of `/delay/10ms`, `/status/503` or `/bytes/1KiB`. A delay without a unit is in
/// seconds.
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

fn echo(body: Bytes, content_type: Option<&HeaderValue>, drawn: &Drawn) -> Reply {
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

fn text(status: StatusCode, body: impl Into<Bytes>) -> Reply {
    reply(status, "text/plain", body)
}

/// The HTTP status of a reply; gRPC codes are mapped as gateways do.
fn status(status: Option<ReplyStatus>) -> StatusCode {
    let code = match status {
        None => return StatusCode::OK,
        Some(ReplyStatus::Http(status)) => return status,
        Some(ReplyStatus::Grpc(code)) => code,
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
    fn paths_can_set_knobs() {
        let of = |path| knob_of_path(path);
        let known = |name, value: &str| Some((name, value.to_owned()));
        assert_eq!(of("/delay/10ms"), known("delay", "10ms"));
        assert_eq!(of("/delay/1.5"), known("delay", "1.5s"));
        assert_eq!(of("/status/503%3A2,500:1"), known("status", "503:2,500:1"));
        assert_eq!(of("/bytes/1KiB"), known("size", "1KiB"));
        assert_eq!((of("/nothing/1"), of("/delay")), (None, None));
    }
}
