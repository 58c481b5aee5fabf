//! Accepting connections, and letting them go.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tare_model::graph::ServiceProtocol;
use tare_model::limits::STREAMS_MAX;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::node::Node;
use crate::upstream::WINDOW_BYTES;
use crate::{grpc, http};

/// Serves connections until `stop` changes, then ends them after their requests
/// in flight. Every task holds a receiver of `stop`: when all are gone, all is done.
pub(crate) async fn accept(
    listener: TcpListener,
    node: Arc<Node>,
    protocol: ServiceProtocol,
    mut stop: watch::Receiver<()>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, or the peer was gone already: others may still come.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (node, stop) = (node.clone(), stop.clone());
        match protocol {
            ServiceProtocol::Http => {
                let service = service_fn(move |request| http::answer(node.clone(), request));
                drop(tokio::spawn(serve(stream, service, stop)));
            }
            ServiceProtocol::Grpc => {
                let service = service_fn(move |request| grpc::answer(node.clone(), request));
                drop(tokio::spawn(serve(stream, service, stop)));
            }
        }
    }
}

/// Errors of a connection are its peer's affair: it went away or spoke nonsense,
/// which hyper has answered.
async fn serve<S, B>(stream: TcpStream, service: S, mut stop: watch::Receiver<()>)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let _ = stream.set_nodelay(true);
    let builder = of_both();
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// HTTP/1.1, or HTTP/2 from a client that knows.
pub(crate) fn of_both() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http2()
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        // A sidecar or a web front sends all its calls on one connection.
        .max_concurrent_streams(STREAMS_MAX)
        // A generator that ends cancels many calls at once; that is no attack.
        .max_pending_accept_reset_streams(STREAMS_MAX as usize);
    builder
}
