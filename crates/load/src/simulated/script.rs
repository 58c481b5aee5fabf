//! A simulated HTTP/2 server: its answer to each request is a list of steps.

use std::collections::HashMap;

use crate::driver::ConnId;
use crate::http2::testing::{ClientDecoder, Sent, ping_ack, settings, settings_ack};

use super::driver::{SimServer, Step};

/// A request, as far as it has arrived.
pub(crate) struct Received<'a> {
    pub(crate) stream: u32,
    pub(crate) path: &'a str,
    pub(crate) body: &'a [u8],
    /// Whether the request is complete.
    pub(crate) ended: bool,
}

/// Answers requests on any number of connections.
pub(crate) struct Script<F> {
    answer: F,
    settings: Vec<(u16, u32)>,
    connections: HashMap<(ConnId, u64), ClientDecoder>,
    /// Streams that the clients cancelled.
    pub(crate) cancelled: u64,
    /// Complete requests.
    pub(crate) requests: u64,
    /// Number of calls of [`Self::feed`].
    pub(crate) reads: u64,
}

impl<F: FnMut(Received<'_>) -> Vec<Step>> Script<F> {
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

    /// Takes bytes of the connection `on`; returns the server's reaction.
    pub(crate) fn feed(&mut self, on: (ConnId, u64), bytes: &[u8]) -> Vec<Step> {
        self.reads += 1;
        // Earlier connections under the same id are closed.
        self.connections.retain(|k, _| k.0 != on.0 || k.1 == on.1);
        let sent = self.connections.entry(on).or_default().feed(bytes);
        sent.into_iter().flat_map(|s| self.react(s)).collect()
    }

    fn react(&mut self, sent: Sent) -> Vec<Step> {
        let now = |bytes| vec![Step::Bytes(0, bytes)];
        match sent {
            Sent::Preface => now(settings(&self.settings)),
            Sent::Settings => now(settings_ack()),
            Sent::Ping(payload) => now(ping_ack(&payload)),
            Sent::Cancel => {
                self.cancelled += 1;
                Vec::new()
            }
            Sent::Request(stream, path, body) => {
                self.requests += 1;
                self.answer(stream, &path, &body, true)
            }
            Sent::Part(stream, path, body) => self.answer(stream, &path, &body, false),
            Sent::Other => Vec::new(),
        }
    }

    fn answer(&mut self, stream: u32, path: &str, body: &[u8], ended: bool) -> Vec<Step> {
        (self.answer)(Received {
            stream,
            path,
            body,
            ended,
        })
    }
}

impl<F: FnMut(Received<'_>) -> Vec<Step>> SimServer for Script<F> {
    fn bytes(&mut self, _now: u64, on: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        Some(self.feed(on, bytes))
    }
}
