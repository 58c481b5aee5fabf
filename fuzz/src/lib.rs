//! Fuzz targets. For any input they check that the code does not panic, that its memory is
//! bounded, and that the result does not depend on how the bytes are split.

mod documents;
mod foreign;

use std::sync::Arc;

pub use documents::{annotations, histogram, history_entry, merge_file, plan, proxy_config};
pub use foreign::{api_answer, manifests, transfer};
use tare_load::grpc::{MessageError, Messages};
use tare_load::http1::ResponseParser;
use tare_load::http2::hpack::{Decoder, TABLE_BYTES_MAX};
use tare_load::http2::{Client, Event, Request, RequestTarget};
use tare_plan::load::Streaming;

/// A fuzz target.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: [(&str, Target); 13] = [
    ("http1_response", http1_response),
    ("http2_frames", http2_frames),
    ("hpack", hpack),
    ("grpc_messages", grpc_messages),
    ("histogram", histogram),
    ("merge_file", merge_file),
    ("plan", plan),
    ("proxy_config", proxy_config),
    ("history_entry", history_entry),
    ("annotations", annotations),
    ("api_answer", api_answer),
    ("manifests", manifests),
    ("transfer", transfer),
];

/// Splits off the first byte, which determines the length of the pieces.
fn cut(data: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = data.split_first()?;
    Some((usize::from(first) % 61 + 1, rest))
}

/// HTTP/1.1 responses, one after the other.
pub fn http1_response(data: &[u8]) {
    let Some((piece, data)) = cut(data) else {
        return;
    };
    let whole = responses(data, data.len().max(1));
    assert_eq!(whole, responses(data, piece));
}

/// The responses with their positions, and how the parser ended.
fn responses(data: &[u8], piece: usize) -> Vec<String> {
    let mut parser = ResponseParser::default();
    parser.reset(false);
    let mut found = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let end = (at + piece).min(data.len());
        match parser.feed(&data[at..end]) {
            Ok(fed) => {
                assert!(fed.consumed <= end - at);
                at += fed.consumed;
                if let Some(response) = fed.response {
                    found.push(format!("{response:?} at {at}"));
                    parser.reset(found.len() % 3 == 0);
                } else {
                    assert_eq!(at, end, "bytes remain after the last response");
                }
            }
            Err(e) => {
                found.push(format!("{e:?}"));
                return found;
            }
        }
    }
    found.push(format!("{:?}", parser.eof()));
    found
}

/// An HTTP/2 connection with open streams that receives the input.
pub fn http2_frames(data: &[u8]) {
    let Some((piece, data)) = cut(data) else {
        return;
    };
    let whole = conversation(data, data.len().max(1));
    assert_eq!(whole, conversation(data, piece));
}

fn requests() -> Arc<[Request]> {
    let target = RequestTarget {
        scheme: "http",
        authority: "h",
        target: "/",
    };
    let http = |method, body| Request::new(method, target, &[], body).expect("a valid request");
    let call = |kind, messages: &[Vec<u8>]| {
        Request::grpc(kind, target, &[], None, messages).expect("a valid call")
    };
    let two = [vec![1; 3], vec![2; 3]];
    Arc::from(vec![
        http("GET", None),
        http("POST", Some(vec![7; 3_000])),
        http("HEAD", None),
        call(Streaming::Unary, &two[..1]),
        call(Streaming::Bidi, &two),
    ])
}

/// Events, output and the final state of a connection.
fn conversation(data: &[u8], piece: usize) -> (Vec<Event>, Vec<u8>, String) {
    let requests = requests();
    let count = requests.len() as u32;
    let mut client = Client::new(requests, 8);
    let mut events = Vec::new();
    // SETTINGS with small windows, which exercise flow control.
    let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 4, 0];
    client.feed(&settings, &mut events).expect("valid SETTINGS");
    for request in 0..count {
        client.open(request);
    }
    for bytes in data.chunks(piece) {
        if let Err(violation) = client.feed(bytes, &mut events) {
            return (events, client.output().to_vec(), violation.to_string());
        }
        assert!(client.live() <= 8 && client.free() <= 8);
    }
    let live = client.live();
    let ends = events.iter().filter(|e| !is_message(e)).count();
    assert_eq!(
        live as usize + ends,
        count as usize,
        "a stream is neither live nor ended"
    );
    (events, client.output().to_vec(), format!("{live} live"))
}

fn is_message(event: &Event) -> bool {
    matches!(event.kind, tare_load::http2::EventKind::Messages { .. })
}

/// Header blocks, each after a byte with its length.
pub fn hpack(mut data: &[u8]) {
    let mut decoder = Decoder::default();
    while let Some((&length, rest)) = data.split_first() {
        let (block, rest) = rest.split_at(rest.len().min(usize::from(length)));
        data = rest;
        let mut bytes = 0;
        let decoded = decoder.decode(block, &mut |_, name, value| {
            bytes += name.len() + value.len();
        });
        assert!(decoder.table_bytes() <= TABLE_BYTES_MAX);
        // Each byte encodes at most one table entry or 8/5 of a Huffman symbol.
        assert!(bytes <= block.len() * TABLE_BYTES_MAX);
        if decoded.is_err() {
            return;
        }
    }
}

/// Length-prefixed messages.
pub fn grpc_messages(data: &[u8]) {
    let Some((piece, data)) = cut(data) else {
        return;
    };
    let of = |piece: usize| {
        let mut messages = Messages::default();
        for bytes in data.chunks(piece) {
            messages.feed(bytes)?;
        }
        Ok::<_, MessageError>((messages.count(), messages.at_boundary()))
    };
    assert_eq!(of(piece), of(data.len().max(1)));
}

#[cfg(test)]
mod tests {
    use super::TARGETS;

    /// Replays the corpus, which includes all inputs that failed in the past.
    #[test]
    fn every_input_of_the_corpus_passes() {
        for (name, target) in TARGETS {
            let folder = format!("{}/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
            let mut seen = 0;
            for entry in std::fs::read_dir(folder).unwrap() {
                target(&std::fs::read(entry.unwrap().path()).unwrap());
                seen += 1;
            }
            assert!(seen >= 3, "{name} has {seen} files");
        }
    }
}
