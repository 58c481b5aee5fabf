//! Serves one connection; its first bytes determine the protocol.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Either;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::control::{Aborted, ConnectionControl};
use super::knobs::Close;
use super::state::WorkerState;
use super::{grpc, http};
use crate::front;
use crate::protocol::Body;

/// Time limit of a TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Serves one connection until it ends, or until `stop` changes and its requests in flight are
/// done. Errors are ignored: the peer disconnected or sent malformed requests.
pub(crate) async fn serve(
    stream: std::net::TcpStream,
    tls: Option<TlsAcceptor>,
    state: Arc<WorkerState>,
    stop: watch::Receiver<()>,
) {
    let Ok(stream) = TcpStream::from_std(stream) else {
        return;
    };
    state.shared.metrics.connected();
    let control = Arc::new(ConnectionControl::default());
    let stream = ResettableStream {
        stream,
        control: Arc::clone(&control),
    };
    let Some(tls) = tls else {
        return exchange(stream, state, control, stop).await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream));
    if let Ok(Ok(stream)) = handshake.await {
        exchange(stream, state, control, stop).await;
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    state: Arc<WorkerState>,
    control: Arc<ConnectionControl>,
    mut stop: watch::Receiver<()>,
) {
    let of_request = Arc::clone(&control);
    let answer = move |request| answer(Arc::clone(&state), Arc::clone(&of_request), request);
    let stopped = async {
        tokio::select! {
            _ = stop.changed() => {}
            () = control.ends(Close::After) => {}
        }
    };
    tokio::select! {
        biased;
        () = control.ends(Close::Abort) => {}
        () = front::serve(stream, answer, stopped) => {}
    }
}

/// Answers one request, HTTP or gRPC.
async fn answer(
    state: Arc<WorkerState>,
    control: Arc<ConnectionControl>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Aborted> {
    let content_type = request.headers().get(CONTENT_TYPE);
    if content_type.is_some_and(|t| t.as_bytes().starts_with(b"application/grpc")) {
        let response = grpc::answer(state, &control, request).await?;
        return Ok(response.map(Either::Right));
    }
    let response = http::answer(&state, &control, request).await?;
    Ok(response.map(Either::Left))
}

/// A socket that is reset instead of closed if its control requests so.
struct ResettableStream {
    stream: TcpStream,
    control: Arc<ConnectionControl>,
}

impl Drop for ResettableStream {
    fn drop(&mut self) {
        if self.control.resets() {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl ResettableStream {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for ResettableStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner().poll_read(cx, buf)
    }
}

impl AsyncWrite for ResettableStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.inner().poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.inner().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner().poll_shutdown(cx)
    }
}
