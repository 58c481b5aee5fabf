//! Requests to the API server. The crate `kube` builds each request; this client sends it, limits
//! the wait for the response, and sends it again while the server is unavailable or overloaded, so
//! that a restart of the server during a trial does not affect the trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::{Method, Response, StatusCode};
use kube::api::{
    DeleteParams, GetParams, ListParams, LogParams, Patch, PatchParams, PostParams, Request,
    WatchParams,
};
use kube::client::Body;
use kube::core::request;
use kube::{Api, Client, Config};
use serde_json::Value;
use tare_plan::innermost;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout};

use super::answer::{items, object};
use super::kinds::{Kind, POD, POD_LOG, POD_PORT_FORWARD};
use super::lines::Lines;
use tare_run::environment::EnvironmentError;

/// How long a request is sent again while the server is unavailable or overloaded.
const RETRY_FOR: Duration = Duration::from_secs(60);
const PAUSE_FIRST: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Longest wait for the head of a response, and then for its body.
const RESPONSE_WITHIN: Duration = Duration::from_secs(30);
/// Maximum number of requests at the same time.
const CONCURRENT_MAX: usize = 16;
/// Most lines and bytes of a log in a message.
const TAIL_LINES: i64 = 10;
const TAIL_BYTES: i64 = 4_000;
/// How long the server may keep a watch open, in seconds.
const WATCH_S: u32 = 3600;

/// Most bytes of an answer, without its compression: the list of all pods of a large cluster has less.
const BODY_BYTES_MAX: usize = 256 << 20;
/// Most bytes of the answer to a request that failed, and of the end of a log.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Name of tare in the fields of the objects that it applies.
pub(crate) const FIELD_MANAGER: &str = "tare";

type HttpRequest = hyper::Request<Vec<u8>>;

/// A request that failed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{request}: {found}")]
pub(crate) struct ApiError {
    /// Method and path.
    pub(crate) request: String,
    /// HTTP status; `None` without a response.
    pub(crate) status: Option<u16>,
    /// The server's message, or why there is no response.
    pub(crate) found: String,
}

impl ApiError {
    fn new(request: &HttpRequest, status: Option<StatusCode>, found: String) -> Self {
        Self {
            request: format!("{} {}", request.method(), request.uri().path()),
            status: status.map(|s| s.as_u16()),
            found,
        }
    }

    fn no_response(request: &HttpRequest) -> Self {
        let found = format!("no response within {} s", RESPONSE_WITHIN.as_secs());
        Self::new(request, None, found)
    }

    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == Some(404)
    }

    /// Returns the error without values of the object, which may be secret: server-side apply quotes those of a wrong
    /// type, such as `expected string, got &value.valueUnstructured{Value:1234}`.
    fn without_values(mut self) -> Self {
        if let Some(end) = self.found.find(", got ") {
            self.found.truncate(end);
        }
        self
    }

    /// Whether RBAC forbids the request.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.status == Some(403)
    }

    /// Whether another client changed the object first, or an object of this name exists.
    fn is_conflict(&self) -> bool {
        self.status == Some(409)
    }

    /// Whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        self.is_conflict() || self.status.is_none_or(|s| s == 429 || s >= 500)
    }
}

impl From<request::Error> for ApiError {
    fn from(error: request::Error) -> Self {
        Self {
            request: "build a request".to_owned(),
            status: None,
            found: error.to_string(),
        }
    }
}

impl From<ApiError> for EnvironmentError {
    fn from(error: ApiError) -> Self {
        Self::Cluster(error.to_string())
    }
}

/// A connection to one cluster.
#[derive(Clone)]
pub(crate) struct ApiClient {
    client: Client,
    /// Address of the API server and context, for messages.
    place: String,
    retries: Arc<AtomicU32>,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiClient")
    }
}

impl ApiClient {
    /// Creates a client, without sending a request. `place` names the API server in messages.
    pub(crate) fn new(mut config: Config, place: String) -> Result<Self, kube::Error> {
        config.connect_timeout = Some(Duration::from_secs(5));
        // A watch or a log may send nothing for a long time.
        config.read_timeout = None;
        // Retries are made in this file, where they are counted.
        config.default_retry = false;
        Ok(Self {
            client: Client::try_from(config)?,
            place,
            retries: Arc::default(),
        })
    }

    /// Number of requests that were sent again so far.
    pub(crate) fn retries(&self) -> u32 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Sends a request once and returns the response, if its status is a success.
    async fn send(&self, request: &HttpRequest) -> Result<Response<Body>, ApiError> {
        let start = Instant::now();
        let sent = self.client.send(request.clone().map(Body::from));
        let response = match timeout(RESPONSE_WITHIN, sent).await {
            Ok(response) => response.map_err(|e| ApiError::new(request, None, innermost(&e))),
            Err(_) => Err(ApiError::no_response(request)),
        };
        let (method, path, elapsed) = (request.method(), request.uri().path(), start.elapsed());
        let status = match &response {
            Ok(response) => response.status().to_string(),
            Err(error) => error.found.clone(),
        };
        tracing::debug!(%method, path, status, ?elapsed, "request");
        let response = response?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let body = body(request, response, MESSAGE_BYTES_MAX).await;
        let body = body.unwrap_or_default();
        Err(ApiError::new(request, Some(status), message(status, &body)))
    }

    async fn send_for_json(&self, request: &HttpRequest) -> Result<Value, ApiError> {
        let response = self.send(request).await?;
        let status = response.status();
        let body = body(request, response, BODY_BYTES_MAX).await?;
        // The same request would get the same answer, so it is not sent again.
        object(&body).map_err(|found| ApiError::new(request, Some(status), found))
    }

    /// Sends a request, and sends it again while the server is unavailable or overloaded.
    async fn retry(&self, request: HttpRequest) -> Result<Value, ApiError> {
        let until = Instant::now() + RETRY_FOR;
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match self.send_for_json(&request).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            // If the object exists, creating it again cannot succeed.
            let exists = request.method() == Method::POST && error.is_conflict();
            if exists || !error.is_transient() || Instant::now() > until {
                return Err(error);
            }
            self.retries.fetch_add(1, Ordering::Relaxed);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Gets one object.
    pub(crate) async fn get(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Value, ApiError> {
        let objects = objects(kind, "get", Some(namespace))?;
        self.retry(objects.get(name, &GetParams::default())?).await
    }

    /// Lists the objects that match a label selector (empty: all objects), in one namespace or,
    /// with `None`, in all.
    pub(crate) async fn list(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let mut params = ListParams::default();
        if !selector.is_empty() {
            params = params.labels(selector);
        }
        let objects = objects(kind, "list", namespace)?;
        self.items(objects.list(&params)?).await
    }

    /// Lists all objects of a kind without their specification and status: of a ConfigMap, its data are not sent.
    pub(crate) async fn list_metadata(&self, kind: Kind) -> Result<Vec<Value>, ApiError> {
        let objects = objects(kind, "list", None)?;
        self.items(objects.list_metadata(&ListParams::default())?)
            .await
    }

    async fn items(&self, request: HttpRequest) -> Result<Vec<Value>, ApiError> {
        let list = self.retry(request.clone()).await?;
        items(list).map_err(|found| ApiError::new(&request, Some(StatusCode::OK), found))
    }

    /// Creates an object in a namespace of the run. If an object of this name exists, an earlier
    /// attempt created it and its response was lost: that is a success.
    pub(crate) async fn create(&self, kind: Kind, object: &Value) -> Result<(), ApiError> {
        let namespace = object["metadata"]["namespace"].as_str();
        let objects = objects(kind, "create", namespace)?;
        let request = objects.create(&PostParams::default(), json(object))?;
        match self.retry(request).await {
            Err(error) if error.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Creates or changes an object by server-side apply.
    pub(crate) async fn apply(&self, kind: Kind, object: &Value) -> Result<Value, ApiError> {
        let namespace = object["metadata"]["namespace"].as_str();
        objects(kind, "create", namespace)?;
        let objects = objects(kind, "patch", namespace)?;
        self.apply_at(objects, object).await
    }

    /// Applies objects, several at a time, and returns them in the same order. Stops at the first
    /// error.
    pub(crate) async fn apply_all(
        &self,
        objects: Vec<(Kind, Value)>,
    ) -> Result<Vec<Value>, ApiError> {
        let apply = |(kind, object): (Kind, Value)| async move { self.apply(kind, &object).await };
        let requests = stream::iter(objects.into_iter().map(apply));
        requests.buffered(CONCURRENT_MAX).try_collect().await
    }

    /// Applies objects of the user, each with the path of its kind, as [`Self::apply_all`] does. An error contains no
    /// values of the objects.
    pub(crate) async fn apply_all_at(
        &self,
        objects: Vec<(String, Value)>,
    ) -> Result<Vec<Value>, ApiError> {
        let apply = |(path, object): (String, Value)| async move {
            let applied = self.apply_at(Request::new(path), &object).await;
            applied.map_err(ApiError::without_values)
        };
        let requests = stream::iter(objects.into_iter().map(apply));
        requests.buffered(CONCURRENT_MAX).try_collect().await
    }

    /// Creates or changes an object of any kind, with a request builder for the path of its kind.
    pub(crate) async fn apply_at(
        &self,
        objects: Request,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let params = PatchParams::apply(FIELD_MANAGER).force();
        self.retry(objects.patch(name, &params, &Patch::Apply(object))?)
            .await
    }

    /// Applies objects in server-side dry runs, several at a time: admission decides, and nothing is stored. Each has the
    /// path of its kind. Returns the results in the same order. Retries only if the server is
    /// overloaded: a webhook that does not respond is an error of the server each time. An error contains no values of the objects.
    pub(crate) async fn dry_run_all<'o>(
        &self,
        objects: impl Iterator<Item = (String, &'o Value)>,
    ) -> Vec<Result<(), ApiError>> {
        let apply = |(path, object): (String, &'o Value)| async move {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let mut params = PatchParams::apply(FIELD_MANAGER).force();
            params.dry_run = true;
            let request = Request::new(path).patch(name, &params, &Patch::Apply(object))?;
            let until = Instant::now() + RETRY_FOR;
            loop {
                match self.send_for_json(&request).await {
                    Err(error) if error.status == Some(429) && Instant::now() < until => {
                        sleep(PAUSE_MAX).await;
                    }
                    applied => return applied.map(drop).map_err(ApiError::without_values),
                }
            }
        };
        let requests = stream::iter(objects.map(apply).collect::<Vec<_>>());
        requests.buffered(CONCURRENT_MAX).collect().await
    }

    /// Changes some fields of a cluster-scoped object by a merge patch.
    pub(crate) async fn merge(
        &self,
        kind: Kind,
        name: &str,
        patch: &Value,
    ) -> Result<Value, ApiError> {
        let objects = objects(kind, "patch", None)?;
        self.retry(objects.patch(name, &PatchParams::default(), &Patch::Merge(patch))?)
            .await
    }

    /// Deletes an object; its dependents are deleted in the background. Succeeds if the object does
    /// not exist.
    pub(crate) async fn delete(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), ApiError> {
        self.delete_with(kind, namespace, name, &DeleteParams::background())
            .await
    }

    /// Deletes an object with these parameters; otherwise like [`Self::delete`].
    pub(crate) async fn delete_with(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        name: &str,
        params: &DeleteParams,
    ) -> Result<(), ApiError> {
        let objects = objects(kind, "delete", namespace)?;
        match self.retry(objects.delete(name, params)?).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Deletes all objects of a kind in a namespace.
    pub(crate) async fn delete_all(&self, kind: Kind, namespace: &str) -> Result<(), ApiError> {
        let objects = objects(kind, "deletecollection", Some(namespace))?;
        let (all, now) = (ListParams::default(), DeleteParams::background());
        let deleted = self.retry(objects.delete_collection(&now, &all)?);
        deleted.await.map(drop)
    }

    /// Sends a `SelfSubjectAccessReview` and returns the server's response.
    pub(crate) async fn review_access(&self, review: &Value) -> Result<Value, ApiError> {
        let reviews = Request::new("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        self.retry(reviews.create(&PostParams::default(), json(review))?)
            .await
    }

    /// Returns the version of Kubernetes. Does not retry: this is the first request to a cluster,
    /// whose address may be wrong.
    pub(crate) async fn version(&self) -> Result<String, EnvironmentError> {
        let version = self.document("/version").await.map_err(|error| {
            let place = &self.place;
            let what = match error.status {
                None => format!("no response from the API server {place}"),
                Some(status) => format!("the API server {place} responded with status {status}"),
            };
            let remedy = "check that the cluster is running, and that KUBECONFIG and --context \
                          select the right one";
            EnvironmentError::missing(format!("{what}: {}", error.found), remedy)
        })?;
        let version = version["gitVersion"].as_str();
        Ok(version.unwrap_or("unknown").to_owned())
    }

    /// Gets a JSON document by its path, without a retry.
    pub(crate) async fn document(&self, path: &str) -> Result<Value, ApiError> {
        self.send_for_json(&get(path)?).await
    }

    /// Opens a connection to a port on a pod's loopback, through the API server. Does not retry. Fails with what was
    /// found.
    pub(crate) async fn port_forward(
        &self,
        (namespace, pod): (&str, &str),
        port: u16,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static, String> {
        let pods: Api<k8s_openapi::api::core::v1::Pod> =
            Api::namespaced(self.client.clone(), namespace);
        let ports = [port];
        let opened = timeout(RESPONSE_WITHIN, pods.portforward(pod, &ports)).await;
        let (plural, verbs) = (POD_PORT_FORWARD.plural, POD_PORT_FORWARD.verbs.join(", "));
        let right = format!("the role needs {plural} [{verbs}]");
        let mut forwarder = match opened {
            Ok(Ok(forwarder)) => forwarder,
            Ok(Err(error)) => return Err(format!("{} ({right})", innermost(&error))),
            Err(_) => return Err(format!("no port within {} s", RESPONSE_WITHIN.as_secs())),
        };
        let stream = forwarder.take_stream(port);
        stream.ok_or_else(|| format!("the API server did not forward port {port}"))
    }

    /// Follows the log of a container; each line starts with its timestamp.
    pub(crate) async fn log(
        &self,
        (namespace, pod): (&str, &str),
        container: &str,
    ) -> Result<Lines, ApiError> {
        let params = LogParams {
            container: Some(container.to_owned()),
            follow: true,
            timestamps: true,
            ..LogParams::default()
        };
        let pods = objects(POD_LOG, "get", Some(namespace))?;
        self.lines(&pods.logs(pod, &params)?).await
    }

    /// Returns the last lines of the log of a container, or of its previous run; empty if there are none. Does not retry.
    pub(crate) async fn log_tail(
        &self,
        (namespace, pod): (&str, &str),
        container: &str,
        previous: bool,
    ) -> String {
        let params = LogParams {
            container: Some(container.to_owned()),
            tail_lines: Some(TAIL_LINES),
            limit_bytes: Some(TAIL_BYTES),
            previous,
            ..LogParams::default()
        };
        let request =
            objects(POD_LOG, "get", Some(namespace)).and_then(|o| Ok(o.logs(pod, &params)?));
        let Ok(request) = request else {
            return String::new();
        };
        let body = match self.send(&request).await {
            Ok(response) => body(&request, response, MESSAGE_BYTES_MAX)
                .await
                .unwrap_or_default(),
            Err(_) => return String::new(),
        };
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Watches the pods that match a label selector. Each line is one change; the first lines are
    /// the pods that exist.
    pub(crate) async fn watch_pods(&self, selector: &str) -> Result<Lines, ApiError> {
        let params = WatchParams::default()
            .labels(selector)
            .timeout(WATCH_S)
            .disable_bookmarks();
        let pods = objects(POD, "watch", None)?;
        self.lines(&pods.watch(&params, "")?).await
    }

    async fn lines(&self, request: &HttpRequest) -> Result<Lines, ApiError> {
        Ok(Lines::new(self.send(request).await?.into_body()))
    }
}

/// Returns a request builder for the objects of a kind. Fails for a verb that the printed role
/// lacks, so that this bug is found even if the user has more rights.
fn objects(kind: Kind, verb: &str, namespace: Option<&str>) -> Result<Request, ApiError> {
    if kind.has(verb) {
        return Ok(Request::new(kind.path(namespace)));
    }
    Err(ApiError {
        request: format!("{verb} {}", kind.plural),
        status: None,
        found: "bug: missing from tare's RBAC table, please report it".to_owned(),
    })
}

fn get(path: &str) -> Result<HttpRequest, ApiError> {
    let request = hyper::Request::get(path).body(Vec::new());
    Ok(request.map_err(request::Error::BuildRequest)?)
}

fn json(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

/// Reads a body of at most this many bytes.
async fn body(
    request: &HttpRequest,
    response: Response<Body>,
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    let status = response.status();
    let limited = Limited::new(response.into_body(), bytes_max);
    let body = timeout(RESPONSE_WITHIN, limited.collect()).await;
    let body = body.map_err(|_| ApiError::no_response(request))?;
    body.map(|b| b.to_bytes()).map_err(|error| {
        if error.is::<LengthLimitError>() {
            let found = format!("the response is larger than {} MiB", bytes_max >> 20);
            return ApiError::new(request, Some(status), found);
        }
        ApiError::new(request, None, innermost(&*error))
    })
}

/// Returns the message of a Kubernetes status, or the start of any other body.
fn message(status: StatusCode, body: &[u8]) -> String {
    let document = serde_json::from_slice::<Value>(body).ok();
    match document.as_ref().and_then(|v| v["message"].as_str()) {
        Some(message) => message.to_owned(),
        None => {
            let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
            format!("{status}: {}", text.trim())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::SERVICE;
    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_too_large_is_given_up_and_named() {
        let request = get("/api/v1/pods").unwrap();
        let of = |bytes: usize| Response::new(Body::from(vec![b' '; bytes]));
        assert_eq!(
            body(&request, of(2 << 20), 2 << 20).await.unwrap().len(),
            2 << 20
        );
        let error = body(&request, of((2 << 20) + 1), 2 << 20)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "GET /api/v1/pods: the response is larger than 2 MiB"
        );
        assert!(!error.is_transient(), "the next answer would be as large");
    }

    #[test]
    fn a_verb_that_the_rbac_table_lacks_is_never_sent() {
        assert!(objects(SERVICE, "patch", None).is_ok());
        let error = objects(SERVICE, "delete", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "delete services: bug: missing from tare's RBAC table, please report it"
        );
    }
}
