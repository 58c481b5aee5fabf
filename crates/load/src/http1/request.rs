//! Requests as bytes, encoded once for each endpoint.

use super::header::{is_field_value, is_token};

/// Why a request cannot be sent as it was described.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Not a token.
    #[error("method {0:?} is not a token: expected letters such as GET or POST")]
    Method(String),
    /// Not a token.
    #[error("header name {0:?} is not a token: expected letters, digits and hyphens")]
    HeaderName(String),
    /// Control bytes.
    #[error("the value of header {0:?} holds control characters: remove them")]
    HeaderValue(String),
    /// The engine frames the request itself.
    #[error("header {0:?} is set by tare itself from the body: remove it")]
    Framing(String),
    /// HTTP/2 has no such header.
    #[error("header {0:?} belongs to HTTP/1.1: remove it")]
    ConnectionSpecific(String),
    /// CONNECT makes a tunnel, not a response.
    #[error("method CONNECT makes a tunnel: use another method")]
    Connect,
}

/// Encodes a request: `target` is the path with its query, `authority` the Host
/// header unless `headers` bring their own. A `Content-Length` goes with every
/// body, and with methods that usually carry one.
///
/// # Errors
/// When the method or a header is not valid, or a header concerns framing.
pub fn encode_request(
    method: &str,
    target: &str,
    authority: &str,
    headers: &[(String, String)],
    body: Option<&[u8]>,
) -> Result<Vec<u8>, RequestError> {
    check_method(method)?;
    let has = |name: &str| headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    let mut out = format!("{method} {target} HTTP/1.1\r\n");
    if !has("host") {
        out.push_str(&format!("Host: {authority}\r\n"));
    }
    if !has("user-agent") {
        out.push_str(concat!(
            "User-Agent: tare/",
            env!("CARGO_PKG_VERSION"),
            "\r\n"
        ));
    }
    for (name, value) in headers {
        check_header(name, value)?;
        out.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(length) = content_length(method, body) {
        out.push_str(&format!("Content-Length: {length}\r\n"));
    }
    out.push_str("\r\n");
    let mut out = out.into_bytes();
    out.extend_from_slice(body.unwrap_or_default());
    Ok(out)
}

pub(crate) fn check_method(method: &str) -> Result<(), RequestError> {
    if !is_token(method.as_bytes()) {
        return Err(RequestError::Method(method.to_owned()));
    }
    if method == "CONNECT" {
        return Err(RequestError::Connect);
    }
    Ok(())
}

pub(crate) fn check_header(name: &str, value: &str) -> Result<(), RequestError> {
    if !is_token(name.as_bytes()) {
        return Err(RequestError::HeaderName(name.to_owned()));
    }
    if !is_field_value(value.as_bytes()) {
        return Err(RequestError::HeaderValue(name.to_owned()));
    }
    let framing = ["content-length", "transfer-encoding", "expect", "upgrade"];
    if framing.iter().any(|f| name.eq_ignore_ascii_case(f)) {
        return Err(RequestError::Framing(name.to_owned()));
    }
    Ok(())
}

pub(crate) fn content_length(method: &str, body: Option<&[u8]>) -> Option<usize> {
    match body {
        Some(body) => Some(body.len()),
        None if matches!(method, "POST" | "PUT" | "PATCH") => Some(0),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(method: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> String {
        let headers: Vec<_> = headers
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        String::from_utf8(encode_request(method, "/a?b=c", "h:80", &headers, body).unwrap())
            .unwrap()
    }

    #[test]
    fn a_get_has_no_body_and_a_post_always_a_length() {
        let agent = concat!("User-Agent: tare/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            text("GET", &[], None),
            format!("GET /a?b=c HTTP/1.1\r\nHost: h:80\r\n{agent}\r\n\r\n")
        );
        assert!(text("POST", &[], None).ends_with("Content-Length: 0\r\n\r\n"));
        assert!(text("PUT", &[], Some(b"xyz")).ends_with("Content-Length: 3\r\n\r\nxyz"));
    }

    #[test]
    fn a_host_header_of_ones_own_replaces_the_authority() {
        let t = text("GET", &[("hOst", "other"), ("X-A", "1")], None);
        assert_eq!(t.to_lowercase().matches("host:").count(), 1);
        assert!(t.contains("hOst: other\r\nX-A: 1\r\n"));
    }

    #[test]
    fn what_would_break_the_framing_is_refused() {
        let bad = |m: &str, n: &str, v: &str| {
            encode_request(m, "/", "h", &[(n.to_owned(), v.to_owned())], None).unwrap_err()
        };
        assert_eq!(bad("G T", "a", "b"), RequestError::Method("G T".into()));
        assert_eq!(bad("CONNECT", "a", "b"), RequestError::Connect);
        assert_eq!(
            bad("GET", "a b", "b"),
            RequestError::HeaderName("a b".into())
        );
        assert_eq!(
            bad("GET", "a", "b\r\nc: d"),
            RequestError::HeaderValue("a".into())
        );
        assert_eq!(
            bad("GET", "Content-length", "5"),
            RequestError::Framing("Content-length".into())
        );
    }
}
