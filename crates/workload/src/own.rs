//! What every server answers besides its own business: whether it is ready, and
//! what it heard. The proof that a mesh is in the path rests on the latter.
//! None of it is counted as load.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use hyper::body::{Bytes, Incoming};
use hyper::http::uri::PathAndQuery;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use serde::Serialize;
use tonic::Status;

use crate::failure::Failure;
use crate::grpc::{self, Payload};
use crate::http::{self, Reply};
use crate::node::Node;
use crate::upstream::Upstream;

/// 200 when everything that the service calls is ready too, else 503.
pub(crate) const READY: &str = "/tare/ready";
/// The request as received, as JSON. `?via=emoji` hands the request on to that
/// upstream, `?via=reviews,ratings` to that one's upstream.
pub(crate) const HTTP_ECHO: &str = "/tare/echo";
/// The standard health service; the counterpart of [`READY`].
pub(crate) const HEALTH: &str = "grpc.health.v1.Health";
/// The counterpart of [`HTTP_ECHO`]; the message is the value of `via`.
pub(crate) const ECHO: &str = "tare.Echo";

const HEALTH_CHECK: PathAndQuery = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
const GRPC_ECHO: PathAndQuery = PathAndQuery::from_static("/tare.Echo/Echo");

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`: 1 is serving, 2 is not.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthReply {
    #[prost(int32, tag = "1")]
    status: i32,
}

pub(crate) fn ready(node: &Node) -> Reply {
    let ready = node.ready.load(Ordering::Relaxed);
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    http::json(status, &serde_json::json!({ "ready": ready }))
}

pub(crate) async fn health(node: &Node, request: Request<Incoming>) -> Response<tonic::body::Body> {
    let status = if node.ready.load(Ordering::Relaxed) {
        1
    } else {
        2
    };
    let call = |_: HealthRequest| async move { Ok(tonic::Response::new(HealthReply { status })) };
    grpc::unary(request, call).await
}

/// Asks an upstream whether it is ready; says why not.
pub(crate) async fn probe(upstream: &Upstream) -> Result<(), String> {
    let ready = match upstream {
        Upstream::Http(http) => {
            let path = PathAndQuery::from_static(READY);
            let answer = http.call(Method::GET, path, Bytes::new()).await;
            answer.map(|(status, _)| status == StatusCode::OK)
        }
        Upstream::Grpc(grpc) => {
            let request = HealthRequest::default();
            let answer = grpc.unary::<_, HealthReply>(HEALTH_CHECK, request).await;
            answer.map(|reply| reply.status == 1)
        }
    };
    match ready {
        Ok(true) => Ok(()),
        Ok(false) => Err("it is not ready itself".to_owned()),
        Err(failure) => Err(failure.to_string()),
    }
}

/// A request as it was received.
#[derive(Serialize)]
struct Heard {
    service: String,
    instance: String,
    method: String,
    path: String,
    authority: String,
    /// Names in lower case; several values of one name joined by ", ".
    headers: BTreeMap<String, String>,
}

impl Heard {
    fn new<B>(node: &Node, request: &Request<B>) -> Self {
        let headers = joined(request.headers());
        let authority = request.uri().authority().map(ToString::to_string);
        Self {
            service: node.service.clone(),
            instance: node.instance.clone(),
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            authority: authority
                .or_else(|| headers.get("host").cloned())
                .unwrap_or_default(),
            headers,
        }
    }
}

fn joined(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let entry = joined.entry(name.as_str().to_owned()).or_default();
        if !entry.is_empty() {
            entry.push_str(", ");
        }
        entry.push_str(&value);
    }
    joined
}

/// Why there is no echo.
enum NoEcho {
    Stranger(String),
    Failed(Failure),
    Unwritable(String),
}

pub(crate) async fn http_echo(node: &Node, request: &Request<Incoming>) -> Reply {
    let query = request.uri().query().unwrap_or("");
    let via = http::query_value(query, "via").unwrap_or_default();
    match echo(node, Heard::new(node, request), &via).await {
        Ok(body) => http::reply(StatusCode::OK, "application/json", body),
        Err(NoEcho::Stranger(message)) => http::error(StatusCode::NOT_FOUND, &message),
        Err(NoEcho::Failed(failure)) => http::failed(&failure),
        Err(NoEcho::Unwritable(why)) => http::error(StatusCode::INTERNAL_SERVER_ERROR, &why),
    }
}

pub(crate) async fn grpc_echo(
    node: &Node,
    request: Request<Incoming>,
) -> Response<tonic::body::Body> {
    let mut heard = Some(Heard::new(node, &request));
    let call = |via: Payload| {
        let heard = heard.take();
        async move {
            let heard = heard.ok_or_else(|| Status::internal("called twice"))?;
            let via = String::from_utf8_lossy(&via.body).into_owned();
            match echo(node, heard, &via).await {
                Ok(body) => Ok(tonic::Response::new(Payload { body })),
                Err(NoEcho::Stranger(message)) => Err(Status::not_found(message)),
                Err(NoEcho::Failed(failure)) => Err(failure.into()),
                Err(NoEcho::Unwritable(why)) => Err(Status::internal(why)),
            }
        }
    };
    grpc::unary(request, call).await
}

async fn echo(node: &Node, heard: Heard, via: &str) -> Result<Bytes, NoEcho> {
    if via.is_empty() {
        let json = serde_json::to_vec(&heard).map_err(|e| NoEcho::Unwritable(e.to_string()))?;
        return Ok(json.into());
    }
    let (next, rest) = via.split_once(',').unwrap_or((via, ""));
    let Some(upstream) = node.upstreams.get(next) else {
        let known: Vec<&str> = node.upstreams.keys().map(String::as_str).collect();
        let known = known.join(", ");
        let message = format!("{} does not call {next:?}; it calls: {known}", node.service);
        return Err(NoEcho::Stranger(message));
    };
    match upstream {
        Upstream::Http(http) => {
            let path = match rest {
                "" => HTTP_ECHO.to_owned(),
                rest => format!("{HTTP_ECHO}?via={rest}"),
            };
            let path = path.parse();
            let path = path.map_err(|_| NoEcho::Stranger(format!("no service {rest:?}")))?;
            http.fetch(Method::GET, path, Bytes::new()).await
        }
        Upstream::Grpc(grpc) => {
            let body = Bytes::copy_from_slice(rest.as_bytes());
            let heard = grpc.unary::<_, Payload>(GRPC_ECHO, Payload { body }).await;
            heard.map(|payload| payload.body)
        }
    }
    .map_err(NoEcho::Failed)
}
