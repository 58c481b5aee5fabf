//! A small registry in memory, which checks what it receives.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// `ann:secret` in base64.
const ANN: &str = "Basic YW5uOnNlY3JldA==";
/// Requests for which a token is valid, fewer than a push needs.
const TOKEN_REQUESTS: usize = 4;

/// How the registry identifies users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    None,
    /// By a token that the user `ann` gets with her password, or her identity token.
    Token,
    /// By the password of `ann`.
    Password,
    /// It refuses everyone's uploads.
    ReadOnly,
}

#[derive(Debug, Default)]
pub(crate) struct Stored {
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// Media type and bytes by tag and by digest.
    pub(crate) manifests: BTreeMap<String, (String, Vec<u8>)>,
    /// Number of uploads.
    pub(crate) uploads: usize,
    /// Number of tokens.
    pub(crate) tokens: usize,
    /// Number of requests with the last token.
    uses: usize,
    /// Whether it states a wrong digest.
    pub(crate) lies: bool,
}

pub(crate) struct Registry {
    pub(crate) address: SocketAddr,
    pub(crate) stored: Arc<Mutex<Stored>>,
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hex = digest(&SHA256, bytes);
    let hex: String = hex.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256:{hex}")
}

impl Registry {
    /// Starts a registry on a thread of its own, which ends with the process.
    pub(crate) fn start(login: Login) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let stored = Arc::new(Mutex::new(Stored::default()));
        let shared = Arc::clone(&stored);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(serve(listener, address, login, shared));
        });
        Self { address, stored }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    address: SocketAddr,
    login: Login,
    stored: Arc<Mutex<Stored>>,
) {
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    while let Ok((stream, _)) = listener.accept().await {
        let stored = Arc::clone(&stored);
        let service = service_fn(move |request: Request<Incoming>| {
            let stored = Arc::clone(&stored);
            async move {
                let (parts, body) = request.into_parts();
                let body = body
                    .collect()
                    .await
                    .map(|b| b.to_bytes())
                    .unwrap_or_default();
                let header = |name: &str| {
                    let value = parts.headers.get(name).and_then(|v| v.to_str().ok());
                    value.unwrap_or_default().to_owned()
                };
                let received = Received {
                    method: parts.method.to_string(),
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().unwrap_or_default().to_owned(),
                    authorization: header("authorization"),
                    kind: header("content-type"),
                    body,
                };
                let answer = stored.lock().unwrap().answer(&received, address, login);
                let mut response = Response::new(Full::new(Bytes::from(answer.body)));
                *response.status_mut() = answer.status.try_into().unwrap();
                for (name, value) in answer.headers {
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
                Ok::<_, Infallible>(response)
            }
        });
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

struct Received {
    method: String,
    path: String,
    query: String,
    authorization: String,
    kind: String,
    body: Bytes,
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: String,
}

fn answer(status: u16, headers: Vec<(&'static str, String)>) -> Answer {
    Answer {
        status,
        headers,
        body: String::new(),
    }
}

fn error(status: u16, code: &str, message: &str) -> Answer {
    Answer {
        body: json!({"errors": [{"code": code, "message": message}]}).to_string(),
        ..answer(status, Vec::new())
    }
}

impl Stored {
    fn answer(&mut self, request: &Received, address: SocketAddr, login: Login) -> Answer {
        if request.path == "/token" {
            return self.token(request);
        }
        let challenge = match login {
            Login::Token => {
                let token = format!("Bearer token-{}", self.tokens);
                self.uses += 1;
                let valid = request.authorization == token && self.uses <= TOKEN_REQUESTS;
                (!valid)
                    .then(|| format!("Bearer realm=\"http://{address}/token\",service=\"fake\""))
            }
            Login::Password => {
                (request.authorization != ANN).then(|| "Basic realm=\"fake\"".to_owned())
            }
            Login::None | Login::ReadOnly => {
                assert_eq!(request.authorization, "", "nothing asked for a password");
                None
            }
        };
        if let Some(challenge) = challenge {
            let mut refused = error(401, "UNAUTHORIZED", "authentication required");
            refused.headers.push(("www-authenticate", challenge));
            return refused;
        }
        let Some(rest) = request.path.strip_prefix("/v2/") else {
            return answer(404, Vec::new());
        };
        if rest.is_empty() {
            return answer(200, Vec::new());
        }
        let Some(rest) = rest.strip_prefix("team/tare/") else {
            return error(404, "NAME_UNKNOWN", "repository name not known to registry");
        };
        if login == Login::ReadOnly && request.method != "HEAD" {
            return error(403, "DENIED", "requested access to the resource is denied");
        }
        match (request.method.as_str(), rest.split_once('/')) {
            ("HEAD", Some(("blobs", digest))) => match self.blobs.contains_key(digest) {
                true => answer(200, Vec::new()),
                false => answer(404, Vec::new()),
            },
            ("POST", Some(("blobs", "uploads/"))) => {
                let location = "/v2/team/tare/blobs/uploads/7?state=x".to_owned();
                answer(202, vec![("location", location)])
            }
            ("PUT", Some(("blobs", "uploads/7"))) => self.blob(request),
            ("PUT", Some(("manifests", reference))) => self.manifest(request, reference),
            _ => answer(405, Vec::new()),
        }
    }

    fn token(&mut self, request: &Received) -> Answer {
        let of_password = request.method == "GET"
            && request.authorization == ANN
            && request.query == "scope=repository%3Ateam%2Ftare%3Apull%2Cpush&service=fake";
        let form = String::from_utf8_lossy(&request.body);
        let of_identity = request.method == "POST"
            && form.contains("grant_type=refresh_token")
            && form.contains("refresh_token=identity");
        if !of_password && !of_identity {
            return error(401, "UNAUTHORIZED", "incorrect username or password");
        }
        self.tokens += 1;
        self.uses = 0;
        let key = if of_password { "token" } else { "access_token" };
        Answer {
            body: json!({key: format!("token-{}", self.tokens)}).to_string(),
            ..answer(200, Vec::new())
        }
    }

    fn blob(&mut self, request: &Received) -> Answer {
        let digest = sha256(&request.body);
        if request.query != format!("state=x&digest={digest}") {
            return error(400, "DIGEST_INVALID", &request.query);
        }
        self.uploads += 1;
        self.blobs.insert(digest, request.body.to_vec());
        answer(201, Vec::new())
    }

    fn manifest(&mut self, request: &Received, reference: &str) -> Answer {
        let manifest: Value = serde_json::from_slice(&request.body).unwrap();
        let digest = sha256(&request.body);
        let named_wrongly = reference.starts_with("sha256:") && reference != digest;
        if manifest["mediaType"] != request.kind.as_str() || named_wrongly {
            return error(400, "MANIFEST_INVALID", &request.kind);
        }
        let text = |v: &Value| v["digest"].as_str().unwrap_or_default().to_owned();
        let layers = manifest["layers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text);
        let config = manifest.get("config").map(text);
        let mut manifests = manifest["manifests"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text);
        if layers.chain(config).any(|d| !self.blobs.contains_key(&d))
            || manifests.any(|d| !self.manifests.contains_key(&d))
        {
            return error(400, "MANIFEST_BLOB_UNKNOWN", "blob unknown to registry");
        }
        let entry = (request.kind.clone(), request.body.to_vec());
        self.manifests.insert(digest.clone(), entry.clone());
        self.manifests.insert(reference.to_owned(), entry);
        let digest = if self.lies { sha256(b"other") } else { digest };
        answer(201, vec![("docker-content-digest", digest)])
    }
}
