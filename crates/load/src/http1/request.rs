//! Encodes requests, once per endpoint.

use super::header::{is_field_value, is_token, list};

/// Why a request cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The method is not a token.
    #[error("invalid method {0:?}: expected letters, such as GET or POST")]
    Method(String),
    /// The header name is not a token.
    #[error("invalid header name {0:?}: expected letters, digits and hyphens")]
    HeaderName(String),
    /// The header value has control bytes.
    #[error("the value of header {0:?} has control characters: remove them")]
    HeaderValue(String),
    /// A header that the engine sets.
    #[error("header {0:?} is set by tare: remove it")]
    Framing(String),
    /// A header for a kind of exchange that the engine does not have.
    #[error("header {name:?} asks for {asked}, which tare cannot handle: remove it")]
    Unsupported {
        /// The header.
        name: String,
        /// What the server would do.
        asked: &'static str,
    },
    /// A pseudo-header of HTTP/2.
    #[error("{name:?} is a pseudo-header, which tare sets: {instead}")]
    Pseudo {
        /// The header.
        name: String,
        /// What to use.
        instead: &'static str,
    },
    /// A header that HTTP/2 forbids.
    #[error("header {0:?} is only valid in HTTP/1.1: remove it")]
    ConnectionSpecific(String),
    /// CONNECT opens a tunnel and has no response.
    #[error("method CONNECT opens a tunnel: use another method")]
    Connect,
}

/// Encodes a request. `target` is the path with its query; `authority` is the Host header
/// unless `headers` contain one. Adds `Content-Length` to every body, and to methods that
/// usually have one.
///
/// # Errors
/// When the method or a header is invalid, or a header concerns framing.
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

/// Whether a request with these `headers` is the last one of its connection (RFC 9112, section 9.6): the
/// server closes it after the response, and need not announce that. Some proxies also close after
/// `Proxy-Connection: close`.
pub(crate) fn asks_to_close(headers: &[(String, String)]) -> bool {
    let names = ["connection", "proxy-connection"];
    headers
        .iter()
        .filter(|(name, _)| names.iter().any(|n| name.eq_ignore_ascii_case(n)))
        .flat_map(|(_, value)| list(value.as_bytes()))
        .any(|option| option.eq_ignore_ascii_case(b"close"))
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
    if name.starts_with(':') {
        let instead = match &*name.to_ascii_lowercase() {
            ":authority" => "use the header `host` to send an authority other than that of the URL",
            ":method" => "use the method (tare load: -X)",
            ":path" | ":scheme" => "change the URL",
            _ => "remove it",
        };
        let name = name.to_owned();
        return Err(RequestError::Pseudo { name, instead });
    }
    if !is_token(name.as_bytes()) {
        return Err(RequestError::HeaderName(name.to_owned()));
    }
    if !is_field_value(value.as_bytes()) {
        return Err(RequestError::HeaderValue(name.to_owned()));
    }
    let unsupported = [
        ("expect", "an interim response before the body"),
        ("upgrade", "another protocol on the same connection"),
    ];
    if let Some((_, asked)) = unsupported
        .iter()
        .find(|(n, _)| name.eq_ignore_ascii_case(n))
    {
        let name = name.to_owned();
        return Err(RequestError::Unsupported { name, asked });
    }
    let framing = ["content-length", "transfer-encoding"];
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
    fn a_get_has_no_body_and_a_post_always_has_a_length() {
        let agent = concat!("User-Agent: tare/", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            text("GET", &[], None),
            format!("GET /a?b=c HTTP/1.1\r\nHost: h:80\r\n{agent}\r\n\r\n")
        );
        assert!(text("POST", &[], None).ends_with("Content-Length: 0\r\n\r\n"));
        assert!(text("PUT", &[], Some(b"xyz")).ends_with("Content-Length: 3\r\n\r\nxyz"));
    }

    #[test]
    fn a_given_host_header_replaces_the_authority() {
        let t = text("GET", &[("hOst", "other"), ("X-A", "1")], None);
        assert_eq!(t.to_lowercase().matches("host:").count(), 1);
        assert!(t.contains("hOst: other\r\nX-A: 1\r\n"));
    }

    #[test]
    fn close_is_found_in_any_spelling_and_position() {
        let asks = |headers: &[(&str, &str)]| {
            let owned = headers.iter().map(|(n, v)| ((*n).into(), (*v).into()));
            asks_to_close(&owned.collect::<Vec<_>>())
        };
        for value in [
            "close",
            "Close",
            "CLOSE",
            " close\t",
            "keep-alive, close",
            "close,keep-alive",
            "TE ,, cLoSe ,x",
        ] {
            for name in ["Connection", "connection", "CONNECTION", "Proxy-Connection"] {
                assert!(asks(&[(name, value)]), "{name}: {value}");
                let second = [("Connection", "TE"), ("x", "y"), (name, value)];
                assert!(asks(&second), "{name}: {value}");
            }
        }
        for value in [
            "keep-alive",
            "closed",
            "not-close",
            "\"close\"",
            "close x",
            "",
        ] {
            assert!(!asks(&[("Connection", value)]), "{value}");
        }
        assert!(!asks(&[("X-Connection", "close"), ("close", "close")]));
    }

    #[test]
    fn invalid_methods_and_headers_are_errors() {
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
        for (name, asked) in [
            ("Expect", "header \"Expect\" asks for an interim response"),
            ("upgrade", "header \"upgrade\" asks for another protocol"),
        ] {
            let error = bad("GET", name, "x").to_string();
            assert!(error.starts_with(asked), "{error}");
        }
        for (name, instead) in [
            (":authority", "the header `host`"),
            (":Path", "change the URL"),
            (":method", "-X"),
            (":status", "remove it"),
        ] {
            let error = bad("GET", name, "x").to_string();
            assert!(error.contains(name) && error.contains(instead), "{error}");
        }
    }
}
