//! A gRPC service that answers every call with an empty message: what a collector of spans and an
//! authorizer that allows everything do, at the lowest cost.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use tare_records::calls::ANSWERED_PATH;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::body::Body;

use crate::error::WorkloadError;
use crate::front;
use crate::protocol::grpc::unary;
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
    calls.fetch_add(1, Ordering::Relaxed);
    // A message without fields decodes every message.
    Ok(unary(request, |(): ()| async { Ok(()) }).await)
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
        let io = connect().await;
        let (mut http, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(ANSWERED_PATH)
            .body(Empty::<Bytes>::new())
            .unwrap();
        let response = http.send_request(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "2");
        serving.abort();
    }
}
