//! Connections for a channel of tonic: to one address, over TLS with the options of the load.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tare_load::tls::TlsPeer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

/// Opens connections to one host and port, regardless of the URI, which cannot contain a zone.
pub(super) struct Connector {
    place: (String, u16),
    peer: Option<TlsPeer>,
}

impl Connector {
    pub(super) fn new(place: (String, u16), peer: Option<&TlsPeer>) -> Self {
        Self {
            place,
            peer: peer.cloned(),
        }
    }
}

/// A stream with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let place = self.place.clone();
        let client = self.peer.as_ref().map(TlsPeer::client);
        Box::pin(async move {
            let stream = TcpStream::connect(place).await?;
            let stream: Box<dyn Stream> = match client {
                None => Box::new(stream),
                Some((config, name)) => {
                    Box::new(TlsConnector::from(config).connect(name, stream).await?)
                }
            };
            Ok(TokioIo::new(stream))
        })
    }
}
