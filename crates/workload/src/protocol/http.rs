//! HTTP replies, headers and query strings.

use std::collections::BTreeMap;

use http_body_util::{BodyExt, Collected, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::BODY_MAX;
use super::failure::Failure;

pub(crate) type Reply = Response<Full<Bytes>>;

pub(crate) fn no_such_path() -> Reply {
    error(StatusCode::NOT_FOUND, "unknown path")
}

/// The reply, or the reply for a failure.
pub(crate) fn answered(result: Result<Reply, Failure>) -> Reply {
    result.unwrap_or_else(|failure| error(failure.http_status(), &failure.to_string()))
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

/// A reply `{"error": "..."}`.
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

/// The reply, after which the connection is closed.
pub(crate) fn close(mut reply: Reply) -> Reply {
    let close = HeaderValue::from_static("close");
    reply.headers_mut().insert(CONNECTION, close);
    reply
}

/// Reads the complete body of a request.
///
/// # Errors
/// The status and the text of the error response.
pub(crate) async fn read(body: Incoming) -> Result<Collected<Bytes>, (StatusCode, &'static str)> {
    let read = Limited::new(body, BODY_MAX).collect().await;
    read.map_err(|problem| match problem.is::<LengthLimitError>() {
        true => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "the request body is larger than 16 MiB",
        ),
        false => (StatusCode::BAD_REQUEST, "the request body is incomplete"),
    })
}

/// The headers with names in lower case; several values of one name are joined by ", ".
pub(crate) fn joined(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let entry = joined.entry(name.as_str().to_owned()).or_default();
        if !entry.is_empty() {
            entry.push_str(", ");
        }
        entry.push_str(&value);
    }
    joined
}

/// The decoded value of `key` in a query; the first one if there are several.
pub(crate) fn query_value(query: &str, key: &str) -> Option<String> {
    let pairs = query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .into_iter()
        .find(|(k, _)| *k == key)
        .map(|(_, v)| percent_decode(v))
}

/// Decodes `%3A` to `:` and `+` to a space; invalid escapes stay as they are.
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
