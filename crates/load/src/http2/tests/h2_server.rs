//! A connection against the server of the `h2` crate, in memory.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use proptest::prelude::*;
use tare_plan::load::Streaming;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::http2::client::{Client, Event, EventKind, Outcome};
use crate::http2::frame;
use crate::http2::hpack::Decoder;
use crate::http2::request::Request;
use crate::http2::testing::{TARGET, frames};

/// Runs both sides on one thread.
fn together<T>(server: impl Future<Output = ()>, client: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut server = std::pin::pin!(server);
        let mut client = std::pin::pin!(client);
        let mut served = false;
        loop {
            tokio::select! {
                () = &mut server, if !served => served = true,
                out = &mut client => return out,
            }
        }
    })
}

/// Answers each request with the result of `answer`.
async fn serve(io: DuplexStream, answer: impl Fn(&http::Request<()>, usize) -> Answer) {
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(3)
        .initial_window_size(20_000);
    let mut connection = builder.handshake::<_, Bytes>(io).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let (head, mut body) = request.into_parts();
        let read = async {
            let mut length = 0;
            while let Some(piece) = body.data().await {
                let piece = piece.unwrap();
                length += piece.len();
                body.flow_control().release_capacity(piece.len()).unwrap();
            }
            length
        };
        // The connection only makes progress while it is polled.
        let mut read = std::pin::pin!(read);
        let length = std::future::poll_fn(|context| {
            let _ = connection.poll_closed(context);
            read.as_mut().poll(context)
        })
        .await;
        let a = answer(&http::Request::from_parts(head, ()), length);
        let mut response = Response::new(());
        *response.status_mut() = a.status;
        *response.headers_mut() = a.headers;
        let mut stream = respond.send_response(response, false).unwrap();
        stream
            .send_data(a.body.into(), a.trailers.is_none())
            .unwrap();
        if let Some(trailers) = a.trailers {
            stream.send_trailers(trailers).unwrap();
        }
    }
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
}

/// Sends `requests` on up to `streams` concurrent streams; returns their outcomes and the
/// bytes of the server.
async fn drive(
    mut io: DuplexStream,
    requests: Vec<Request>,
    streams: u32,
    piece: usize,
) -> (Vec<Outcome>, Vec<u8>) {
    let count = requests.len();
    let mut client = Client::new(requests.into(), streams);
    let (mut outcomes, mut seen, mut opened) = (Vec::new(), Vec::new(), 0);
    let mut buffer = vec![0; piece];
    let mut events: Vec<Event> = Vec::new();
    while outcomes.len() < count {
        while client.free() > 0 && opened < count {
            client.open(opened as u32);
            opened += 1;
        }
        io.write_all(client.output()).await.unwrap();
        client.written(client.output().len());
        let n = io.read(&mut buffer).await.unwrap();
        assert!(n > 0, "the server closed");
        seen.extend_from_slice(&buffer[..n]);
        client.feed(&buffer[..n], &mut events).unwrap();
        for e in events.drain(..) {
            match e.kind {
                EventKind::Response(outcome) => outcomes.push(outcome),
                EventKind::Messages { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    (outcomes, seen)
}

fn pair() -> (DuplexStream, DuplexStream) {
    tokio::io::duplex(1 << 20)
}

#[test]
fn requests_to_an_h2_server_succeed() {
    for piece in [1, 7, 1_000, 65_536] {
        let (ours, theirs) = pair();
        let lengths = [0, 1, 19_999, 70_000, 300_000];
        let requests: Vec<Request> = lengths
            .iter()
            .map(|&n| {
                let headers = [("x-length".to_owned(), n.to_string())];
                Request::new("POST", TARGET, &headers, Some(vec![3; n])).unwrap()
            })
            .collect();
        let server = serve(theirs, |request, length| {
            assert_eq!(request.headers()["x-length"], length.to_string().as_str());
            assert_eq!(request.uri().to_string(), "http://h:80/a");
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", HeaderValue::from_static("1"));
            Answer {
                status: StatusCode::from_u16(200 + (length % 7) as u16).unwrap(),
                headers: HeaderMap::new(),
                body: vec![1; length / 2],
                trailers: (length > 0).then_some(trailers),
            }
        });
        let (outcomes, _) = together(server, drive(ours, requests, 10, piece));
        let mut statuses: Vec<u16> = outcomes.iter().map(|o| o.status).collect();
        let mut expected: Vec<u16> = lengths.iter().map(|n| 200 + (n % 7) as u16).collect();
        statuses.sort_unstable();
        expected.sort_unstable();
        assert_eq!(statuses, expected);
    }
}

fn fields() -> impl Strategy<Value = Vec<Vec<(String, String)>>> {
    let name = prop_oneof![
        "[a-z][a-z0-9-]{0,12}",
        Just("content-type".to_owned()),
        Just("x-id".to_owned())
    ];
    let field = (name, "[!-~]([ -~]{0,60}[!-~])?");
    let response = prop::collection::vec(field, 0..12);
    prop::collection::vec(response, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn header_blocks_of_h2_decode_to_the_sent_headers(responses in fields()) {
        let forbidden = ["connection", "upgrade", "te", "keep-alive", "content-length", "host"];
        let responses: Vec<Vec<(String, String)>> = responses
            .into_iter()
            .map(|r| r.into_iter().filter(|(n, _)| !forbidden.contains(&n.as_str())).collect())
            .collect();
        let (ours, theirs) = pair();
        let requests: Vec<Request> = (0..responses.len())
            .map(|i| Request::new("GET", TARGET, &[("x-nth".into(), i.to_string())], None).unwrap())
            .collect();
        let server = serve(theirs, |request, _| {
            let nth: usize = request.headers()["x-nth"].to_str().unwrap().parse().unwrap();
            let mut headers = HeaderMap::new();
            for (name, value) in &responses[nth] {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                headers.append(name, HeaderValue::from_str(value).unwrap());
            }
            Answer { status: StatusCode::OK, headers, body: vec![0], trailers: None }
        });
        let count = responses.len();
        let (outcomes, mut seen) = together(server, drive(ours, requests, 1, 4_096));
        prop_assert_eq!(outcomes.len(), count);
        let mut decoder = Decoder::default();
        let heads: Vec<_> = frames(&mut seen).into_iter().filter(|f| f.kind == frame::HEADERS).collect();
        prop_assert_eq!(heads.len(), count);
        for (head, expected) in heads.iter().zip(&responses) {
            let mut found: Vec<(String, String)> = Vec::new();
            decoder.decode(&head.payload, &mut |_, n, v| {
                let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
                found.push((text(n), text(v)));
            }).unwrap();
            let mut expected = expected.clone();
            expected.push((":status".into(), "200".into()));
            found.sort();
            expected.sort();
            prop_assert_eq!(&found, &expected);
        }
    }
}

/// Echoes each piece of a call's body as it arrives, and ends with status 0.
async fn echo(io: DuplexStream) {
    let mut connection = h2::server::handshake(io).await.unwrap();
    let (request, mut respond) = connection.accept().await.unwrap().unwrap();
    assert_eq!(request.headers()["te"], "trailers");
    assert_eq!(request.headers()["grpc-timeout"], "1S");
    let exchange = async {
        let mut response = Response::new(());
        let content = HeaderValue::from_static("application/grpc+proto");
        response.headers_mut().insert("content-type", content);
        let mut stream = respond.send_response(response, false).unwrap();
        let mut body = request.into_body();
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            body.flow_control().release_capacity(piece.len()).unwrap();
            stream.send_data(piece, false).unwrap();
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        stream.send_trailers(trailers).unwrap();
    };
    let mut exchange = std::pin::pin!(exchange);
    std::future::poll_fn(|context| {
        let _ = connection.poll_closed(context);
        exchange.as_mut().poll(context)
    })
    .await;
    while connection.accept().await.is_some() {}
}

#[test]
fn a_bidirectional_call_to_an_h2_server_succeeds() {
    let messages: Vec<Vec<u8>> = (0..20).map(|i| vec![i; usize::from(i) * 900]).collect();
    let request = Request::grpc(Streaming::Bidi, TARGET, &[], Some("1S"), &messages).unwrap();
    let (ours, theirs) = pair();
    let (outcomes, _) = together(echo(theirs), drive(ours, vec![request], 1, 5_000));
    let expected = Outcome {
        status: 200,
        grpc_status: Some(0),
    };
    assert_eq!(outcomes, [expected]);
}
