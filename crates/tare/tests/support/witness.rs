//! What a server saw of a load, to lay beside what the generator says of itself.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::unix_ns;

/// When the requests of a load came to their server, and on which connections.
#[derive(Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Vec<(u64, u16)>>>);

impl Witness {
    pub(crate) fn note(&self, stream: &TcpStream) {
        let port = stream.peer_addr().map_or(0, |a| a.port());
        self.0.lock().unwrap().push((unix_ns(), port));
    }

    /// Instants in nanoseconds of real time, and ports of connections.
    pub(crate) fn all(&self) -> Vec<(u64, u16)> {
        let mut all = self.0.lock().unwrap().clone();
        all.sort_unstable();
        all
    }
}
