//! What all servers share: they listen, serve connections over HTTP/1.1 and HTTP/2, and end them when they
//! are stopped.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tare_plan::limits::STREAMS_MAX;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::error::WorkloadError;
use crate::protocol::WINDOW_BYTES;

/// How long requests in flight may take after a server was stopped.
const GRACE: Duration = Duration::from_secs(1);

/// Listens on `listen`; returns the address as well.
///
/// # Errors
/// An address that is not available.
pub(crate) async fn bind(listen: &str) -> Result<(TcpListener, SocketAddr), WorkloadError> {
    let refused = |error| WorkloadError::Listen {
        address: listen.to_owned(),
        error,
    };
    let listener = TcpListener::bind(listen).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    Ok((listener, address))
}

/// Passes connections to `serve` until `stop` changes; they then end after their requests in flight.
/// Every connection holds a receiver of `stop`, so that [`ended`] can wait for it.
pub(crate) async fn accept(
    listener: TcpListener,
    mut stop: watch::Receiver<()>,
    serve: impl Fn(TcpStream, watch::Receiver<()>),
) {
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
        serve(stream, stop.clone());
    }
}

/// Serves the connections of a listener with `answer` until `stop` changes.
pub(crate) async fn serve_all<A, F, B>(listener: TcpListener, stop: watch::Receiver<()>, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    accept(listener, stop, move |stream, mut stop| {
        let answer = answer.clone();
        tokio::spawn(async move { serve(stream, answer, stop.changed()).await });
    })
    .await;
}

/// Serves one connection until it ends, or until `stop` completes and its requests in flight are
/// done. Errors are ignored: the peer disconnected, or sent malformed requests that hyper has
/// answered.
pub(crate) async fn serve<F, B, E>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answer: impl Fn(Request<Incoming>) -> F,
    stop: impl Future,
) where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let builder = builder();
    let connection = builder.serve_connection(TokioIo::new(stream), service_fn(answer));
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Waits until a server that was stopped has ended its connections, for at most a second.
pub(crate) async fn ended(stop: &watch::Sender<()>) {
    let _ = tokio::time::timeout(GRACE, stop.closed()).await;
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
