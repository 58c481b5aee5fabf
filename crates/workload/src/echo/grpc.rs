//! Answers gRPC: the four kinds of methods.

use std::sync::Arc;

use futures_util::stream::{self, Stream};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic::body::Body;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::protocol::grpc::Method;

use super::control::{Aborted, ConnectionControl};
use super::knobs::{BODY_MAX, Knobs, ReplyStatus, filling};
use super::messages::{EchoReply, EchoRequest, SERVICE};
use super::metrics::Protocol;
use super::state::WorkerState;

type Codec = ProstCodec<EchoReply, EchoRequest>;
/// Largest message: the largest body and the other fields.
const MESSAGE_MAX: usize = BODY_MAX + 4096;

/// Answers one call.
pub(crate) async fn answer(
    state: Arc<WorkerState>,
    connection: &ConnectionControl,
    request: Request<Incoming>,
) -> Result<Response<Body>, Aborted> {
    let path = request.uri().path().to_owned();
    let (service, method) = path
        .trim_start_matches('/')
        .split_once('/')
        .unwrap_or((&path, ""));
    if let Some(handler) = state.services.find(service) {
        return Ok(handler(request).await);
    }
    let shared = Arc::clone(&state.shared);
    let response = match Knobs::from_headers(request.headers()) {
        _ if service != SERVICE => unknown(&path),
        Err(problem) => Status::invalid_argument(problem.to_string()).into_http(),
        Ok(knobs) => {
            if let Err(aborted) = connection.end(state.draw(knobs.clone()).close) {
                shared.metrics.answered(Protocol::Grpc, None);
                return Err(aborted);
            }
            call(state, knobs, method, &path, request).await
        }
    };
    // The status of an error is in the headers, status 0 in the trailers.
    let status = Status::from_header_map(response.headers()).map_or(Code::Ok, |s| s.code());
    shared.metrics.answered(Protocol::Grpc, Some(status as u16));
    Ok(response)
}

fn unknown(path: &str) -> Response<Body> {
    let message = format!(
        "unknown method {path}, expected one of /{SERVICE}/: Unary, ServerStream, ClientStream, BidiStream"
    );
    Status::unimplemented(message).into_http()
}

async fn call(
    state: Arc<WorkerState>,
    knobs: Knobs,
    method: &str,
    path: &str,
    request: Request<Incoming>,
) -> Response<Body> {
    let mut grpc = tonic::server::Grpc::new(Codec::default())
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX);
    let first = move |message| Replies::new(state.clone(), knobs.clone(), message);
    match method {
        "Unary" => {
            let call = Method(|message: EchoRequest| {
                let replies = first.clone()(message);
                async move { Ok(tonic::Response::new(replies?.one().await?)) }
            });
            grpc.unary(call, request).await
        }
        "ServerStream" => {
            let call = Method(|message: EchoRequest| {
                let replies = first.clone()(message);
                async move { Ok(tonic::Response::new(replies?.into_stream())) }
            });
            grpc.server_streaming(call, request).await
        }
        "ClientStream" => {
            let call = Method(|incoming: Streaming<EchoRequest>| {
                let first = first.clone();
                async move { Ok(tonic::Response::new(last_of(incoming, first).await?)) }
            });
            grpc.client_streaming(call, request).await
        }
        "BidiStream" => {
            let call = Method(|incoming: Streaming<EchoRequest>| {
                let conversation = Conversation {
                    incoming,
                    first: first.clone(),
                    current: None,
                    index: 0,
                    received: 0,
                };
                async move { Ok(tonic::Response::new(conversation.into_stream())) }
            });
            grpc.streaming(call, request).await
        }
        _ => unknown(path),
    }
}

/// The replies to one message.
struct Replies {
    state: Arc<WorkerState>,
    knobs: Knobs,
    message: EchoRequest,
    index: u64,
    received: u64,
    left: u32,
}

impl Replies {
    /// The replies to `message`. `knobs` come from the metadata; the fields of the message take
    /// precedence.
    fn new(state: Arc<WorkerState>, knobs: Knobs, message: EchoRequest) -> Result<Self, Status> {
        let mut own = Knobs::default();
        let fields = [
            ("delay", &message.delay),
            ("size", &message.size),
            ("status", &message.status),
        ];
        for (name, value) in fields.into_iter().filter(|(_, v)| !v.is_empty()) {
            own.set(name, value)
                .map_err(|e| Status::invalid_argument(e.to_string()))?;
        }
        Ok(Self {
            left: message.count.max(1),
            knobs: own.or(&knobs),
            state,
            message,
            index: 0,
            received: 1,
        })
    }

    /// The next reply, after its delay.
    async fn one(&mut self) -> Result<EchoReply, Status> {
        let drawn = self.state.draw(self.knobs.clone());
        self.state.serve(drawn.delay_ns).await;
        self.left -= 1;
        let code = drawn.status.map_or(Code::Ok, code);
        if code != Code::Ok {
            return Err(Status::new(code, "the requested status"));
        }
        let body = match drawn.size {
            Some(size) => filling(size),
            None => self.message.body.clone(),
        };
        let index = self.index;
        self.index += 1;
        Ok(EchoReply {
            name: self.message.name.clone(),
            body,
            index,
            received: self.received,
        })
    }

    fn into_stream(self) -> impl Stream<Item = Result<EchoReply, Status>> {
        stream::try_unfold(self, |mut replies| async move {
            if replies.left == 0 {
                return Ok(None);
            }
            Ok(Some((replies.one().await?, replies)))
        })
    }
}

/// The reply to the last message, with the number of messages.
async fn last_of(
    mut incoming: Streaming<EchoRequest>,
    first: impl Fn(EchoRequest) -> Result<Replies, Status>,
) -> Result<EchoReply, Status> {
    let mut last = EchoRequest::default();
    let mut received = 0;
    while let Some(message) = incoming.message().await? {
        last = message;
        received += 1;
    }
    let mut replies = first(last)?;
    replies.received = received;
    replies.one().await
}

/// The state of a bidirectional stream.
struct Conversation<F> {
    incoming: Streaming<EchoRequest>,
    first: F,
    current: Option<Replies>,
    index: u64,
    received: u64,
}

impl<F: Fn(EchoRequest) -> Result<Replies, Status>> Conversation<F> {
    async fn next(&mut self) -> Result<Option<EchoReply>, Status> {
        loop {
            if let Some(replies) = self.current.as_mut().filter(|r| r.left > 0) {
                let reply = replies.one().await?;
                self.index = replies.index;
                return Ok(Some(reply));
            }
            let Some(message) = self.incoming.message().await? else {
                return Ok(None);
            };
            self.received += 1;
            let mut replies = (self.first)(message)?;
            replies.index = self.index;
            replies.received = self.received;
            self.current = Some(replies);
        }
    }

    fn into_stream(self) -> impl Stream<Item = Result<EchoReply, Status>> {
        stream::try_unfold(self, |mut conversation| async move {
            let reply = conversation.next().await?;
            Ok(reply.map(|reply| (reply, conversation)))
        })
    }
}

/// The gRPC code of a status; HTTP statuses are mapped as the gRPC project defines.
fn code(status: ReplyStatus) -> Code {
    match status {
        ReplyStatus::Grpc(code) => code,
        ReplyStatus::Http(status) => match status.as_u16() {
            200..=299 => Code::Ok,
            400 => Code::Internal,
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 => Code::Unimplemented,
            429 | 502 | 503 | 504 => Code::Unavailable,
            _ => Code::Unknown,
        },
    }
}
