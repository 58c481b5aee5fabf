//! URLs without their secrets, for messages and results.

/// What stands in the place of a secret.
const MASK: &str = "***";

/// Returns `url` with user information and the values of query parameters replaced, and without its
/// fragment. Host, path and the names of the parameters remain.
#[must_use]
pub fn masked(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let (before, query) = match url.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (url, None),
    };
    let start = before.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = before.split_at(start);
    let mut out = scheme.to_owned();
    // A password with a slash looks like a path.
    let end = rest.find('/').unwrap_or(rest.len());
    match rest.rfind('@') {
        Some(at) if at < end || rest[..end].contains(':') && !has_port(&rest[..end]) => {
            out.push_str(MASK);
            out.push_str(&rest[at..]);
        }
        _ => out.push_str(rest),
    }
    if let Some(query) = query {
        let parameters = query.split('&').map(|p| match p.split_once('=') {
            Some((name, value)) if !value.is_empty() => format!("{name}={MASK}"),
            _ => p.to_owned(),
        });
        out.push('?');
        out.push_str(&parameters.collect::<Vec<_>>().join("&"));
    }
    out
}

/// Whether an authority without user information ends in a port.
fn has_port(authority: &str) -> bool {
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit() || b == b']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_and_the_rest_remains() {
        for (url, expected) in [
            ("http://h", "http://h"),
            ("http://h:80/a/b", "http://h:80/a/b"),
            ("http://[::1]:80/@scope/x", "http://[::1]:80/@scope/x"),
            ("http://h:80/a@b", "http://h:80/a@b"),
            ("http://user:secret@h/", "http://***@h/"),
            ("http://secret@h", "http://***@h"),
            ("http://user:se/cret@h/", "http://***@h/"),
            ("http://user:s@cret@h/", "http://***@h/"),
            ("user:secret@h", "***@h"),
            ("https://h/a?token=secret", "https://h/a?token=***"),
            (
                "http://h?a=secret&b&c=&d=x=secret",
                "http://h?a=***&b&c=&d=***",
            ),
            ("grpc://h/p.S/M#secret", "grpc://h/p.S/M"),
            ("/a?token=secret", "/a?token=***"),
        ] {
            assert_eq!(masked(url), expected);
        }
    }
}
