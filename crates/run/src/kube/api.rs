//! Requests to the API server. What may be repeated is repeated while the server is
//! away or busy: a restart in the middle of a trial costs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{Method, Request, StatusCode};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::Instant;

use super::kinds::Kind;
use super::lines::Lines;
use crate::environment::EnvironmentError;

/// How long a server that is away is waited for.
const AWAY_MAX: Duration = Duration::from_secs(60);
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Longest wait for the head of an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Why a request came to nothing.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{doing}: {found}")]
pub struct ApiError {
    /// Method and path.
    pub doing: String,
    /// Status; `None` when there was no answer.
    pub status: Option<u16>,
    /// What the server said.
    pub found: String,
}

impl ApiError {
    /// Whether the object is not there.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.status == Some(404)
    }

    /// Whether the role does not allow it.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    fn may_pass(&self) -> bool {
        // 409: another writer was faster, or what was there is still on its way out.
        self.status
            .is_none_or(|s| matches!(s, 409 | 429) || s >= 500)
    }
}

impl From<ApiError> for EnvironmentError {
    fn from(error: ApiError) -> Self {
        Self::Cluster {
            doing: error.doing,
            found: error.found,
        }
    }
}

/// A connection to one cluster.
#[derive(Clone)]
pub struct Api {
    client: Client,
    repeated: Arc<AtomicU32>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Api")
    }
}

fn missing(what: String) -> EnvironmentError {
    EnvironmentError::Missing {
        what,
        remedy: "set `kubernetes.kubeconfig`, TARE_KUBECONFIG or KUBECONFIG, and --context"
            .to_owned(),
    }
}

fn read(kubeconfig: Option<&str>) -> Result<Kubeconfig, EnvironmentError> {
    let read = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    read.map_err(|e| missing(format!("there is no kubeconfig: {e}")))
}

/// How a patch is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patch {
    /// The whole object, made or changed.
    Apply,
    /// Some fields.
    Merge,
}

impl Api {
    /// The cluster of a kubeconfig's context.
    ///
    /// # Errors
    /// When there is no usable kubeconfig.
    pub async fn connect(
        kubeconfig: Option<&str>,
        context: Option<&str>,
    ) -> Result<Self, EnvironmentError> {
        let config = read(kubeconfig)?;
        let options = KubeConfigOptions {
            context: context.map(ToOwned::to_owned),
            ..KubeConfigOptions::default()
        };
        let config = Config::from_custom_kubeconfig(config, &options)
            .await
            .map_err(|e| missing(format!("the kubeconfig is not usable: {e}")))?;
        Self::with(config).map_err(|e| missing(format!("the cluster cannot be reached: {e}")))
    }

    /// Address of the API server of a kubeconfig's context.
    ///
    /// # Errors
    /// When there is no usable kubeconfig, or no such context in it.
    pub fn server(
        kubeconfig: Option<&str>,
        context: Option<&str>,
    ) -> Result<String, EnvironmentError> {
        let config = read(kubeconfig)?;
        let name = context.or(config.current_context.as_deref()).unwrap_or("");
        let context = config.contexts.iter().find(|c| c.name == name);
        let cluster = context.and_then(|c| c.context.as_ref());
        let cluster = cluster.and_then(|c| config.clusters.iter().find(|k| k.name == c.cluster));
        let server = cluster.and_then(|c| c.cluster.as_ref()?.server.clone());
        server.ok_or_else(|| {
            let known: Vec<&str> = config.contexts.iter().map(|c| c.name.as_str()).collect();
            missing(format!(
                "found no context `{name}` with a cluster in the kubeconfig, it has: {}",
                known.join(", ")
            ))
        })
    }

    /// With a configuration made by hand.
    ///
    /// # Errors
    /// When there is no client for it.
    pub fn with(mut config: Config) -> Result<Self, kube::Error> {
        config.connect_timeout = Some(Duration::from_secs(5));
        // A stream may be silent for long: only heads of answers have a time.
        config.read_timeout = None;
        Ok(Self {
            client: Client::try_from(config)?,
            repeated: Arc::default(),
        })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &[u8],
    ) -> Result<hyper::Response<Body>, ApiError> {
        let failed = |found: String| ApiError {
            doing: format!("{method} {}", path.split('?').next().unwrap_or(path)),
            status: None,
            found,
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("accept", "application/json, */*")
            .header("content-type", kind)
            .body(Body::from(body.to_vec()))
            .map_err(|e| failed(e.to_string()))?;
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.client.send(request)).await;
        let response = answer
            .map_err(|_| failed(format!("no answer within {} s", ANSWER_WITHIN.as_secs())))?
            .map_err(|e| failed(innermost(&e)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.into_body().collect().await;
        let body = body.map(|b| b.to_bytes()).unwrap_or_default();
        Err(ApiError {
            status: Some(status.as_u16()),
            ..failed(message(status, &body))
        })
    }

    /// The same again while the server is away.
    async fn patiently(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &[u8],
    ) -> Result<Value, ApiError> {
        self.patiently_but(method, path, kind, body, None).await
    }

    /// The same, with a status that is an answer.
    async fn patiently_but(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &[u8],
        answer: Option<u16>,
    ) -> Result<Value, ApiError> {
        let until = Instant::now() + AWAY_MAX;
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match self.once(method.clone(), path, kind, body).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let is_answer = error.status.is_some() && error.status == answer;
            if is_answer || !error.may_pass() || Instant::now() > until {
                return Err(error);
            }
            self.repeated.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Requests that had to be sent again so far.
    pub(super) fn repeated(&self) -> u32 {
        self.repeated.load(Ordering::Relaxed)
    }

    async fn once(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &[u8],
    ) -> Result<Value, ApiError> {
        let doing = format!("{method} {}", path.split('?').next().unwrap_or(path));
        let response = self.send(method, path, kind, body).await?;
        let cut = |found: String| ApiError {
            doing: doing.clone(),
            status: None,
            found,
        };
        let body = response.into_body().collect().await;
        let bytes = body.map_err(|e| cut(e.to_string()))?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|e| cut(format!("the answer is no JSON: {e}")))
    }

    /// One object.
    ///
    /// # Errors
    /// [`ApiError`], among others when it is not there.
    pub async fn get(&self, kind: Kind, namespace: &str, name: &str) -> Result<Value, ApiError> {
        allowed(kind, "get")?;
        let path = kind.object(Some(namespace), name);
        self.patiently(Method::GET, &path, JSON, b"").await
    }

    /// All objects of a namespace, or of all with `None`, that a label selector takes
    /// (all, where it is empty).
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn list(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError> {
        allowed(kind, "list")?;
        let path = match selector {
            "" => kind.path(namespace),
            _ => format!(
                "{}?labelSelector={}",
                kind.path(namespace),
                encoded(selector)
            ),
        };
        let mut list = self.patiently(Method::GET, &path, JSON, b"").await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Makes an object in a namespace that is the run's own. One of that name is what a
    /// request made whose answer was lost.
    pub(super) async fn create(&self, kind: Kind, object: &Value) -> Result<(), ApiError> {
        allowed(kind, "create")?;
        let path = kind.path(object["metadata"]["namespace"].as_str());
        let body = serde_json::to_vec(object).unwrap_or_default();
        match self
            .patiently_but(Method::POST, &path, JSON, &body, Some(409))
            .await
        {
            Err(error) if error.status == Some(409) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Makes or changes an object to be as `object` says.
    ///
    /// # Errors
    /// [`ApiError`].
    pub(super) async fn apply(&self, kind: Kind, object: &Value) -> Result<Value, ApiError> {
        allowed(kind, "patch")?;
        allowed(kind, "create")?;
        let namespace = object["metadata"]["namespace"].as_str();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.apply_at(&kind.object(namespace, name), object).await
    }

    /// The same by path, for kinds that only a mesh knows.
    pub(super) async fn apply_at(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager=tare&force=true");
        self.patch_at(&path, Patch::Apply, object).await
    }

    /// Changes some fields.
    pub(super) async fn change(
        &self,
        kind: Kind,
        name: &str,
        change: &Value,
    ) -> Result<Value, ApiError> {
        allowed(kind, "patch")?;
        let path = kind.object(None, name);
        self.patch_at(&path, Patch::Merge, change).await
    }

    async fn patch_at(&self, path: &str, patch: Patch, object: &Value) -> Result<Value, ApiError> {
        let body = serde_json::to_vec(object).unwrap_or_default();
        let kind = match patch {
            Patch::Apply => "application/apply-patch+yaml",
            Patch::Merge => "application/merge-patch+json",
        };
        self.patiently(Method::PATCH, path, kind, &body).await
    }

    /// Removes an object; what is not there is no error. Its parts go in the background.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn delete(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), ApiError> {
        allowed(kind, "delete")?;
        let body =
            br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#;
        self.delete_at(&kind.object(namespace, name), body).await
    }

    /// Removes an object at once, whatever of it may still run.
    pub(super) async fn delete_now(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        allowed(kind, "delete")?;
        let body = br#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}"#;
        self.delete_at(&kind.object(Some(namespace), name), body)
            .await
    }

    async fn delete_at(&self, path: &str, body: &[u8]) -> Result<(), ApiError> {
        match self.patiently(Method::DELETE, path, JSON, body).await {
            Err(error) if error.is_absent() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Whether a right is there: an answer, no object.
    pub(super) async fn review(&self, review: &Value) -> Result<Value, ApiError> {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let body = serde_json::to_vec(review).unwrap_or_default();
        self.patiently(Method::POST, path, JSON, &body).await
    }

    /// A document by path, asked for once.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn document(&self, path: &str) -> Result<Value, ApiError> {
        self.once(Method::GET, path, JSON, b"").await
    }

    /// A text by path, asked for once: through a pod's proxy, whose failures are answers.
    pub(super) async fn text(&self, path: &str) -> Result<String, ApiError> {
        let response = self.send(Method::GET, path, JSON, b"").await?;
        let body = response.into_body().collect().await;
        let bytes = body
            .map_err(|e| ApiError {
                doing: format!("GET {path}"),
                status: None,
                found: e.to_string(),
            })?
            .to_bytes();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A text that goes on.
    pub(super) async fn lines(&self, path: &str) -> Result<Lines, ApiError> {
        let response = self.send(Method::GET, path, JSON, b"").await?;
        Ok(Lines::new(response.into_body()))
    }

    /// Changes of the objects that a label selector takes, one a line; first all as they are.
    pub(super) async fn watch(&self, kind: Kind, selector: &str) -> Result<Lines, ApiError> {
        allowed(kind, "watch")?;
        let (path, selector) = (kind.path(None), encoded(selector));
        self.lines(&format!("{path}?watch=true&labelSelector={selector}"))
            .await
    }

    /// Path of a pod's own port and path through the API server.
    pub(super) fn pod_proxy(namespace: &str, pod: &str, port: u16, path: &str) -> String {
        let target = format!("{pod}:{port}");
        format!(
            "{}{path}",
            super::kinds::POD_PROXY.object(Some(namespace), &target)
        )
    }
}

const JSON: &str = "application/json";

fn allowed(kind: Kind, verb: &str) -> Result<(), ApiError> {
    if kind.may(verb) {
        return Ok(());
    }
    Err(ApiError {
        doing: format!("{verb} {}", kind.plural),
        status: None,
        found: "tare's own table of rights lacks it: please report this defect".to_owned(),
    })
}

/// What is not a letter, a digit or a mark of names, as `%3D`.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_./".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

/// The server's own message, or the beginning of what it said.
fn message(status: StatusCode, body: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(body).ok();
    match said.as_ref().and_then(|v| v["message"].as_str()) {
        Some(message) => message.to_owned(),
        None => {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            format!("{status} {}", text.trim())
        }
    }
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_safe_in_a_query() {
        assert_eq!(
            encoded("tare.run/id=a,b in (c)"),
            "tare.run/id%3Da%2Cb%20in%20%28c%29"
        );
    }

    #[test]
    fn a_verb_that_the_role_lacks_is_never_sent() {
        assert!(allowed(super::super::kinds::SERVICE, "patch").is_ok());
        let error = allowed(super::super::kinds::SERVICE, "delete").unwrap_err();
        assert!(error.to_string().contains("defect"), "{error}");
    }
}
