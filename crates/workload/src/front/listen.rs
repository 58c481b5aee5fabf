//! Accepts connections and serves them until the server stops.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tare_plan::graph::ServiceProtocol;
use tare_plan::limits::STREAMS_MAX;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::node::Node;
use crate::protocol::WINDOW_BYTES;

use super::{grpc, http};

/// Passes connections to `serve` until `stop` changes; they then end after their requests in flight.
/// Every task holds a receiver of `stop`, so the server has ended when all receivers are dropped.
pub(crate) async fn accept<F>(
    listener: TcpListener,
    mut stop: watch::Receiver<()>,
    serve: impl Fn(TcpStream, watch::Receiver<()>) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors, or the peer has disconnected: continue with the next.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        tokio::spawn(serve(stream, stop.clone()));
    }
}

/// Serves the connections of a node until `stop` changes.
pub(crate) async fn accept_node(
    listener: TcpListener,
    node: Arc<Node>,
    protocol: ServiceProtocol,
    stop: watch::Receiver<()>,
) {
    accept(listener, stop, move |stream, mut stop| {
        let node = node.clone();
        async move {
            let stopped = stop.changed();
            match protocol {
                ServiceProtocol::Http | ServiceProtocol::Tcp | ServiceProtocol::Http2 => {
                    let service = service_fn(move |request| http::answer(node.clone(), request));
                    serve(stream, service, stopped).await;
                }
                ServiceProtocol::Grpc => {
                    let service = service_fn(move |request| grpc::answer(node.clone(), request));
                    serve(stream, service, stopped).await;
                }
            }
        }
    })
    .await;
}

/// Serves one connection until it ends, or until `stop` completes and its requests in flight are
/// done. Errors are ignored: the peer disconnected, or sent malformed requests that hyper has
/// answered.
pub(crate) async fn serve<S, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S,
    stop: impl Future,
) where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let builder = builder();
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A builder for HTTP/1.1 and HTTP/2 with prior knowledge.
fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        // A sidecar or a web service sends all of its calls on one connection.
        .max_concurrent_streams(STREAMS_MAX)
        // A generator resets many streams when it ends, which hyper must not treat as an attack.
        .max_pending_accept_reset_streams(STREAMS_MAX as usize);
    builder
}
