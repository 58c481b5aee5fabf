//! Sends the files of a run directory through a forwarded port. The connection may break at any time: the receiver asks
//! again, and files that it has already are not sent again.
//!
//! The receiver sends one line, a [`Request`]. The answer is a line with a [`Header`] for each file, which the compressed
//! content of the file follows, and one at the end with a digest of the whole list.

use std::collections::BTreeMap;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use tare_run::digest::hex;

mod receive;
mod send;

pub(crate) use receive::{Failure, Receiver};
pub use send::{answer, serve};

/// Port on the loopback of the pod that sends.
pub const PORT: u16 = 19_798;

/// Most bytes of a request, and of a header.
const REQUEST_BYTES_MAX: u64 = 64 << 20;
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// Limits of what the receiver accepts from a sender, which may be another program than tare.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Bytes of one file, without its compression.
    file_bytes: u64,
    /// Bytes of all files.
    all_bytes: u64,
    files: usize,
}

const LIMITS: Limits = Limits {
    file_bytes: 2 << 30,
    all_bytes: 64 << 30,
    files: 1_000_000,
};

/// What the receiver asks.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Request {
    /// Digests of the files that it has, by path.
    have: BTreeMap<String, String>,
}

/// A part of the answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Header {
    /// A file.
    File {
        /// Path in the directory, with `/` between names.
        path: String,
        /// Number of bytes that follow, in gzip format; 0 if the receiver has the file.
        bytes: u64,
        /// SHA-256 of the content.
        sha256: String,
    },
    /// All files were listed.
    End {
        /// Number of files.
        files: u64,
        /// [`ListDigest`] of all files.
        sha256: String,
    },
}

/// SHA-256 over the paths and digests of all files, in their order.
struct ListDigest(Context);

impl ListDigest {
    fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    fn add(&mut self, path: &str, sha256: &str) {
        self.0.update(format!("{path}\n{sha256}\n").as_bytes());
    }

    fn finish(self) -> String {
        hex(&self.0.finish())
    }
}

#[cfg(test)]
mod tests;
