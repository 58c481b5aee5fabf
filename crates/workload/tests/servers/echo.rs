//! The echo server over HTTP, plain and with TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tare_workload::{EchoOptions, EchoServer, Knobs, TlsOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::client::{get, raw, request};

pub(crate) fn options() -> EchoOptions {
    EchoOptions::at("127.0.0.1:0")
}

pub(crate) fn start(options: &EchoOptions) -> EchoServer {
    EchoServer::start(options).unwrap()
}

async fn exchange<T>(io: T, h2: bool, path: &str, body: &str) -> Response<Bytes>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = Request::post(format!("http://test{path}"))
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    let io = TokioIo::new(io);
    let response = if h2 {
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        let (mut sender, connection) = http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    };
    let (head, body) = response.into_parts();
    Response::from_parts(head, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn the_body_is_echoed_and_the_knobs_apply() {
    let server = start(&options());
    let address = server.address();
    let echoed = request(address, "POST /echo HTTP/1.1\r\nHost: t", b"hello").await;
    assert_eq!((echoed.status, echoed.text().as_str()), (200, "hello"));
    assert_eq!(get(address, "/bytes/1KiB").await.body.len(), 1024);
    assert_eq!(get(address, "/?size=3").await.body.len(), 3);
    assert_eq!(get(address, "/status/503").await.status, 503);
    let headers = "GET /headers HTTP/1.1\r\nHost: t\r\nTare-Status: 418\r\nA: b";
    let seen = request(address, headers, b"").await;
    assert_eq!(
        (seen.status, &seen.json()["headers"]["a"]),
        (418, &"b".into())
    );
    let begin = Instant::now();
    assert_eq!(get(address, "/delay/30ms").await.status, 200);
    assert!(begin.elapsed().as_millis() >= 30);
    let metrics = get(address, "/metrics").await.text();
    assert!(
        metrics.contains("{protocol=\"http1\",status=\"200\"} 4\n"),
        "{metrics}"
    );
}

#[tokio::test]
async fn invalid_knobs_are_answered_with_400_and_a_reason() {
    let server = start(&options());
    for (path, reason) in [
        ("/?delay=5", "did you mean `5s`"),
        ("/?delay=1ms:60,2ms:50", "add up to 110"),
        ("/?status=99", "from 200 to 599"),
        ("/bytes/1GiB", "at most 16MiB"),
        ("/?close=maybe", "expected 1 (after the response)"),
    ] {
        let answer = get(server.address(), path).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.text().contains(reason), "{path}: {}", answer.text());
    }
    let nowhere = get(server.address(), "/nowhere").await;
    assert_eq!(nowhere.status, 404);
    assert!(nowhere.text().contains("/delay/10ms"));
}

#[tokio::test]
async fn connections_end_as_requested() {
    let server = start(&options());
    let ask = async |query: &str| {
        let text = format!("GET /{query} HTTP/1.1\r\nHost: t\r\n\r\n");
        String::from_utf8(raw(server.address(), text.as_bytes()).await).unwrap()
    };
    let after = ask("?close=1").await;
    assert!(after.starts_with("HTTP/1.1 200") && after.contains("connection: close"));
    assert_eq!(ask("?close=abort").await, "");
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream
        .write_all(b"GET /?close=reset HTTP/1.1\r\nHost: t\r\n\r\n")
        .await
        .unwrap();
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn percentages_hold_over_many_requests() {
    let server = start(&options());
    let one = "GET /?status=503:20 HTTP/1.1\r\nHost: t\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    let answers = raw(server.address(), (one.repeat(1_000) + last).as_bytes()).await;
    let text = String::from_utf8(answers).unwrap();
    let failed = text.matches("HTTP/1.1 503").count();
    assert_eq!(failed + text.matches("HTTP/1.1 200").count(), 1_001);
    // Four standard deviations of 12.6 on each side.
    assert!((150..=250).contains(&failed), "{failed}");
}

#[tokio::test]
async fn the_capacity_is_concurrency_divided_by_delay() {
    let mut defaults = Knobs::default();
    defaults.set("delay", "4ms").unwrap();
    let server = start(&EchoOptions {
        defaults,
        concurrency: 2,
        threads: 2,
        ..options()
    });
    let begin = Instant::now();
    let all = (0..40).map(|_| get(server.address(), "/"));
    let answers = futures_util::future::join_all(all).await;
    assert!(answers.iter().all(|a| a.status == 200));
    assert!(begin.elapsed().as_millis() >= 40 * 4 / 2);
    assert_eq!(server.stop(), (40, 40));
}

#[tokio::test]
async fn the_first_bytes_distinguish_http2_from_http1() {
    let server = start(&options());
    for h2 in [true, false] {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let answer = exchange(stream, h2, "/echo?size=100000", "").await;
        assert_eq!(
            (answer.status(), answer.body().len()),
            (StatusCode::OK, 100_000)
        );
        assert_eq!(answer.version() == hyper::Version::HTTP_2, h2);
    }
}

/// A client that trusts `ca` and has the certificate `identity`.
fn connector(
    ca: &std::path::Path,
    identity: Option<(&std::path::Path, &std::path::Path)>,
    alpn: &str,
) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(ca).unwrap())
        .unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(certificate).unwrap()],
                PrivateKeyDer::from_pem_file(key).unwrap(),
            )
            .unwrap(),
    };
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    TlsConnector::from(Arc::new(config))
}

async fn handshake(
    address: SocketAddr,
    connector: TlsConnector,
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    connector
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
}

#[tokio::test]
async fn tls_uses_the_protocol_of_alpn_and_verifies_clients() {
    let tls = |mutual| TlsOptions {
        mutual,
        ..TlsOptions::default()
    };
    for mutual in [false, true] {
        let listen = "127.0.0.1:0".to_owned();
        let server = start(&EchoOptions {
            tls: Some((listen, tls(mutual))),
            ..options()
        });
        let issued = server.issued().unwrap();
        let address = server.tls_address().unwrap();
        let identity = mutual.then_some((&*issued.client_certificate, &*issued.client_key));
        for (alpn, h2) in [("h2", true), ("http/1.1", false)] {
            let stream = handshake(address, connector(&issued.ca, identity, alpn))
                .await
                .unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(alpn.as_bytes()));
            let answer = exchange(stream, h2, "/echo", "hello").await;
            assert_eq!(answer.body().as_ref(), b"hello");
        }
        if mutual {
            let stream = handshake(address, connector(&issued.ca, None, "http/1.1")).await;
            // With TLS 1.3 the alert arrives after the client's side of the handshake.
            let refused = match stream {
                Ok(mut stream) => stream.read_to_end(&mut Vec::new()).await.is_err(),
                Err(_) => true,
            };
            assert!(refused);
        }
    }
}
