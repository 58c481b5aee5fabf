//! Parses `http://authority/path?query` and `https://`.

use tare_model::load::masked;

/// The parts of a URL that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpUrl {
    /// Whether it begins with `https://`.
    pub(super) tls: bool,
    /// The authority as written, which is also the Host header.
    pub(super) authority: String,
    /// Path and query; at least `/`.
    pub(super) target: String,
}

/// Why a URL cannot be used. The texts are [`masked`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme, or none.
    #[error(
        "invalid URL {0:?}: expected it to begin with http:// or https:// (tare load also accepts \
         grpc:// and grpcs://){hint}",
        hint = hint(.0)
    )]
    Scheme(String),
    /// Empty, with user information, or with an invalid port.
    #[error("invalid authority {0:?}: expected host or host:port")]
    Authority(String),
    /// Spaces, control characters, or characters outside ASCII.
    #[error("invalid path {0:?}: percent-encode spaces, control and non-ASCII characters")]
    Path(String),
}

/// The suggestion for a URL without a scheme, as the end of a message.
fn hint(text: &str) -> String {
    let url = format!("http://{text}");
    match text.contains("://") || HttpUrl::parse(&url).is_err() {
        true => String::new(),
        false => format!("; did you mean {url}?"),
    }
}

impl HttpUrl {
    /// Parses `text`. A fragment is dropped, because it is never sent.
    ///
    /// # Errors
    /// When `text` is not an HTTP URL with a host and an optional port.
    pub(super) fn parse(text: &str) -> Result<Self, UrlError> {
        let scheme_end = text.find("://").unwrap_or(0);
        let scheme = &text[..scheme_end];
        let tls = scheme.eq_ignore_ascii_case("https");
        if !tls && !scheme.eq_ignore_ascii_case("http") {
            return Err(UrlError::Scheme(masked(text)));
        }
        let rest = &text[scheme_end + 3..];
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        host_port(authority, 80)?;
        if !target.bytes().all(|b| (0x21..0x7f).contains(&b)) {
            return Err(UrlError::Path(masked(target)));
        }
        let target = match target.strip_prefix('/') {
            Some(_) => target.to_owned(),
            None => format!("/{target}"),
        };
        Ok(Self {
            tls,
            authority: authority.to_owned(),
            target,
        })
    }

    /// The port if the authority has none.
    pub(super) fn default_port(&self) -> u16 {
        if self.tls { 443 } else { 80 }
    }
}

/// Host (without an IPv6 address's brackets) and port of an authority; `default_port` if the
/// authority has no port.
///
/// # Errors
/// When it is neither `host` nor `host:port`.
pub fn host_port(authority: &str, default_port: u16) -> Result<(&str, u16), UrlError> {
    let bad = || UrlError::Authority(masked(authority));
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(bad)?,
        None => match authority.find(':') {
            Some(at) => authority.split_at(at),
            None => (authority, ""),
        },
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    if host.is_empty() || !host.chars().all(plain) {
        return Err(bad());
    }
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().ok().filter(|&p| p != 0).ok_or_else(bad)?
        }
        None if port.is_empty() => default_port,
        _ => return Err(bad()),
    };
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String) {
        let url = HttpUrl::parse(text).unwrap();
        (url.authority, url.target)
    }

    #[test]
    fn urls_are_parsed() {
        let p = |a: &str, t: &str| (a.to_owned(), t.to_owned());
        assert_eq!(parts("http://h"), p("h", "/"));
        assert_eq!(parts("HTTP://h:81/a/b?c=:d:#e"), p("h:81", "/a/b?c=:d:"));
        assert_eq!(parts("http://h?q"), p("h", "/?q"));
        assert_eq!(parts("http://[::1]:8080/x"), p("[::1]:8080", "/x"));
        assert_eq!(host_port("[::1]:8080", 80), Ok(("::1", 8080)));
        assert_eq!(host_port("a.b-c", 443), Ok(("a.b-c", 443)));
    }

    #[test]
    fn invalid_urls_are_errors() {
        assert_eq!(
            HttpUrl::parse("HTTPS://h/").map(|u| (u.tls, u.default_port())),
            Ok((true, 443))
        );
        for text in ["h", "httpss://h/", "ftp://h", "://h", ""] {
            assert!(
                matches!(HttpUrl::parse(text), Err(UrlError::Scheme(_))),
                "{text}"
            );
        }
        let hint = |text: &str| HttpUrl::parse(text).unwrap_err().to_string();
        assert!(hint("h:80").ends_with("; did you mean http://h:80?"));
        assert!(hint("ftp://h").ends_with("grpcs://)"));
        for text in [
            "http://",
            "http://u@h/",
            "http://h:x/",
            "http://h:/",
            "http://h:0",
            "http://h:70000",
            "http://[::1/",
            "http://[::1]x",
            "http://a b/",
        ] {
            assert!(
                matches!(HttpUrl::parse(text), Err(UrlError::Authority(_))),
                "{text}"
            );
        }
        for text in [
            "http://user:secret@h/",
            "ftp://user:secret@h/?t=secret",
            "http://h/a b?t=secret",
        ] {
            let error = HttpUrl::parse(text).unwrap_err().to_string();
            assert!(
                error.contains("***") && !error.contains("secret"),
                "{error}"
            );
        }
        assert!(matches!(
            HttpUrl::parse("http://h/a b"),
            Err(UrlError::Path(_))
        ));
        assert!(matches!(
            HttpUrl::parse("http://h/é"),
            Err(UrlError::Path(_))
        ));
    }
}
