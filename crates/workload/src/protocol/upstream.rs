//! Calls to other services (to real datastores: [`super::store`]): one connection per service with HTTP/2 and gRPC, a pool with HTTP/1.1. Both
//! reconnect automatically. With several replicas each new connection goes to the next one, as the
//! connections of a Kubernetes service are spread.

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::app::Voting;
use crate::calls::{Latencies, Window};
use crate::events::Events;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tare_plan::graph::{App, Service, ServiceProtocol};
use tare_plan::innermost;
use tokio::net::TcpStream;
use tonic::Status;
use tonic_prost::ProstCodec;

use super::failure::Failure;
use super::store::StoreUpstream;
use super::{MESSAGE_MAX, WINDOW_BYTES};

/// Longest wait for a connection to open.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A called service.
#[derive(Clone)]
pub(crate) enum Upstream {
    Http(Arc<HttpUpstream>),
    Grpc(Arc<GrpcUpstream>),
    Store(Arc<StoreUpstream>),
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
    /// An upstream that connects at the first call. Calls that start in `window` are timed. `seed` chooses
    /// the address of its first connection.
    ///
    /// # Errors
    /// An invalid authority.
    pub(crate) fn new(
        service: &Service,
        to: &tare_records::worker::Upstream,
        seed: u64,
        window: Arc<Window>,
        events: Events,
    ) -> Result<Self, hyper::http::Error> {
        let origin = Uri::builder()
            .scheme("http")
            .authority(to.authority.as_str())
            .path_and_query("/")
            .build()?;
        let addresses: Vec<String> = to.addresses().cloned().collect();
        let link = Link {
            service: service.name.clone(),
            votes: service.app == Some(App::EmojivotoVoting),
            window,
            latencies: Latencies::default(),
            addresses: addresses.join(", "),
            lost: AtomicBool::new(false),
            events,
        };
        if let Some(store) = service.store {
            let address = to.connect.clone();
            let upstream = StoreUpstream::new(link, store, service, address);
            return Ok(Self::Store(Arc::new(upstream)));
        }
        let connector = Connector {
            turn: Arc::new(AtomicUsize::new(seed as usize % addresses.len())),
            addresses: addresses.into(),
        };
        let mut builder = Client::builder(TokioExecutor::new());
        if service.protocol.has_streams() {
            builder
                .http2_only(true)
                .http2_initial_stream_window_size(WINDOW_BYTES)
                .http2_initial_connection_window_size(WINDOW_BYTES);
        }
        Ok(match service.protocol {
            ServiceProtocol::Http | ServiceProtocol::Tcp | ServiceProtocol::Http2 => {
                Self::Http(Called::new(link, origin, builder.build(connector)))
            }
            ServiceProtocol::Grpc => {
                Self::Grpc(Called::new(link, origin, builder.build(connector)))
            }
        })
    }

    /// The calls that were timed.
    pub(crate) fn latencies(&self) -> &Latencies {
        match self {
            Self::Http(http) => &http.link.latencies,
            Self::Grpc(grpc) => &grpc.link.latencies,
            Self::Store(store) => &store.link.latencies,
        }
    }
}

impl<B> Called<B> {
    fn new(link: Link, origin: Uri, client: Client<Connector, B>) -> Arc<Self> {
        Arc::new(Self {
            link,
            origin,
            client,
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
        let mut parts = self.origin.clone().into_parts();
        parts.path_and_query = Some(path);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        let lost = |e: &(dyn std::error::Error + 'static)| self.link.unreachable(innermost(e));
        *request.uri_mut() = Uri::from_parts(parts).map_err(|e| lost(&e))?;
        let response = self.client.request(request).await.map_err(|e| lost(&e))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MESSAGE_MAX)
            .collect()
            .await;
        let body = body.map_err(|e| lost(e.as_ref()))?.to_bytes();
        self.link.mark_reachable();
        Ok((status, body))
    }

    /// Like [`Self::call`]; a status of 400 or more is a failure.
    pub(crate) async fn fetch(
        &self,
        method: Method,
        path: PathAndQuery,
        body: Bytes,
    ) -> Result<Bytes, Failure> {
        let started = self.link.window.start();
        let (status, body) = self.call(method, path.clone(), body).await?;
        if status.as_u16() < 400 {
            self.link.timed(path.path(), started);
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
        let started = self.link.window.start();
        let client = self.client.clone();
        let mut grpc = tonic::client::Grpc::with_origin(client, self.origin.clone())
            .max_decoding_message_size(MESSAGE_MAX);
        // The client needs no readiness check: requests wait for the connection.
        let codec = ProstCodec::<M1, M2>::default();
        let result = grpc
            .unary(tonic::Request::new(message), path.clone(), codec)
            .await;
        let response = result.map_err(|status| self.failure(&status))?;
        self.link.mark_reachable();
        let method = path.path().rsplit('/').next().unwrap_or_default();
        self.link.timed(method, started);
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

/// What is known of a called service: its latencies, and whether it is reachable. An event is sent when
/// that changes.
pub(super) struct Link {
    pub(super) service: String,
    /// Whether its vote methods count as one, as in its own counters.
    votes: bool,
    pub(super) window: Arc<Window>,
    pub(super) latencies: Latencies,
    addresses: String,
    lost: AtomicBool,
    events: Events,
}

impl Link {
    /// Counts a successful call that ends now.
    pub(super) fn timed(&self, endpoint: &str, started: Option<Instant>) {
        let Some(started) = started else { return };
        let vote = self.votes && endpoint.starts_with(Voting::VOTE);
        let endpoint = if vote { Voting::VOTE } else { endpoint };
        self.latencies.record(endpoint, started);
    }

    pub(super) fn mark_reachable(&self) {
        if self.lost.load(Ordering::Relaxed) {
            self.lost.store(false, Ordering::Relaxed);
            self.events
                .send(format!("{} is reachable again", self.service));
        }
    }

    pub(super) fn unreachable(&self, why: String) -> Failure {
        let failure = Failure::Unreachable {
            service: self.service.clone(),
            why,
        };
        if !self.lost.swap(true, Ordering::Relaxed) {
            self.events
                .send(format!("{failure} (connecting to {})", self.addresses));
        }
        failure
    }
}

/// Connects to the addresses in turn and ignores the URI, whose authority is meant for the proxy that
/// listens there.
#[derive(Debug, Clone)]
struct Connector {
    addresses: Arc<[String]>,
    /// The next connection goes to the address of this number, modulo their count.
    turn: Arc<AtomicUsize>,
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let address = self.addresses[turn % self.addresses.len()].clone();
        Box::pin(async move {
            let stream = in_time(connect(&address)).await?;
            Ok(TokioIo::new(stream))
        })
    }
}

pub(super) async fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The opened connection, or an error after the longest wait.
pub(super) async fn in_time<T, E: From<io::Error>>(
    open: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    tokio::time::timeout(CONNECT_MAX, open)
        .await
        .map_err(late)?
}
