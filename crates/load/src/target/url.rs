//! Parses `http://authority/path?query` and `https://`.

use std::net::Ipv6Addr;

use tare_plan::load::masked;

/// The parts of a URL that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpUrl {
    /// Whether it begins with `https://`.
    pub(super) tls: bool,
    /// The authority for the Host header: without a zone, which means nothing to the server.
    pub(super) authority: String,
    /// The authority as written, which is the address.
    pub(super) address: String,
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
    /// Empty, or with an invalid port.
    #[error("invalid authority {0:?}: expected host or host:port")]
    Authority(String),
    /// With user information.
    #[error(
        "{0:?} has credentials before the host: remove them, and send them as a header; for \
         user:password, that is `authorization: Basic` with their base64 (tare load: -H @FILE)"
    )]
    Credentials(String),
    /// An IPv6 address with a zone that is empty or has invalid characters.
    #[error("invalid zone in {0:?}: expected an interface, such as [fe80::1%25eth0]")]
    Zone(String),
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
        if let Err(error) = host_port(authority, 80) {
            // A password with a slash ends what looks like the authority.
            let shown = masked(text);
            return Err(match shown.contains("***@") {
                true => UrlError::Credentials(shown),
                false => error,
            });
        }
        if !target.bytes().all(|b| (0x21..0x7f).contains(&b)) {
            return Err(UrlError::Path(masked(target)));
        }
        let target = match target.strip_prefix('/') {
            Some(_) => target.to_owned(),
            None => format!("/{target}"),
        };
        Ok(Self {
            tls,
            authority: without_zone(authority),
            address: authority.to_owned(),
            target,
        })
    }

    /// The port if the authority has none.
    pub(super) fn default_port(&self) -> u16 {
        if self.tls { 443 } else { 80 }
    }
}

/// `authority` without the zone of an IPv6 address.
#[must_use]
pub fn without_zone(authority: &str) -> String {
    match (authority.find('%'), authority.find(']')) {
        (Some(zone), Some(end)) if zone < end => {
            format!("{}{}", &authority[..zone], &authority[end..])
        }
        _ => authority.to_owned(),
    }
}

/// `ADDRESS%ZONE` of an IPv6 address, whose zone follows `%25` or, as in other places than URLs, `%`.
fn with_zone(address: &str, zone: &str) -> Option<String> {
    let zone = zone
        .strip_prefix("25")
        .filter(|z| !z.is_empty())
        .unwrap_or(zone);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '@');
    let valid = address.parse::<Ipv6Addr>().is_ok() && !zone.is_empty() && zone.chars().all(plain);
    valid.then(|| format!("{address}%{zone}"))
}

/// Host (without an IPv6 address's brackets, but with its zone as in `fe80::1%eth0`) and port of an
/// authority; `default_port` if the authority has no port.
///
/// # Errors
/// When it is neither `host` nor `host:port`.
pub fn host_port(authority: &str, default_port: u16) -> Result<(String, u16), UrlError> {
    let bad = || UrlError::Authority(masked(authority));
    if authority.contains('@') && !authority.starts_with('[') {
        return Err(UrlError::Credentials(masked(authority)));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or_else(bad)?,
        None => match authority.find(':') {
            Some(at) => authority.split_at(at),
            None => (authority, ""),
        },
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    let host = match host.split_once('%') {
        Some((address, zone)) if authority.starts_with('[') => {
            with_zone(address, zone).ok_or_else(|| UrlError::Zone(authority.to_owned()))?
        }
        _ if host.is_empty() || !host.chars().all(plain) => return Err(bad()),
        _ => host.to_owned(),
    };
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
        assert_eq!(host_port("[::1]:8080", 80), Ok(("::1".into(), 8080)));
        assert_eq!(host_port("a.b-c", 443), Ok(("a.b-c".into(), 443)));
    }

    #[test]
    fn a_zone_is_part_of_the_address_and_not_of_the_host_header() {
        for written in ["[fe80::1%25lo]:81", "[fe80::1%lo]:81"] {
            let url = HttpUrl::parse(&format!("http://{written}/")).unwrap();
            assert_eq!((&*url.authority, &*url.address), ("[fe80::1]:81", written));
            assert_eq!(host_port(written, 80), Ok(("fe80::1%lo".into(), 81)));
        }
        assert_eq!(
            host_port("[fe80::1%2525]", 80),
            Ok(("fe80::1%25".into(), 80))
        );
        assert_eq!(host_port("[fe80::1%25]", 80), Ok(("fe80::1%25".into(), 80)));
        for wrong in [
            "[fe80::1%]",
            "[host%25lo]",
            "[fe80::1%25l o]",
            "[127.0.0.1%25lo]",
        ] {
            let error = HttpUrl::parse(&format!("http://{wrong}/"));
            assert!(
                matches!(error, Err(UrlError::Zone(_))),
                "{wrong}: {error:?}"
            );
        }
    }

    #[test]
    fn credentials_in_a_url_are_refused_with_the_place_where_they_belong() {
        for text in [
            "http://user:secret@h/",
            "https://token@h:8443",
            "http://user:@h",
            "http://user:secret/1@h/",
        ] {
            let error = HttpUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains("authorization: Basic"), "{error}");
            assert!(
                !error.contains("secret") && !error.contains("token"),
                "{error}"
            );
        }
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
