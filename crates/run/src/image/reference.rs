//! Names of images in registries.

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::str::FromStr;

/// Name of Docker Hub in names of images; its registry has another address.
const DOCKER_HUB: &str = "docker.io";
const NAME_MAX: usize = 255;
const TAG_MAX: usize = 128;

/// Name of an image in a registry: `REGISTRY/NAME[:TAG]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Host of the registry, and its port if it is not the default.
    pub(super) registry: String,
    /// Name of the repository.
    pub(super) name: String,
    /// Tag. Default: the version of tare.
    pub(super) tag: String,
}

/// A text that does not name an image in a registry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found `{found}`, {reason}; expected REGISTRY/NAME[:TAG], such as registry.example/team/tare:1.0"
)]
pub struct ReferenceError {
    found: String,
    reason: &'static str,
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let error = |reason| ReferenceError {
            found: text.to_owned(),
            reason,
        };
        let (registry, rest) = text
            .split_once('/')
            .ok_or_else(|| error("which has no registry"))?;
        if !is_host(registry) {
            return Err(error("whose first part is not the host of a registry"));
        }
        if rest.contains('@') {
            return Err(error("which has a digest"));
        }
        let (name, tag) = rest
            .rsplit_once(':')
            .unwrap_or((rest, env!("CARGO_PKG_VERSION")));
        if name.len() > NAME_MAX || !name.split('/').all(is_component) {
            return Err(error(
                "whose name has other than lower-case letters, digits and . _ - /",
            ));
        }
        if !is_tag(tag) {
            return Err(error("whose tag has other than letters, digits and . _ -"));
        }
        Ok(Self {
            registry: registry.to_owned(),
            name: name.to_owned(),
            tag: tag.to_owned(),
        })
    }
}

/// Whether a text is a host, with a port or not: other than a part of a name, it has a dot or a colon, or is `localhost`.
fn is_host(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let has_port = text.rsplit_once(':').is_none_or(|(host, port)| {
        !host.is_empty() && (port.ends_with(']') || port.parse::<u16>().is_ok())
    });
    text.chars().all(known) && has_port && (text.contains(['.', ':']) || text == "localhost")
}

fn is_component(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.chars().all(|c| letter(c) || "._-".contains(c))
        && text.starts_with(letter)
        && text.ends_with(letter)
}

fn is_tag(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= TAG_MAX
        && text.starts_with(letter)
        && text.chars().all(|c| letter(c) || ".-".contains(c))
}

impl Reference {
    /// Host of the registry, with its port.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Scheme and host for requests: HTTP on loopback, otherwise HTTPS.
    pub(super) fn base(&self) -> String {
        match (self.registry.as_str(), self.is_loopback()) {
            (DOCKER_HUB, _) => "https://registry-1.docker.io".to_owned(),
            (registry, true) => format!("http://{registry}"),
            (registry, false) => format!("https://{registry}"),
        }
    }

    pub(super) fn is_loopback(&self) -> bool {
        let registry = &self.registry;
        let host = match registry.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => host,
            _ => registry,
        };
        let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        host == "localhost"
            || host.ends_with(".localhost")
            || address.is_some_and(|a| a.is_loopback())
    }

    /// Names of the registry in files with credentials; credential helpers get the first one.
    pub(super) fn credential_keys(&self) -> Vec<String> {
        let registry = &self.registry;
        if registry == DOCKER_HUB {
            return vec![
                "https://index.docker.io/v1/".to_owned(),
                DOCKER_HUB.to_owned(),
            ];
        }
        let urls = ["", "/", "/v1/", "/v2/"].map(|path| format!("https://{registry}{path}"));
        std::iter::once(registry.clone()).chain(urls).collect()
    }
}

impl Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.name, self.tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Reference, ReferenceError> {
        text.parse()
    }

    #[test]
    fn a_name_has_a_registry_and_may_have_a_tag() {
        let full = parse("registry.example:5000/team/tare:v1_2").unwrap();
        assert_eq!(full.registry(), "registry.example:5000");
        assert_eq!(
            (full.name.as_str(), full.tag.as_str()),
            ("team/tare", "v1_2")
        );
        assert_eq!(full.to_string(), "registry.example:5000/team/tare:v1_2");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(parse("localhost/tare").unwrap().tag, version);
        for (text, reason) in [
            ("tare:1", "no registry"),
            ("team/tare:1", "not the host"),
            ("registry.example:port/tare", "not the host"),
            ("registry.example/tare@sha256:00", "digest"),
            ("registry.example/Tare", "lower-case"),
            ("registry.example//tare", "lower-case"),
            ("registry.example/", "lower-case"),
            ("registry.example/tare:", "tag"),
            ("registry.example/tare:a b", "tag"),
        ] {
            let found = parse(text).unwrap_err().to_string();
            assert!(
                found.contains(reason) && found.contains("such as"),
                "{found}"
            );
        }
    }

    #[test]
    fn only_loopback_is_reached_without_tls() {
        for (text, base) in [
            ("localhost:5000/a", "http://localhost:5000"),
            ("kind.localhost:5000/a", "http://kind.localhost:5000"),
            ("127.0.0.1:5000/a", "http://127.0.0.1:5000"),
            ("[::1]:5000/a", "http://[::1]:5000"),
            ("10.0.0.1:5000/a", "https://10.0.0.1:5000"),
            ("registry.example/a", "https://registry.example"),
            ("docker.io/team/a", "https://registry-1.docker.io"),
        ] {
            assert_eq!(parse(text).unwrap().base(), base);
        }
    }
}
