//! The echo server over gRPC.

use futures_util::stream;
use hyper::Uri;
use hyper::http::uri::PathAndQuery;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tonic::client::Grpc;
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::echo::{options, start};

/// The client's messages, from the .proto file.
#[derive(Clone, PartialEq, prost::Message)]
struct Ask {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    body: Vec<u8>,
    #[prost(string, tag = "4")]
    size: String,
    #[prost(string, tag = "5")]
    status: String,
    #[prost(uint32, tag = "6")]
    count: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Reply {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", tag = "2")]
    body: Vec<u8>,
    #[prost(uint64, tag = "3")]
    index: u64,
    #[prost(uint64, tag = "4")]
    received: u64,
}

type Http = Client<HttpConnector, tonic::body::Body>;

fn http() -> Http {
    Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http()
}

fn origin(server: &tare_workload::EchoServer) -> Uri {
    format!("http://{}", server.address()).parse().unwrap()
}

fn path(method: &str) -> PathAndQuery {
    format!("/tare.echo.v1.Echo/{method}").parse().unwrap()
}

fn codec() -> ProstCodec<Ask, Reply> {
    ProstCodec::default()
}

fn ask(name: &str) -> Ask {
    Ask {
        name: name.to_owned(),
        ..Ask::default()
    }
}

async fn all(mut replies: Streaming<Reply>) -> Result<Vec<Reply>, Status> {
    let mut received = Vec::new();
    while let Some(reply) = replies.message().await? {
        received.push(reply);
    }
    Ok(received)
}

#[tokio::test]
async fn the_four_kinds_of_calls_echo_their_messages() {
    let server = start(&options());
    let mut grpc = Grpc::with_origin(http(), origin(&server));
    let sized = Ask {
        size: "5".to_owned(),
        ..ask("x")
    };
    let reply = grpc
        .unary(Request::new(sized), path("Unary"), codec())
        .await
        .unwrap();
    let reply = reply.into_inner();
    assert_eq!((reply.name.as_str(), reply.body.len()), ("x", 5));

    let three = Ask {
        count: 3,
        ..ask("y")
    };
    let call = grpc.server_streaming(Request::new(three), path("ServerStream"), codec());
    let received = all(call.await.unwrap().into_inner()).await.unwrap();
    assert_eq!(
        received.iter().map(|t| t.index).collect::<Vec<_>>(),
        [0, 1, 2]
    );

    let two = Request::new(stream::iter([ask("a"), ask("b")]));
    let call = grpc
        .client_streaming(two, path("ClientStream"), codec())
        .await;
    let reply = call.unwrap().into_inner();
    assert_eq!((reply.name.as_str(), reply.received), ("b", 2));

    let twice = Ask {
        count: 2,
        ..ask("d")
    };
    let two = Request::new(stream::iter([ask("c"), twice]));
    let call = grpc.streaming(two, path("BidiStream"), codec()).await;
    let received = all(call.unwrap().into_inner()).await.unwrap();
    let received: Vec<_> = received
        .iter()
        .map(|t| (t.name.as_str(), t.index, t.received))
        .collect();
    assert_eq!(received, [("c", 0, 1), ("d", 1, 2), ("d", 2, 2)]);
}

#[tokio::test]
async fn statuses_are_as_requested_and_errors_have_a_reason() {
    let server = start(&options());
    let mut grpc = Grpc::with_origin(http(), origin(&server));
    let mut fail = async |message: Ask, metadata: Option<&'static str>| {
        let mut request = Request::new(message);
        if let Some(status) = metadata {
            request
                .metadata_mut()
                .insert("tare-status", status.parse().unwrap());
        }
        grpc.unary(request, path("Unary"), codec())
            .await
            .unwrap_err()
    };
    let status = |text: &str| Ask {
        status: text.to_owned(),
        ..Ask::default()
    };
    assert_eq!(
        fail(status("RESOURCE_EXHAUSTED"), None).await.code(),
        Code::ResourceExhausted
    );
    assert_eq!(fail(status("503"), None).await.code(), Code::Unavailable);
    assert_eq!(
        fail(ask("x"), Some("7")).await.code(),
        Code::PermissionDenied
    );
    let mistake = fail(status("NO_SUCH"), None).await;
    assert_eq!(mistake.code(), Code::InvalidArgument);
    assert!(mistake.message().contains("NO_SUCH"), "{mistake}");
    let unknown = grpc
        .unary::<Ask, Reply, _>(Request::new(ask("x")), path("Uanry"), codec())
        .await;
    let unknown = unknown.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented);
    assert!(unknown.message().contains("ServerStream"));
}

#[tokio::test]
async fn reflection_and_health_report_the_services() {
    let server = start(&options());
    let mut client = ServerReflectionClient::with_origin(http(), origin(&server));
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let asked = client
        .server_reflection_info(stream::iter([question]))
        .await;
    let answer = asked
        .unwrap()
        .into_inner()
        .message()
        .await
        .unwrap()
        .unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = list.service.iter().map(|s| s.name.as_str()).collect();
    assert!(
        names.contains(&"tare.echo.v1.Echo") && names.contains(&"grpc.health.v1.Health"),
        "{names:?}"
    );

    let mut health =
        tonic_health::pb::health_client::HealthClient::with_origin(http(), origin(&server));
    let question = tonic_health::pb::HealthCheckRequest {
        service: "tare.echo.v1.Echo".to_owned(),
    };
    let answer = health.check(question).await.unwrap().into_inner();
    assert_eq!(
        answer.status(),
        tonic_health::pb::health_check_response::ServingStatus::Serving
    );
}
