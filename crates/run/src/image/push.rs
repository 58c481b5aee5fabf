//! Pushes an image to a registry, without Docker.
//!
//! Source: Open Container Initiative, distribution specification, version 1.1.

use ureq::http::header::LOCATION;
use ureq::http::{Method, StatusCode};

use super::registry::{Registry, Response};
use super::{Credentials, INDEX, Image, MANIFEST, Reference, sha256};

const OCTETS: &str = "application/octet-stream";

/// Why an image was not pushed.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// There is no HTTP response.
    #[error("failed to reach the registry {registry}: {found}; {remedy}")]
    Unreachable {
        /// Host of the registry.
        registry: String,
        /// Why.
        found: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The host does not answer as a registry.
    #[error(
        "{url} is not a registry: {found}, expected status 200 or 401; check the name of the registry"
    )]
    NotRegistry {
        /// The URL that every registry has.
        url: String,
        /// What was found.
        found: String,
    },
    /// The user may not push.
    #[error("the registry {registry} refuses to let {user} push to {name}: {found}; {remedy}")]
    Denied {
        /// Host of the registry.
        registry: String,
        /// Who was refused.
        user: String,
        /// Name of the repository.
        name: String,
        /// Status and message of the registry.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Any other response.
    #[error("{request}: {found}, expected {expected}")]
    Response {
        /// Method and URL.
        request: String,
        /// Status and message of the registry.
        found: String,
        /// Expected status.
        expected: String,
    },
}

/// Pushes an image under its name and tag, and returns the name with the tag and the digest. Blobs that the registry has
/// already are not sent again. The credentials are sent only to the registry and to the token server that it names.
///
/// # Errors
/// When the registry cannot be reached, refuses, or stores something else.
pub fn push(
    image: &Image,
    to: &Reference,
    credentials: Option<&Credentials>,
) -> Result<String, PushError> {
    let mut registry = Registry::new(to, credentials);
    registry.check()?;
    for platform in &image.platforms {
        registry.upload(&platform.config)?;
        registry.upload(&platform.layer)?;
    }
    let named = match &image.index {
        None => (MANIFEST, &image.platforms[0].manifest),
        Some(index) => {
            for platform in &image.platforms {
                let digest = sha256(&platform.manifest);
                registry.manifest(&digest, MANIFEST, &platform.manifest)?;
            }
            (INDEX, index)
        }
    };
    registry.manifest(&to.tag, named.0, named.1)?;
    Ok(format!("{to}@{}", image.digest()))
}

impl Registry<'_> {
    /// Uploads a blob, unless the registry has it.
    fn upload(&mut self, blob: &[u8]) -> Result<(), PushError> {
        let digest = sha256(blob);
        let blobs = format!("{}/v2/{}/blobs", self.base, self.image.name);
        let url = format!("{blobs}/{digest}");
        let head = self.send(Method::HEAD, &url, None)?;
        // A redirect leads to the storage that has the blob.
        if head.status.is_success() || head.status.is_redirection() {
            return Ok(());
        }
        let start = format!("{blobs}/uploads/");
        let started = self.send(Method::POST, &start, Some((OCTETS, &[])))?;
        expect(&started, StatusCode::ACCEPTED, "POST", &start)?;
        let location = match started.header(LOCATION.as_str()) {
            Some(url) if url.contains("://") => url.to_owned(),
            Some(path) => format!("{}/{}", self.base, path.trim_start_matches('/')),
            None => {
                return Err(PushError::Response {
                    request: format!("POST {start}"),
                    found: "no header Location".to_owned(),
                    expected: "the URL for the upload".to_owned(),
                });
            }
        };
        let separator = if location.contains('?') { '&' } else { '?' };
        let put = format!("{location}{separator}digest={digest}");
        let stored = self.send(Method::PUT, &put, Some((OCTETS, blob)))?;
        // The parameters of a location may contain a key to the storage.
        let shown = location.split('?').next().unwrap_or_default();
        expect(&stored, StatusCode::CREATED, "PUT", shown)
    }

    /// Stores a manifest under a tag or its digest.
    fn manifest(&mut self, reference: &str, kind: &str, bytes: &[u8]) -> Result<(), PushError> {
        let url = format!("{}/v2/{}/manifests/{reference}", self.base, self.image.name);
        let stored = self.send(Method::PUT, &url, Some((kind, bytes)))?;
        expect(&stored, StatusCode::CREATED, "PUT", &url)?;
        let digest = sha256(bytes);
        match stored.header("docker-content-digest") {
            Some(other) if other != digest => Err(PushError::Response {
                request: format!("PUT {url}"),
                found: format!("the registry stored {other}"),
                expected: digest,
            }),
            _ => Ok(()),
        }
    }
}

/// Checks the status of a response.
fn expect(
    answer: &Response,
    expected: StatusCode,
    method: &str,
    url: &str,
) -> Result<(), PushError> {
    if answer.status == expected {
        return Ok(());
    }
    let mut expected = format!("status {expected}");
    if answer.status == StatusCode::NOT_FOUND {
        expected += ". Some registries need the repository to exist: create it first";
    }
    Err(PushError::Response {
        request: format!("{method} {url}"),
        found: answer.found(),
        expected,
    })
}
