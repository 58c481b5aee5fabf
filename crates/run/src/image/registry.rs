//! Requests to a registry, as an anonymous user or with credentials.
//!
//! Source: CNCF Distribution, token authentication specification.

use std::io::{ErrorKind, Read as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use ureq::http::{HeaderMap, Method, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::{Credentials, PushError, Reference};

const CONNECT_WITHIN: Duration = Duration::from_secs(15);
/// A registry may check a whole layer before it answers.
const RESPONSE_WITHIN: Duration = Duration::from_secs(300);
const WRITE_WITHIN: Duration = Duration::from_secs(60);
/// Most bytes of an answer that are read.
const BODY_MAX: u64 = 1 << 20;
/// Most characters of an answer in a message.
const MESSAGE_MAX: usize = 300;

/// A response; its body is read.
pub(super) struct Response {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The status and, if there is one, the message of the registry.
    pub(super) fn found(&self) -> String {
        let errors: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let first = &errors["errors"][0];
        let [code, message] =
            ["code", "message"].map(|key| first[key].as_str().unwrap_or_default());
        let text = match (code, message, self.header("location")) {
            // The query may be a signature.
            ("", "", Some(location)) => {
                format!("to {}", location.split('?').next().unwrap_or_default())
            }
            ("", "", None) => String::new(),
            _ => format!("{code} {message}"),
        };
        let text: String = text.trim().chars().take(MESSAGE_MAX).collect();
        match text.as_str() {
            "" => format!("status {}", self.status),
            text => format!("status {} ({text})", self.status),
        }
    }
}

/// A connection to a registry.
pub(super) struct Registry<'a> {
    agent: ureq::Agent,
    pub(super) base: String,
    pub(super) image: &'a Reference,
    credentials: Option<&'a Credentials>,
    authorization: Option<String>,
}

impl<'a> Registry<'a> {
    pub(super) fn new(image: &'a Reference, credentials: Option<&'a Credentials>) -> Self {
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // No redirect is followed, so that no credentials reach another host.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_resolve(Some(CONNECT_WITHIN))
            .timeout_connect(Some(CONNECT_WITHIN))
            .timeout_per_write(Some(WRITE_WITHIN))
            .timeout_recv_response(Some(RESPONSE_WITHIN))
            .timeout_recv_body(Some(RESPONSE_WITHIN));
        if image.is_loopback() {
            // Proxy settings of the system do not apply.
            config = config.proxy(None);
        } else if let Some(roots) = system_roots() {
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Self {
            agent: ureq::Agent::new_with_config(config.build()),
            base: image.base(),
            image,
            credentials,
            authorization: None,
        }
    }

    /// Checks that the host is a registry.
    pub(super) fn check(&mut self) -> Result<(), PushError> {
        let url = format!("{}/v2/", self.base);
        let answer = self.once(Method::GET, &url, None)?;
        match answer.status {
            StatusCode::OK => Ok(()),
            StatusCode::UNAUTHORIZED if answer.headers.contains_key(WWW_AUTHENTICATE) => {
                self.authorize(&answer)
            }
            _ => Err(PushError::NotRegistry {
                url,
                found: answer.found(),
            }),
        }
    }

    /// Sends a request, and once more with a new token if the first one has expired.
    pub(super) fn send(
        &mut self,
        method: Method,
        url: &str,
        body: Option<(&str, &[u8])>,
    ) -> Result<Response, PushError> {
        let mut answer = self.once(method.clone(), url, body)?;
        if answer.status == StatusCode::UNAUTHORIZED && self.is_own(url) {
            self.authorize(&answer)?;
            answer = self.once(method, url, body)?;
        }
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(self.denied(&answer)),
            _ => Ok(answer),
        }
    }

    /// Whether a URL is one of the registry, and not of its storage.
    fn is_own(&self, url: &str) -> bool {
        let rest = url.strip_prefix(&self.base);
        rest.is_some_and(|rest| rest.starts_with('/'))
    }

    fn once(
        &self,
        method: Method,
        url: &str,
        body: Option<(&str, &[u8])>,
    ) -> Result<Response, PushError> {
        tracing::debug!(%method, url = url.split('?').next(), "request to the registry");
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        let own = self.authorization.as_ref().filter(|_| self.is_own(url));
        if let Some(authorization) = own {
            request = request.header(AUTHORIZATION, authorization);
        }
        let answer = match body {
            None => request
                .body(())
                .map_err(ureq::Error::Http)
                .and_then(|r| self.agent.run(r)),
            Some((kind, bytes)) => {
                let request = request.header(CONTENT_TYPE, kind).body(bytes);
                request
                    .map_err(ureq::Error::Http)
                    .and_then(|r| self.agent.run(r))
            }
        };
        self.read(answer)
    }

    fn read(
        &self,
        answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> Result<Response, PushError> {
        let unreachable = |error: ureq::Error| {
            // Errors of TLS have this kind.
            let is_tls = matches!(&error, ureq::Error::Io(e) if e.kind() == ErrorKind::InvalidData);
            PushError::Unreachable {
                registry: self.image.registry.clone(),
                found: match error {
                    ureq::Error::Io(error) => error.to_string(),
                    other => other.to_string(),
                },
                remedy: match is_tls {
                    true => {
                        "tare uses HTTPS, except on loopback; the certificate must be valid by the system's trust store or \
                         by the file SSL_CERT_FILE"
                    }
                    false => "check its name and port, the name server, and HTTPS_PROXY",
                },
            }
        };
        let mut answer = answer.map_err(unreachable)?;
        let mut body = Vec::new();
        let mut reader = answer.body_mut().as_reader().take(BODY_MAX);
        let read = reader.read_to_end(&mut body);
        read.map_err(|error| unreachable(error.into()))?;
        Ok(Response {
            status: answer.status(),
            headers: answer.headers().clone(),
            body,
        })
    }

    /// Answers the challenge of the registry: with the password itself, or with a token of the server that it names.
    fn authorize(&mut self, challenged: &Response) -> Result<(), PushError> {
        let challenges = challenged.headers.get_all(WWW_AUTHENTICATE).iter();
        let challenges: Vec<&str> = challenges.filter_map(|c| c.to_str().ok()).collect();
        let of = |scheme: &str| {
            let starts = |c: &&&str| {
                c.get(..scheme.len())
                    .is_some_and(|s| s.eq_ignore_ascii_case(scheme))
            };
            challenges.iter().find(starts).copied()
        };
        let basic = self.credentials.and_then(basic);
        self.authorization = match of("Bearer ") {
            Some(challenge) => Some(format!("Bearer {}", self.token(challenge)?)),
            None if basic.is_some() && of("Basic").is_some() => basic,
            None => return Err(self.denied(challenged)),
        };
        Ok(())
    }

    /// Fetches a token with the right to push.
    fn token(&self, challenge: &str) -> Result<String, PushError> {
        let realm = parameter(challenge, "realm").unwrap_or_default();
        let service = parameter(challenge, "service").unwrap_or_default();
        // The password must not leave over a connection that is less protected than that of the registry.
        let is_plain = realm.starts_with("http://") && self.image.is_loopback();
        if !is_plain && !realm.starts_with("https://") {
            return Err(PushError::Response {
                request: format!("GET {}/v2/", self.base),
                found: format!("the token server `{realm}`"),
                expected: "an https URL".to_owned(),
            });
        }
        let scope = format!("repository:{}:pull,push", self.image.name);
        let answer = match self.credentials {
            Some(Credentials::IdentityToken(token)) => self.agent.post(realm).send_form([
                ("grant_type", "refresh_token"),
                ("client_id", "tare"),
                ("service", service),
                ("scope", scope.as_str()),
                ("refresh_token", token.as_str()),
            ]),
            other => {
                let mut request = self.agent.get(realm).query("scope", &scope);
                if !service.is_empty() {
                    request = request.query("service", service);
                }
                if let Some(basic) = other.and_then(basic) {
                    request = request.header(AUTHORIZATION, basic);
                }
                request.call()
            }
        };
        let answer = self.read(answer)?;
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let token = ["token", "access_token"]
            .iter()
            .find_map(|key| body[key].as_str());
        match (answer.status, token) {
            (StatusCode::OK, Some(token)) => Ok(token.to_owned()),
            (StatusCode::OK, None) => Err(PushError::Response {
                request: format!("GET {realm}"),
                found: "a response without a token".to_owned(),
                expected: "`token` or `access_token`".to_owned(),
            }),
            _ => Err(self.denied(&answer)),
        }
    }

    fn denied(&self, answer: &Response) -> PushError {
        let registry = &self.image.registry;
        let (user, remedy) = match self.credentials {
            None => (
                "an anonymous user".to_owned(),
                format!("log in with `docker login {registry}` or `podman login {registry}`, or name a credential \
                         helper in ~/.docker/config.json"),
            ),
            Some(credentials) => (
                match credentials {
                    Credentials::Password { user, .. } => format!("the user `{user}`"),
                    Credentials::IdentityToken(_) => "the owner of the identity token".to_owned(),
                },
                "check that the login has not expired, that the user may push, and that the repository exists".to_owned(),
            ),
        };
        PushError::Denied {
            registry: registry.clone(),
            user,
            name: self.image.name.clone(),
            found: answer.found(),
            remedy,
        }
    }
}

fn basic(credentials: &Credentials) -> Option<String> {
    match credentials {
        Credentials::Password { user, password } => Some(format!(
            "Basic {}",
            STANDARD.encode(format!("{user}:{password}"))
        )),
        Credentials::IdentityToken(_) => None,
    }
}

/// Returns the value of `name="value"` in a challenge.
fn parameter<'a>(challenge: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = challenge.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

/// Returns the certificates of the system's trust store; `None` if it is empty.
fn system_roots() -> Option<RootCerts> {
    let found = rustls_native_certs::load_native_certs().certs;
    let roots: Vec<_> = found
        .iter()
        .map(|c| Certificate::from_der(c).to_owned())
        .collect();
    (!roots.is_empty()).then(|| RootCerts::from(roots))
}
