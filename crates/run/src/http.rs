//! Single requests, each on a new connection: for proofs, and for the admin interface of sidecars.
//! Nothing here is measured.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tare_plan::graph::ServiceProtocol;
use tare_plan::innermost;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Limits of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time limit of the whole exchange.
    pub within: Duration,
    /// Maximum size of a body.
    pub body_bytes_max: usize,
}

impl Limits {
    /// Limits of a proof.
    pub const PROOF: Self = Self {
        within: Duration::from_secs(5),
        body_bytes_max: 1 << 20,
    };
}

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Response {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The connection failed.
    #[error("connection failed: {0}")]
    Connect(#[from] std::io::Error),
    /// The peer accepted the connection and closed it without a response.
    #[error("refused: {0}")]
    Refused(String),
    /// No complete response arrived in time, or it is not the expected one.
    #[error("{0}")]
    Answer(String),
}

/// The TLS client of a probe.
pub type Tls = Arc<ClientConfig>;

/// Sends GET by HTTP/1.1 on an open stream.
///
/// # Errors
/// When no complete response arrives within the limits.
pub async fn get<S>(
    stream: S,
    authority: &str,
    path: &str,
    limits: Limits,
) -> Result<Response, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let bytes_max = limits.body_bytes_max;
    let http = ServiceProtocol::Http;
    let work = exchange(stream, http, authority, Message::get(path), bytes_max);
    within(limits.within, work).await
}

/// Sends GET to an address in the given protocol, with or without TLS.
///
/// # Errors
/// When the connection fails, or no complete response arrives in time.
pub async fn get_at(
    address: SocketAddrV4,
    protocol: ServiceProtocol,
    tls: Option<Tls>,
    authority: &str,
    path: &str,
) -> Result<Response, ProbeError> {
    send_at(address, protocol, tls, authority, Message::get(path)).await
}

/// Sends a request to an address, as [`get_at`] sends GET.
///
/// # Errors
/// When the connection fails, or no complete response arrives in time.
pub async fn send_at(
    address: SocketAddrV4,
    protocol: ServiceProtocol,
    tls: Option<Tls>,
    authority: &str,
    message: Message<'_>,
) -> Result<Response, ProbeError> {
    let bytes_max = Limits::PROOF.body_bytes_max;
    within(Limits::PROOF.within, async {
        let tcp = TcpStream::connect(address).await?;
        let Some(config) = tls else {
            return exchange(tcp, protocol, authority, message, bytes_max).await;
        };
        let stream = secured(config, address, tcp).await?;
        exchange(stream, protocol, authority, message, bytes_max).await
    })
    .await
}

/// Sends bytes to an address, with or without TLS, and returns the first byte of the answer.
///
/// # Errors
/// When the connection fails, or no answer arrives in time.
pub async fn first_byte(
    address: SocketAddrV4,
    tls: Option<Tls>,
    message: &[u8],
) -> Result<u8, ProbeError> {
    within(Limits::PROOF.within, async {
        let tcp = TcpStream::connect(address).await?;
        match tls {
            None => exchange_bytes(tcp, message).await,
            Some(config) => exchange_bytes(secured(config, address, tcp).await?, message).await,
        }
    })
    .await
}

async fn exchange_bytes<S>(mut stream: S, message: &[u8]) -> Result<u8, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let refused = |e: std::io::Error| ProbeError::Refused(e.to_string());
    stream.write_all(message).await.map_err(refused)?;
    stream.flush().await.map_err(refused)?;
    stream.read_u8().await.map_err(refused)
}

async fn secured(
    config: Tls,
    address: SocketAddrV4,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, ProbeError> {
    let name = ServerName::IpAddress((*address.ip()).into());
    let connected = TlsConnector::from(config).connect(name, tcp).await;
    connected.map_err(|e| ProbeError::Refused(e.to_string()))
}

/// Headers of a request, by name.
pub type Headers = BTreeMap<String, String>;

static NO_HEADERS: Headers = Headers::new();

/// What a request consists of, without its authority.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// Method, such as GET.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Further headers.
    pub headers: &'a Headers,
    /// The body.
    pub body: Vec<u8>,
}

impl<'a> Message<'a> {
    /// GET without a body.
    pub fn get(path: &'a str) -> Self {
        Self {
            method: "GET",
            path,
            headers: &NO_HEADERS,
            body: Vec::new(),
        }
    }

    fn request(self, url: String, host: Option<&str>) -> Result<Request<Full<Bytes>>, ProbeError> {
        let mut request = Request::builder().method(self.method).uri(url);
        if let Some(host) = host {
            request = request.header("host", host);
        }
        if !self.body.is_empty() || matches!(self.method, "POST" | "PUT" | "PATCH") {
            request = request.header("content-length", self.body.len());
        }
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::from(self.body));
        request.map_err(|e| ProbeError::Answer(e.to_string()))
    }
}

async fn within<T>(
    most: Duration,
    work: impl Future<Output = Result<T, ProbeError>>,
) -> Result<T, ProbeError> {
    tokio::time::timeout(most, work).await.unwrap_or_else(|_| {
        let most_s = most.as_secs_f64();
        Err(ProbeError::Answer(format!("no response within {most_s} s")))
    })
}

async fn exchange<S>(
    stream: S,
    protocol: ServiceProtocol,
    authority: &str,
    message: Message<'_>,
    body_bytes_max: usize,
) -> Result<Response, ProbeError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (io, path) = (TokioIo::new(stream), message.path);
    let response = match protocol {
        ServiceProtocol::Http | ServiceProtocol::Tcp => {
            let request = message.request(path.to_owned(), Some(authority))?;
            let (mut sender, connection) = http1::handshake(io).await.map_err(refused)?;
            tokio::spawn(connection);
            sender.send_request(request).await.map_err(refused)?
        }
        ServiceProtocol::Http2 | ServiceProtocol::Grpc => {
            let request = message.request(format!("http://{authority}{path}"), None)?;
            let handshake = http2::handshake(TokioExecutor::new(), io).await;
            let (mut sender, connection) = handshake.map_err(refused)?;
            tokio::spawn(connection);
            sender.send_request(request).await.map_err(refused)?
        }
    };
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), body_bytes_max)
        .collect()
        .await
        .map_err(|e| match e.is::<LengthLimitError>() {
            true => format!("the body of the response is larger than {body_bytes_max} bytes"),
            false => format!("the body is incomplete: {e}"),
        })
        .map_err(ProbeError::Answer)?
        .to_bytes()
        .to_vec();
    Ok(Response { status, body })
}

fn refused(error: hyper::Error) -> ProbeError {
    ProbeError::Refused(innermost(&error))
}
