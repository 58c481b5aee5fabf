//! One connection: which protocol it speaks shows in its first bytes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

use super::desk::Desk;
use super::http;
use super::knobs::Close;
use crate::listen;

/// A handshake that takes longer is given up.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How a request says that its connection ends.
#[derive(Debug, Default)]
pub(crate) struct Line {
    after: AtomicBool,
    cut: AtomicBool,
    reset: AtomicBool,
    bell: Notify,
}

impl Line {
    /// Ends the connection so; [`Close::Stream`] leaves it alone.
    pub(crate) fn end(&self, how: Close) {
        match how {
            Close::After => self.after.store(true, Ordering::Release),
            Close::Abort => self.cut.store(true, Ordering::Release),
            Close::Reset => {
                self.reset.store(true, Ordering::Release);
                self.cut.store(true, Ordering::Release);
            }
            Close::Stream => return,
        }
        self.bell.notify_one();
    }
}

/// Serves one connection until it ends, or until `stop` changes and its requests
/// in flight are done. Errors are the peer's affair: it went away or spoke nonsense.
pub(crate) async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    desk: Arc<Desk>,
    stop: watch::Receiver<()>,
) {
    let _ = stream.set_nodelay(true);
    desk.metrics.connected();
    let line = Arc::new(Line::default());
    let stream = Breakable {
        stream,
        line: Arc::clone(&line),
    };
    let Some(tls) = tls else {
        return exchange(stream, desk, line, stop).await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream));
    if let Ok(Ok(stream)) = handshake.await {
        exchange(stream, desk, line, stop).await;
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    desk: Arc<Desk>,
    line: Arc<Line>,
    mut stop: watch::Receiver<()>,
) {
    let of_request = Arc::clone(&line);
    let service = service_fn(move |request| {
        http::answer(Arc::clone(&desk), Arc::clone(&of_request), request)
    });
    let builder = listen::of_both();
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut ending = false;
    loop {
        tokio::select! {
            biased;
            () = line.bell.notified() => {
                if line.cut.load(Ordering::Acquire) {
                    return;
                }
                if line.after.load(Ordering::Acquire) && !ending {
                    ending = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
            _ = stop.changed(), if !ending => {
                ending = true;
                connection.as_mut().graceful_shutdown();
            }
            _ = connection.as_mut() => return,
        }
    }
}

/// A socket that ends by a reset if its line says so.
struct Breakable {
    stream: TcpStream,
    line: Arc<Line>,
}

impl Drop for Breakable {
    fn drop(&mut self) {
        if self.line.reset.load(Ordering::Acquire) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl Breakable {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.get_mut().stream)
    }
}

impl AsyncRead for Breakable {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.inner().poll_read(cx, buf)
    }
}

impl AsyncWrite for Breakable {
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
