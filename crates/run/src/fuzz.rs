//! Parsers of what other programs and users send, for the fuzz targets only.

use std::path::Path;

use tokio::io::{join, sink};

pub use crate::kube::fuzz::{answer, manifests};
use crate::transfer::Receiver;

/// Receives the files of a run into `dir`. Fails for what the receiver refuses, with its words.
///
/// # Errors
/// See above.
pub async fn transfer(stream: &[u8], dir: &Path) -> Result<(), String> {
    let mut receiver = Receiver::new(dir.to_owned());
    let received = receiver.receive(join(stream, sink())).await;
    received.map_err(|failure| failure.to_string())
}
