//! TLS for a channel of tonic, with the options of the load.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::rt::TokioIo;
use tare_load::tls::TlsPeer;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

/// Opens connections to one address, regardless of the URI.
pub(super) struct TlsStreams {
    connect: String,
    peer: TlsPeer,
}

impl TlsStreams {
    pub(super) fn new(connect: &str, peer: &TlsPeer) -> Self {
        Self {
            connect: connect.to_owned(),
            peer: peer.clone(),
        }
    }
}

impl Service<Uri> for TlsStreams {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let connect = self.connect.clone();
        let (config, name) = self.peer.client();
        Box::pin(async move {
            let stream = TcpStream::connect(connect).await?;
            let stream = TlsConnector::from(config).connect(name, stream).await?;
            Ok(TokioIo::new(stream))
        })
    }
}
