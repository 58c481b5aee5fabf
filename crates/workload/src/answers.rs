//! A gRPC service that answers every call with an empty message: what a collector of spans and an
//! authorizer that allows everything do, at the lowest cost. An external processor gets an answer to each part of a
//! request that changes nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{Stream, TryStreamExt as _};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use tare_records::calls::ANSWERED_PATH;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::{Status, Streaming};

use crate::error::WorkloadError;
use crate::front;
use crate::protocol::grpc::{Method as GrpcMethod, handler, unary};
use crate::worker;

/// Listens on `listen` and answers calls until SIGTERM, SIGINT or SIGHUP.
///
/// # Errors
/// An address that is not available.
pub fn run_answers(listen: &str) -> Result<(), WorkloadError> {
    worker::block_on(async |shutdown| {
        let (listener, _) = front::bind(listen).await?;
        let (_stop, stopped) = watch::channel(());
        tokio::select! {
            () = serve(listener, stopped) => {}
            () = shutdown => {}
        }
        Ok(())
    })
}

async fn serve(listener: TcpListener, stopped: watch::Receiver<()>) {
    let calls = Arc::new(AtomicU64::new(0));
    front::serve_all(listener, stopped, move |request| {
        answer(calls.clone(), request)
    })
    .await;
}

async fn answer(
    calls: Arc<AtomicU64>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    if request.method() == Method::GET && request.uri().path() == ANSWERED_PATH {
        let count = calls.load(Ordering::Relaxed).to_string();
        return Ok(Response::new(Body::new(count)));
    }
    if request.uri().path() == PROCESS {
        let call = |shown| {
            let calls = calls.clone();
            async move { Ok(processed(shown, calls)) }
        };
        let mut grpc = handler::<Shown, Unchanged>();
        return Ok(grpc.streaming(GrpcMethod(call), request).await);
    }
    calls.fetch_add(1, Ordering::Relaxed);
    // A message without fields decodes every message.
    Ok(unary(request, |(): ()| async { Ok(()) }).await)
}

/// The method of external processors.
///
/// Source: envoy/service/ext_proc/v3/external_processor.proto, version 1.40.
const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// Which part of a request the proxy shows, without its content. The tags of `ProcessingRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct Shown {
    #[prost(message, optional, tag = "2")]
    request_headers: Option<()>,
    #[prost(message, optional, tag = "3")]
    response_headers: Option<()>,
    #[prost(message, optional, tag = "4")]
    request_body: Option<()>,
    #[prost(message, optional, tag = "5")]
    response_body: Option<()>,
    #[prost(message, optional, tag = "6")]
    request_trailers: Option<()>,
    #[prost(message, optional, tag = "7")]
    response_trailers: Option<()>,
}

/// The answer to the same part, which changes nothing. The tags of `ProcessingResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Unchanged {
    #[prost(message, optional, tag = "1")]
    request_headers: Option<()>,
    #[prost(message, optional, tag = "2")]
    response_headers: Option<()>,
    #[prost(message, optional, tag = "3")]
    request_body: Option<()>,
    #[prost(message, optional, tag = "4")]
    response_body: Option<()>,
    #[prost(message, optional, tag = "5")]
    request_trailers: Option<()>,
    #[prost(message, optional, tag = "6")]
    response_trailers: Option<()>,
}

/// An answer to each part, which counts as a call.
fn processed(
    shown: Streaming<Shown>,
    calls: Arc<AtomicU64>,
) -> impl Stream<Item = Result<Unchanged, Status>> {
    shown.map_ok(move |shown| {
        calls.fetch_add(1, Ordering::Relaxed);
        Unchanged {
            request_headers: shown.request_headers,
            response_headers: shown.response_headers,
            request_body: shown.request_body,
            response_body: shown.response_body,
            request_trailers: shown.request_trailers,
            response_trailers: shown.response_trailers,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt as _, Empty, Full};
    use hyper::body::Bytes;
    use hyper_util::rt::{TokioExecutor, TokioIo};

    #[tokio::test]
    async fn every_call_is_answered_with_an_empty_message_and_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_stop, stopped) = watch::channel(());
        let serving = tokio::spawn(serve(listener, stopped));
        let connect = async || {
            let tcp = tokio::net::TcpStream::connect(address).await.unwrap();
            TokioIo::new(tcp)
        };
        let io = connect().await;
        let (mut grpc, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .unwrap();
        tokio::spawn(connection);
        for method in ["/a.B/C", "/envoy.service.auth.v3.Authorization/Check"] {
            let request = Request::post(format!("http://x{method}"))
                .header("content-type", "application/grpc")
                // A message of 3 bytes: field 1 is the text "x".
                .body(Full::new(Bytes::from_static(b"\0\0\0\0\x03\x0a\x01x")))
                .unwrap();
            let response = grpc.send_request(request).await.unwrap();
            let body = response.into_body().collect().await.unwrap();
            assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
            assert_eq!(body.to_bytes(), &b"\0\0\0\0\0"[..], "an empty message");
        }
        // Field 2, the headers of a request with some content, then the same of its response.
        let request = Request::post(format!("http://x{PROCESS}"))
            .header("content-type", "application/grpc")
            .body(Full::new(Bytes::from_static(
                b"\0\0\0\0\x05\x12\x03\x0a\x01x\0\0\0\0\x02\x1a\0",
            )))
            .unwrap();
        let response = grpc.send_request(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, &b"\0\0\0\0\x02\x0a\0\0\0\0\0\x02\x12\0"[..]);
        let io = connect().await;
        let (mut http, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(ANSWERED_PATH)
            .body(Empty::<Bytes>::new())
            .unwrap();
        let response = http.send_request(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "4");
        serving.abort();
    }
}
