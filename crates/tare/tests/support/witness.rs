//! The requests that a server received, to compare with the record of the generator.

use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::unix_ns;

/// The instants at which the requests of a load reached their server, with their connections.
#[derive(Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Vec<(u64, u16)>>>);

impl Witness {
    pub(crate) fn note(&self, stream: &TcpStream) {
        let port = stream.peer_addr().map_or(0, |a| a.port());
        self.0.lock().unwrap().push((unix_ns(), port));
    }

    /// Returns the instants in nanoseconds since 1970, and the ports of the connections.
    pub(crate) fn all(&self) -> Vec<(u64, u16)> {
        let mut all = self.0.lock().unwrap().clone();
        all.sort_unstable();
        all
    }
}
