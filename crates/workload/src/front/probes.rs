//! Probes that every node answers in addition to its service: readiness, and an echo of the
//! request, on which the proof that a mesh is in the path relies, and the latencies of calls. They
//! are not counted as load.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use http_body_util::Either;
use hyper::body::{Bytes, Incoming};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response, StatusCode, Version};
use serde::Serialize;
use tare_plan::graph::ServiceProtocol;
use tare_plan::load::WarmParts;
use tare_records::calls::{CALLS_PATH, CallWindow, WINDOW_PATH};
use tonic::Status;
use tonic_health::ServingStatus::{NotServing, Serving};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::node::Node;
use crate::protocol::grpc::{Payload, unary};
use crate::protocol::http::{self, Reply, joined};
use crate::protocol::{Body, Failure, Upstream};

/// 200 when this service and all services that it calls are ready, otherwise 503.
const READY: &str = "/tare/ready";
/// Returns the request as received, as JSON. `?via=emoji` forwards the request to that
/// upstream, `?via=reviews,ratings` to an upstream of that upstream, and `?via=emoji.1` to one replica,
/// if the specification has the addresses of the replicas. A real datastore returns the value that tare stored
/// in it for this. A TCP service then closes the connection, so that
/// the next echo takes another, for which a proxy on the way may choose another replica.
const HTTP_ECHO: &str = "/tare/echo";
/// Is always answered with 503 and the number of requests that came here, also those that a proxy repeated.
const UNAVAILABLE: &str = "/tare/unavailable";
/// The method of the standard health service that corresponds to [`READY`].
const HEALTH: &str = "/grpc.health.v1.Health/Check";
/// Corresponds to [`HTTP_ECHO`]; the message is the value of `via`.
const GRPC_ECHO: &str = "/tare.Echo/Echo";

/// Answers a probe; returns a request that is none.
pub(super) async fn answer(
    node: &Node,
    request: Request<Incoming>,
) -> Result<Response<Body>, Request<Incoming>> {
    let is_grpc = node.protocol == ServiceProtocol::Grpc && request.version() == Version::HTTP_2;
    let reply = match request.uri().path() {
        READY => ready(node),
        HTTP_ECHO => http_echo(node, &request).await,
        UNAVAILABLE => unavailable(node),
        WINDOW_PATH => window(node, &request),
        CALLS_PATH => calls(node),
        HEALTH if is_grpc => return Ok(health(node, request).await.map(Either::Right)),
        GRPC_ECHO if is_grpc => return Ok(grpc_echo(node, request).await.map(Either::Right)),
        _ => return Err(request),
    };
    Ok(reply.map(Either::Left))
}

fn ready(node: &Node) -> Reply {
    let ready = node.ready.load(Ordering::Relaxed);
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    http::json(status, &serde_json::json!({ "ready": ready }))
}

fn unavailable(node: &Node) -> Reply {
    let requests = node.unavailable.fetch_add(1, Ordering::Relaxed) + 1;
    let body = serde_json::json!({ "requests": requests });
    http::json(StatusCode::SERVICE_UNAVAILABLE, &body)
}

fn window<B>(node: &Node, request: &Request<B>) -> Reply {
    let query = request.uri().query().unwrap_or("");
    let value = |name| http::query_value(query, name)?.parse::<u64>().ok();
    let Some((start, window)) = value("start_unix_ns").zip(value("window_ns")) else {
        let message = "expected start_unix_ns and window_ns, in nanoseconds";
        return http::error(StatusCode::BAD_REQUEST, message);
    };
    let warm = WarmParts {
        every_ns: value("warm_every_ns").unwrap_or(0),
        length_ns: value("warm_length_ns").unwrap_or(0),
    };
    match node.time_calls(CallWindow {
        start_unix_ns: start,
        window_ns: window,
        warm,
    }) {
        Ok(()) => http::json(StatusCode::OK, &serde_json::json!({})),
        Err(found) => http::error(StatusCode::CONFLICT, found),
    }
}

fn calls(node: &Node) -> Reply {
    match node.calls() {
        Some(calls) => http::json(StatusCode::OK, &calls),
        None => http::error(StatusCode::NOT_FOUND, "calls are not timed"),
    }
}

async fn health(node: &Node, request: Request<Incoming>) -> Response<tonic::body::Body> {
    let ready = node.ready.load(Ordering::Relaxed);
    let status = if ready { Serving } else { NotServing } as i32;
    let call = |_: HealthCheckRequest| async move { Ok(HealthCheckResponse { status }) };
    unary(request, call).await
}

/// Checks whether an upstream is ready. The error is the reason why it is not.
pub(crate) async fn probe(upstream: &Upstream) -> Result<(), String> {
    let ready = match upstream {
        Upstream::Http(http) => {
            let path = PathAndQuery::from_static(READY);
            let answer = http.call(Method::GET, path, Bytes::new()).await;
            answer.map(|(status, _)| status == StatusCode::OK)
        }
        Upstream::Grpc(grpc) => {
            let (path, request) = (
                PathAndQuery::from_static(HEALTH),
                HealthCheckRequest::default(),
            );
            let answer = grpc.unary::<_, HealthCheckResponse>(path, request).await;
            answer.map(|reply| reply.status == Serving as i32)
        }
        Upstream::Store(store) => store.echo().await.map(|_| true),
    };
    match ready {
        Ok(true) => Ok(()),
        Ok(false) => Err("not ready".to_owned()),
        Err(failure) => Err(failure.to_string()),
    }
}

/// A request as it was received.
#[derive(Serialize)]
struct ReceivedRequest {
    service: String,
    instance: String,
    /// Listen address from the specification.
    listen: String,
    method: String,
    path: String,
    authority: String,
    /// The headers, as [`joined`] returns them.
    headers: BTreeMap<String, String>,
}

impl ReceivedRequest {
    fn new<B>(node: &Node, request: &Request<B>) -> Self {
        let headers = joined(request.headers());
        let authority = request.uri().authority().map(ToString::to_string);
        Self {
            service: node.service.clone(),
            instance: node.instance.clone(),
            listen: node.listen.clone(),
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            authority: authority
                .or_else(|| headers.get("host").cloned())
                .unwrap_or_default(),
            headers,
        }
    }
}

async fn http_echo(node: &Node, request: &Request<Incoming>) -> Reply {
    let query = request.uri().query().unwrap_or("");
    let via = http::query_value(query, "via").unwrap_or_default();
    let body = echo(node, ReceivedRequest::new(node, request), &via).await;
    let reply =
        http::answered(body.map(|body| http::reply(StatusCode::OK, "application/json", body)));
    match node.protocol {
        ServiceProtocol::Tcp => http::close(reply),
        ServiceProtocol::Http | ServiceProtocol::Http2 | ServiceProtocol::Grpc => reply,
    }
}

async fn grpc_echo(node: &Node, request: Request<Incoming>) -> Response<tonic::body::Body> {
    let mut received = Some(ReceivedRequest::new(node, &request));
    let call = |via: Payload| {
        let received = received.take();
        async move {
            let received =
                received.ok_or_else(|| Status::internal("bug: the echo was called twice"))?;
            let via = String::from_utf8_lossy(&via.body).into_owned();
            let body = echo(node, received, &via).await?;
            Ok(Payload { body })
        }
    };
    unary(request, call).await
}

async fn echo(node: &Node, received: ReceivedRequest, via: &str) -> Result<Bytes, Failure> {
    if via.is_empty() {
        // Encoding never fails, because all fields are strings.
        return Ok(serde_json::to_vec(&received).unwrap_or_default().into());
    }
    let (next, rest) = via.split_once(',').unwrap_or((via, ""));
    let found = node.upstreams.get(next);
    let Some(upstream) = found.or_else(|| node.replicas.get(next)) else {
        let known = node.upstreams.keys().chain(node.replicas.keys());
        let known: Vec<&str> = known.map(String::as_str).collect();
        let known = known.join(", ");
        let message = format!(
            "{} does not call {next:?}, expected one of: {known}",
            node.service
        );
        return Err(Failure::NotCalled(message));
    };
    match upstream {
        Upstream::Http(http) => {
            let path = match rest {
                "" => HTTP_ECHO.to_owned(),
                rest => format!("{HTTP_ECHO}?via={rest}"),
            };
            let path = path.parse();
            let path = path.map_err(|_| Failure::NotCalled(format!("unknown service {rest:?}")))?;
            http.fetch(Method::GET, path, Bytes::new()).await
        }
        Upstream::Grpc(grpc) => {
            let body = Bytes::copy_from_slice(rest.as_bytes());
            let path = PathAndQuery::from_static(GRPC_ECHO);
            let echo = grpc.unary::<_, Payload>(path, Payload { body }).await;
            echo.map(|payload| payload.body)
        }
        Upstream::Store(store) => store.echo().await,
    }
}
