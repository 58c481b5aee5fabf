//! Requests to the API server. The crate `kube` builds each request; this client sends it, limits
//! the wait for the response, and sends it again while the server is unavailable or overloaded, so
//! that a restart of the server during a trial does not affect the trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::{Method, Response, StatusCode};
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::apimachinery::pkg::version::Info;
use kube::api::{
    DeleteParams, GetParams, ListParams, LogParams, Patch, PatchParams, PostParams, Request,
    WatchParams,
};
use kube::client::Body;
use kube::core::request;
use kube::{Api, Client, Config};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use tare_plan::innermost;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout};

use super::answer::{self, list, object};
use super::error::ApiError;
use super::kinds::{Kind, POD, POD_LOG, POD_PORT_FORWARD};
use super::lines::Lines;
use crate::objects::Object;
use crate::objects::names::name_of;
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

/// A connection to one cluster.
#[derive(Clone)]
pub(crate) struct ApiClient {
    client: Client,
    /// Address of the API server.
    pub(crate) server: String,
    /// Context of the kubeconfig, for messages.
    context: String,
    retries: Arc<AtomicU32>,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiClient")
    }
}

impl ApiClient {
    /// Creates a client, without sending a request. `server` and `context` name the API server in messages.
    pub(crate) fn new(
        mut config: Config,
        server: String,
        context: String,
    ) -> Result<Self, kube::Error> {
        config.connect_timeout = Some(Duration::from_secs(5));
        // A watch or a log may send nothing for a long time.
        config.read_timeout = None;
        // Retries are made in this file, where they are counted.
        config.default_retry = false;
        Ok(Self {
            client: Client::try_from(config)?,
            server,
            context,
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
            Err(_) => Err(no_response(request)),
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

    /// Sends a request once and reads the answer with this function.
    async fn ask<T>(&self, request: &HttpRequest, read: Read<T>) -> Result<T, ApiError> {
        let response = self.send(request).await?;
        let status = response.status();
        let body = body(request, response, BODY_BYTES_MAX).await?;
        // The same request would get the same answer, so it is not sent again.
        read(&body).map_err(|found| ApiError::new(request, Some(status), found))
    }

    /// Sends a request, and sends it again while the server is unavailable or overloaded.
    async fn retry<T>(&self, request: HttpRequest, read: Read<T>) -> Result<T, ApiError> {
        let until = Instant::now() + RETRY_FOR;
        let mut pause = PAUSE_FIRST;
        loop {
            let error = match self.ask(&request, read).await {
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
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<T, ApiError> {
        let objects = objects(kind, "get", Some(namespace))?;
        let request = objects.get(name, &GetParams::default())?;
        self.retry(request, object).await
    }

    /// Lists the objects that match a label selector (empty: all objects), in one namespace or,
    /// with `None`, in all.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<Vec<T>, ApiError> {
        let mut params = ListParams::default();
        if !selector.is_empty() {
            params = params.labels(selector);
        }
        let objects = objects(kind, "list", namespace)?;
        self.retry(objects.list(&params)?, list).await
    }

    /// Lists all objects of a kind without their specification and status: of a ConfigMap, its data are not sent.
    pub(crate) async fn list_metadata(&self, kind: Kind) -> Result<Vec<Object>, ApiError> {
        let objects = objects(kind, "list", None)?;
        let request = objects.list_metadata(&ListParams::default())?;
        self.retry(request, list).await
    }

    /// Creates an object in a namespace of the run. If an object of this name exists, an earlier
    /// attempt created it and its response was lost: that is a success.
    pub(crate) async fn create(&self, kind: Kind, object: &impl Serialize) -> Result<(), ApiError> {
        let object = json(object);
        let objects = objects(kind, "create", namespace_of(&object))?;
        let request = objects.create(&PostParams::default(), object.to_string().into_bytes())?;
        match self.retry(request, ignored).await {
            Err(error) if error.is_conflict() => Ok(()),
            other => other,
        }
    }

    /// Creates or changes an object by server-side apply.
    pub(crate) async fn apply(&self, kind: Kind, object: &impl Serialize) -> Result<(), ApiError> {
        self.apply_with(kind, &json(object), ignored).await
    }

    /// Applies an object, and returns it as the server has stored it.
    pub(crate) async fn applied<T: DeserializeOwned>(
        &self,
        kind: Kind,
        object: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.apply_with(kind, &json(object), answer::object).await
    }

    async fn apply_with<T>(
        &self,
        kind: Kind,
        object: &Value,
        read: Read<T>,
    ) -> Result<T, ApiError> {
        let namespace = namespace_of(object);
        objects(kind, "create", namespace)?;
        let objects = objects(kind, "patch", namespace)?;
        self.apply_at(objects, object, read).await
    }

    /// Applies objects, several at a time. Stops at the first error.
    pub(crate) async fn apply_all(&self, objects: Vec<(Kind, Value)>) -> Result<(), ApiError> {
        self.all_with(objects, ignored).await.map(drop)
    }

    /// Applies objects of one kind as [`Self::apply_all`] does, and returns them in the same order.
    pub(crate) async fn applied_all<T: DeserializeOwned>(
        &self,
        kind: Kind,
        objects: &[impl Serialize],
    ) -> Result<Vec<T>, ApiError> {
        let objects = objects.iter().map(|o| (kind, json(o))).collect();
        self.all_with(objects, answer::object).await
    }

    async fn all_with<T>(
        &self,
        objects: Vec<(Kind, Value)>,
        read: Read<T>,
    ) -> Result<Vec<T>, ApiError> {
        let apply = |(kind, object): (Kind, Value)| async move {
            self.apply_with(kind, &object, read).await
        };
        several(objects.into_iter().map(apply)).try_collect().await
    }

    /// Applies objects of the user, each with the path of its kind, as [`Self::apply_all`] does. An error contains no
    /// values of the objects.
    pub(crate) async fn apply_all_at(
        &self,
        objects: Vec<(String, Value)>,
    ) -> Result<Vec<Value>, ApiError> {
        let apply = |(path, object): (String, Value)| async move {
            let request = Request::new(path);
            let applied = self.apply_at(request, &object, answer::object).await;
            applied.map_err(ApiError::without_values)
        };
        several(objects.into_iter().map(apply)).try_collect().await
    }

    /// Applies a manifest of any kind, with the path of its kind.
    pub(crate) async fn apply_manifest(
        &self,
        path: String,
        manifest: &Value,
    ) -> Result<(), ApiError> {
        let request = Request::new(path);
        self.apply_at(request, manifest, ignored).await
    }

    async fn apply_at<T>(
        &self,
        objects: Request,
        object: &Value,
        read: Read<T>,
    ) -> Result<T, ApiError> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let request = objects.patch(name_of(object), &params, &Patch::Apply(object))?;
        self.retry(request, read).await
    }

    /// Applies objects in server-side dry runs, several at a time: admission decides, and nothing is stored. Each has the
    /// path of its kind. Returns the results in the same order. Retries only if the server is
    /// overloaded: a webhook that does not respond is an error of the server each time. An error contains no values of the objects.
    pub(crate) async fn dry_run_all<'o>(
        &self,
        objects: impl Iterator<Item = (String, &'o Value)>,
    ) -> Vec<Result<(), ApiError>> {
        let apply = |(path, object): (String, &'o Value)| async move {
            let mut params = PatchParams::apply(FIELD_MANAGER).force();
            params.dry_run = true;
            let patch = Patch::Apply(object);
            let request = Request::new(path).patch(name_of(object), &params, &patch)?;
            let until = Instant::now() + RETRY_FOR;
            loop {
                match self.ask(&request, ignored).await {
                    Err(error) if error.status == Some(429) && Instant::now() < until => {
                        sleep(PAUSE_MAX).await;
                    }
                    applied => return applied.map_err(ApiError::without_values),
                }
            }
        };
        several(objects.map(apply)).collect().await
    }

    /// Changes some fields of a cluster-scoped object by a merge patch.
    pub(crate) async fn merge(
        &self,
        kind: Kind,
        name: &str,
        patch: &Value,
    ) -> Result<(), ApiError> {
        let objects = objects(kind, "patch", None)?;
        let request = objects.patch(name, &PatchParams::default(), &Patch::Merge(patch))?;
        self.retry(request, ignored).await
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
        match self.retry(objects.delete(name, params)?, ignored).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    /// Deletes all objects of a kind in a namespace.
    pub(crate) async fn delete_all(&self, kind: Kind, namespace: &str) -> Result<(), ApiError> {
        let objects = objects(kind, "deletecollection", Some(namespace))?;
        let (all, now) = (ListParams::default(), DeleteParams::background());
        let request = objects.delete_collection(&now, &all)?;
        self.retry(request, ignored).await
    }

    /// Whether the user has a right.
    pub(crate) async fn may(&self, right: &SelfSubjectAccessReviewSpec) -> Result<bool, ApiError> {
        let reviews = Request::new("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews");
        let review = SelfSubjectAccessReview {
            spec: right.clone(),
            ..SelfSubjectAccessReview::default()
        };
        let review = serde_json::to_vec(&review).unwrap_or_default();
        let request = reviews.create(&PostParams::default(), review)?;
        let reviewed: SelfSubjectAccessReview = self.retry(request, object).await?;
        Ok(reviewed.status.is_some_and(|status| status.allowed))
    }

    /// Returns the version of Kubernetes. Does not retry: this is the first request to a cluster,
    /// whose address may be wrong.
    pub(crate) async fn version(&self) -> Result<String, EnvironmentError> {
        let version: Info = self.document("/version").await.map_err(|error| {
            let place = format!("{} (context `{}`)", self.server, self.context);
            let what = match error.status {
                None => format!("no response from the API server {place}"),
                Some(status) => format!("the API server {place} responded with status {status}"),
            };
            let remedy = "check that the cluster is running, and that KUBECONFIG and --context \
                          select the right one";
            EnvironmentError::missing(format!("{what}: {}", error.found), remedy)
        })?;
        Ok(match version.git_version.as_str() {
            "" => "unknown".to_owned(),
            version => version.to_owned(),
        })
    }

    /// Gets a JSON document by its path, without a retry.
    pub(crate) async fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.ask(&get(path)?, object).await
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

/// Sends several of these requests at a time. The results have the order of the requests.
fn several<F: Future>(requests: impl Iterator<Item = F>) -> impl Stream<Item = F::Output> {
    stream::iter(requests.collect::<Vec<_>>()).buffered(CONCURRENT_MAX)
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

/// Reads the body of an answer, or describes what is wrong with it.
type Read<T> = fn(&[u8]) -> Result<T, String>;

/// Reads an answer whose content is not needed.
fn ignored(body: &[u8]) -> Result<(), String> {
    object::<IgnoredAny>(body).map(drop)
}

/// An object as it is sent.
pub(crate) fn json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn namespace_of(object: &Value) -> Option<&str> {
    object["metadata"]["namespace"].as_str()
}

fn no_response(request: &HttpRequest) -> ApiError {
    let found = format!("no response within {} s", RESPONSE_WITHIN.as_secs());
    ApiError::new(request, None, found)
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
    let body = body.map_err(|_| no_response(request))?;
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
