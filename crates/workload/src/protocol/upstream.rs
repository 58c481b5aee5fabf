//! Calls to other services: one connection per service with gRPC, a pool with HTTP/1.1. Both
//! reconnect automatically.

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tare_model::graph::{BYTES_MAX, ServiceProtocol};
use tare_model::innermost;
use tokio::net::TcpStream;
use tonic::Status;
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::events::Events;

use super::failure::Failure;

/// Longest wait for a connection to open.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Largest message in either direction: the largest body and its framing.
pub(crate) const MESSAGE_MAX: usize = BYTES_MAX as usize + 4096;
/// HTTP/2 flow-control window: large enough that usual messages do not wait for it.
pub(crate) const WINDOW_BYTES: u32 = 1 << 20;

/// A called service.
#[derive(Clone)]
pub(crate) enum Upstream {
    Http(Arc<HttpUpstream>),
    Grpc(Arc<GrpcUpstream>),
}

/// A called service. `B` is the type of the request bodies.
pub(crate) struct Called<B> {
    link: Link,
    origin: Uri,
    client: Client<Connector, B>,
}

/// A service that is called with HTTP/1.1.
pub(crate) type HttpUpstream = Called<Full<Bytes>>;
/// A service that is called with gRPC.
pub(crate) type GrpcUpstream = Called<tonic::body::Body>;

impl Upstream {
    /// An upstream that connects at the first call. `service` is its name in the graph.
    ///
    /// # Errors
    /// An invalid authority.
    pub(crate) fn new(
        service: &str,
        protocol: ServiceProtocol,
        to: &tare_model::worker::Upstream,
        events: Events,
    ) -> Result<Self, hyper::http::Error> {
        let origin = Uri::builder()
            .scheme("http")
            .authority(to.authority.as_str())
            .path_and_query("/")
            .build()?;
        let link = Link {
            service: service.to_owned(),
            address: to.connect.clone(),
            lost: AtomicBool::new(false),
            events,
        };
        let connector = Connector(Arc::from(to.connect.as_str()));
        let mut builder = Client::builder(TokioExecutor::new());
        Ok(match protocol {
            ServiceProtocol::Http => {
                let client = builder.build(connector);
                Self::Http(Arc::new(Called {
                    link,
                    origin,
                    client,
                }))
            }
            ServiceProtocol::Grpc => {
                let client = builder
                    .http2_only(true)
                    .http2_initial_stream_window_size(WINDOW_BYTES)
                    .http2_initial_connection_window_size(WINDOW_BYTES)
                    .build(connector);
                Self::Grpc(Arc::new(Called {
                    link,
                    origin,
                    client,
                }))
            }
        })
    }
}

impl HttpUpstream {
    /// Sends one request; returns any status with the complete body.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: PathAndQuery,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let result = self.exchange(method, path, body).await;
        let answer = result.map_err(|why| self.link.unreachable(why))?;
        self.link.mark_reachable();
        Ok(answer)
    }

    async fn exchange(
        &self,
        method: Method,
        path: PathAndQuery,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), String> {
        let mut parts = self.origin.clone().into_parts();
        parts.path_and_query = Some(path);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from_parts(parts).map_err(|e| e.to_string())?;
        let response = self
            .client
            .request(request)
            .await
            .map_err(|e| innermost(&e))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MESSAGE_MAX)
            .collect()
            .await;
        let body = body.map_err(|e| innermost(e.as_ref()))?.to_bytes();
        Ok((status, body))
    }

    /// Like [`Self::call`]; a status of 400 or more is a failure.
    pub(crate) async fn fetch(
        &self,
        method: Method,
        path: PathAndQuery,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let (status, body) = self.call(method, path, body).await?;
        if status.as_u16() < 400 {
            return Ok(body);
        }
        Err(Failure::Answered {
            service: self.link.service.clone(),
            status: status.to_string(),
        })
    }
}

impl GrpcUpstream {
    /// Makes one unary call.
    pub(crate) async fn unary<M1, M2>(&self, path: PathAndQuery, message: M1) -> Result<M2, Failure>
    where
        M1: prost::Message + 'static,
        M2: prost::Message + Default + 'static,
    {
        let client = self.client.clone();
        let mut grpc = tonic::client::Grpc::with_origin(client, self.origin.clone())
            .max_decoding_message_size(MESSAGE_MAX);
        // The client needs no readiness check: requests wait for the connection.
        let codec = ProstCodec::<M1, M2>::default();
        let result = grpc.unary(tonic::Request::new(message), path, codec).await;
        let response = result.map_err(|status| self.failure(&status))?;
        self.link.mark_reachable();
        Ok(response.into_inner())
    }

    /// The failure of a call. A status with a source comes from this side's connection; a
    /// proxy answers UNAVAILABLE for a service that it cannot reach.
    fn failure(&self, status: &Status) -> Failure {
        if let Some(source) = status.source() {
            return self.link.unreachable(innermost(source));
        }
        if status.code() == tonic::Code::Unavailable {
            return self.link.unreachable(status.message().to_owned());
        }
        Failure::Answered {
            service: self.link.service.clone(),
            status: format!("{:?}: {}", status.code(), status.message()),
        }
    }
}

/// Records whether a service is reachable, and sends an event when this changes.
struct Link {
    service: String,
    address: String,
    lost: AtomicBool,
    events: Events,
}

impl Link {
    fn mark_reachable(&self) {
        if self.lost.load(Ordering::Relaxed) {
            self.lost.store(false, Ordering::Relaxed);
            self.events
                .send(format!("{} is reachable again", self.service));
        }
    }

    fn unreachable(&self, why: String) -> Failure {
        let failure = Failure::Unreachable {
            service: self.service.clone(),
            why,
        };
        if !self.lost.swap(true, Ordering::Relaxed) {
            self.events
                .send(format!("{failure} (connecting to {})", self.address));
        }
        failure
    }
}

/// Connects to one address and ignores the URI, whose authority is meant for the proxy that
/// listens there.
#[derive(Debug, Clone)]
struct Connector(Arc<str>);

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let address = self.0.clone();
        Box::pin(async move {
            let connect = TcpStream::connect(&*address);
            let stream = tokio::time::timeout(CONNECT_MAX, connect)
                .await
                .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(stream))
        })
    }
}
