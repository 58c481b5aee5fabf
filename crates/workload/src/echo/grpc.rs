//! Answers gRPC: the four kinds of methods.

use std::sync::Arc;

use futures_util::stream::{self, Stream};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tonic::body::Body;
use tonic::{Code, Status, Streaming};

use crate::protocol::grpc::{Method, handler, service_and_method};

use super::control::{Aborted, ConnectionControl};
use super::knobs::{Knobs, ReplyStatus, filling};
use super::messages::{EchoReply, EchoRequest, SERVICE};
use super::metrics::Protocol;
use super::state::WorkerState;

/// Answers one call.
pub(crate) async fn answer(
    state: Arc<WorkerState>,
    connection: &ConnectionControl,
    request: Request<Incoming>,
) -> Result<Response<Body>, Aborted> {
    let path = request.uri().path().to_owned();
    let (service, method) = service_and_method(&path);
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
    let mut grpc = handler::<EchoRequest, EchoReply>();
    let replies = || Replies::new(Arc::clone(&state), knobs.clone());
    match method {
        "Unary" => {
            let call = |message| {
                let mut replies = replies();
                async move {
                    replies.receive(message)?;
                    replies.next().await
                }
            };
            grpc.unary(Method(call), request).await
        }
        "ServerStream" => {
            let call = |message| {
                let mut replies = replies();
                async move {
                    replies.receive(message)?;
                    Ok(replies.into_stream(None))
                }
            };
            grpc.server_streaming(Method(call), request).await
        }
        "ClientStream" => {
            let call = |incoming| replies().last_of(incoming);
            grpc.client_streaming(Method(call), request).await
        }
        "BidiStream" => {
            let call = |incoming| {
                let replies = replies();
                async move { Ok(replies.into_stream(Some(incoming))) }
            };
            grpc.streaming(Method(call), request).await
        }
        _ => unknown(path),
    }
}

/// The replies to the messages of a call.
struct Replies {
    state: Arc<WorkerState>,
    /// From the metadata; the fields of a message take precedence.
    defaults: Knobs,
    /// The last message, and its knobs.
    message: EchoRequest,
    knobs: Knobs,
    /// Number of replies that it still gets.
    left: u32,
    /// Number of messages and of replies so far.
    received: u64,
    index: u64,
}

impl Replies {
    fn new(state: Arc<WorkerState>, defaults: Knobs) -> Self {
        Self {
            state,
            defaults,
            message: EchoRequest::default(),
            knobs: Knobs::default(),
            left: 0,
            received: 0,
            index: 0,
        }
    }

    /// Continues with the replies to `message`.
    fn receive(&mut self, message: EchoRequest) -> Result<(), Status> {
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
        self.knobs = own.or(&self.defaults);
        self.left = message.count.max(1);
        self.message = message;
        self.received += 1;
        Ok(())
    }

    /// The next reply, after its delay.
    async fn next(&mut self) -> Result<EchoReply, Status> {
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

    /// All replies to the message that was received, and then to those of `incoming`.
    fn into_stream(
        self,
        incoming: Option<Streaming<EchoRequest>>,
    ) -> impl Stream<Item = Result<EchoReply, Status>> {
        stream::try_unfold((self, incoming), |(mut replies, mut incoming)| async move {
            while replies.left == 0 {
                let message = match &mut incoming {
                    Some(incoming) => incoming.message().await?,
                    None => None,
                };
                let Some(message) = message else {
                    return Ok(None);
                };
                replies.receive(message)?;
            }
            let reply = replies.next().await?;
            Ok(Some((reply, (replies, incoming))))
        })
    }

    /// The reply to the last message, with the number of messages.
    async fn last_of(mut self, mut incoming: Streaming<EchoRequest>) -> Result<EchoReply, Status> {
        let (mut last, mut received) = (EchoRequest::default(), 0);
        while let Some(message) = incoming.message().await? {
            last = message;
            received += 1;
        }
        self.receive(last)?;
        self.received = received;
        self.next().await
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
