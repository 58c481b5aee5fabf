//! A server of HTTP/2 for tests: what it does with each request is a list of steps.

use std::collections::HashMap;

use crate::driver::{ConnId, Step};

use super::testing::{Heard, Listener, Seen, raw, settings, settings_ack};
use super::{ErrorCode, frame};

/// What a request looks like to [`Script`].
pub(crate) struct Asked<'a> {
    pub(crate) stream: u32,
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
    /// Whether the request has ended.
    pub(crate) over: bool,
}

/// From requests to steps, for any number of connections.
pub(crate) struct Script<F> {
    answer: F,
    settings: Vec<(u16, u32)>,
    connections: HashMap<(ConnId, u64), Listener>,
    /// Streams that the clients cancelled.
    pub(crate) cancelled: u64,
    /// Whole requests.
    pub(crate) requests: u64,
    /// Times that bytes came.
    pub(crate) reads: u64,
}

impl<F: FnMut(Asked<'_>) -> Vec<Step>> Script<F> {
    pub(crate) fn new(settings: &[(u16, u32)], answer: F) -> Self {
        Self {
            answer,
            settings: settings.to_vec(),
            connections: HashMap::new(),
            cancelled: 0,
            requests: 0,
            reads: 0,
        }
    }

    pub(crate) fn bytes(&mut self, on: (ConnId, u64), bytes: &[u8]) -> Vec<Step> {
        self.reads += 1;
        // Of the connection before in the same place nothing more will come.
        self.connections.retain(|k, _| k.0 != on.0 || k.1 == on.1);
        let heard = self.connections.entry(on).or_default().feed(bytes);
        let mut steps = Vec::new();
        for h in heard {
            match h {
                Heard::Preface => steps.push(Step::Bytes(0, settings(&self.settings))),
                Heard::Request(stream, path, body) => {
                    self.requests += 1;
                    steps.extend((self.answer)(Asked {
                        stream,
                        path: &path,
                        body: &body,
                        over: true,
                    }));
                }
                Heard::Part(stream, path, body) => steps.extend((self.answer)(Asked {
                    stream,
                    path: &path,
                    body: &body,
                    over: false,
                })),
                Heard::Frame(seen) => self.frame(seen, &mut steps),
            }
        }
        steps
    }

    fn frame(&mut self, seen: Seen, steps: &mut Vec<Step>) {
        match (seen.kind, seen.flags) {
            (frame::SETTINGS, 0) => steps.push(Step::Bytes(0, settings_ack())),
            (frame::PING, 0) => {
                steps.push(Step::Bytes(
                    0,
                    raw(frame::PING, frame::ACK, 0, &seen.payload),
                ));
            }
            (frame::RST_STREAM, _) => {
                let cancel = (ErrorCode::Cancel as u32).to_be_bytes();
                self.cancelled += u64::from(seen.payload == cancel);
            }
            _ => {}
        }
    }
}
