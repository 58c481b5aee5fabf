//! The side of the user, which receives.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use flate2::write::GzDecoder;
use ring::digest::{Context, SHA256};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::time::timeout;

use super::{HEADER_BYTES_MAX, Header, LIMITS, Limits, ListDigest, Request};
use tare_run::digest::hex;

/// Longest wait for more bytes.
const WITHIN: Duration = Duration::from_secs(120);
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// File with the part of a file that has arrived.
const PART: &str = ".part";

/// Receives files into a directory, in as many connections as it takes.
#[derive(Debug)]
pub(crate) struct Receiver {
    dir: PathBuf,
    /// Digests of the files that were received completely, by path.
    have: BTreeMap<String, String>,
    /// Bytes of all files that were received.
    bytes: u64,
    limits: Limits,
}

impl Receiver {
    /// Receives into `dir`, which is empty or does not exist.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            have: BTreeMap::new(),
            bytes: 0,
            limits: LIMITS,
        }
    }

    #[cfg(test)]
    pub(super) fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Number of files that were received completely.
    pub(crate) fn files(&self) -> usize {
        self.have.len()
    }

    /// Receives all files over one connection. Fails with what was found; files that are complete then are kept for the
    /// next connection.
    pub(crate) async fn receive<S>(&mut self, mut stream: S) -> Result<(), Failure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let request = Request {
            have: self.have.clone(),
        };
        let broken = |found: String| Failure::Broken(found);
        let mut request = serde_json::to_vec(&request).map_err(|e| broken(e.to_string()))?;
        request.push(b'\n');
        let asked = stream.write_all(&request).await;
        asked.map_err(|e| broken(e.to_string()))?;
        let mut reader = BufReader::new(stream);
        let (mut listed, mut list) = (BTreeSet::new(), ListDigest::new());
        loop {
            match header(&mut reader).await.map_err(broken)? {
                Header::File {
                    path,
                    bytes,
                    sha256,
                } => {
                    if !listed.insert(path.clone()) {
                        let found = format!("found the path {path:?} twice");
                        return Err(Failure::Refused(found));
                    }
                    self.file(&mut reader, &path, bytes, &sha256).await?;
                    list.add(&path, &sha256);
                    if listed.len() > self.limits.files {
                        let max = self.limits.files;
                        return Err(Failure::Refused(format!("found more than {max} files")));
                    }
                }
                Header::End { files, sha256 } => {
                    if files != listed.len() as u64 || sha256 != list.finish() {
                        return Err(broken("the list of files is incomplete".to_owned()));
                    }
                    break;
                }
            }
        }
        // A file can vanish between two connections.
        for path in self.have.keys().filter(|p| !listed.contains(*p)) {
            let path = self.dir.join(path);
            let removed = std::fs::remove_file(&path);
            removed.map_err(|e| broken(format!("{}: {e}", path.display())))?;
        }
        self.remove_part();
        self.have.retain(|path, _| listed.contains(path));
        Ok(())
    }

    fn remove_part(&self) {
        let _ = std::fs::remove_file(self.dir.join(PART));
    }

    async fn file(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        path: &str,
        bytes: u64,
        expected: &str,
    ) -> Result<(), Failure> {
        if !is_inside(path) {
            return Err(Failure::Refused(format!(
                "found the path {path:?}, expected one inside the run directory"
            )));
        }
        if bytes == 0 && self.have.get(path).is_some_and(|have| have == expected) {
            return Ok(());
        }
        let target = self.dir.join(path);
        // A connection that breaks leaves no file that looks complete.
        let part = self.dir.join(PART);
        let file = create(&part).map_err(|e| of_file(path, e))?;
        let mut content = GzDecoder::new(Content {
            file,
            digest: Context::new(&SHA256),
            bytes: 0,
            bytes_max: self.limits.file_bytes,
        });
        unpack(reader, path, bytes, &mut content).await?;
        let content = content.finish().map_err(|e| of_file(path, e))?;
        if format!("sha256:{}", hex(&content.digest.finish())) != expected {
            return Err(Failure::Broken(format!(
                "{path}: found another digest than that of the sender"
            )));
        }
        self.bytes += content.bytes;
        if self.bytes > self.limits.all_bytes {
            return Err(Failure::Refused(format!(
                "the files until {path} have more than {} bytes",
                self.limits.all_bytes
            )));
        }
        drop(content.file);
        let kept = above(&target).and_then(|()| std::fs::rename(&part, &target));
        kept.map_err(|e| of_file(path, e))?;
        self.have.insert(path.to_owned(), expected.to_owned());
        Ok(())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.remove_part();
    }
}

/// Why files were not received.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The connection broke, or its bytes are damaged: another connection may succeed.
    #[error("{0}")]
    Broken(String),
    /// The sender sends what is not accepted.
    #[error("{0}")]
    Refused(String),
}

/// The unpacked content of a file: written, counted and digested while it arrives.
struct Content {
    file: File,
    digest: Context,
    bytes: u64,
    bytes_max: u64,
}

impl Write for Content {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes + part.len() as u64 > self.bytes_max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.file.write(part)?;
        self.digest.update(&part[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn of_file(path: &str, error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::FileTooLarge => Failure::Refused(format!(
            "{path} is too large: more bytes than the receiver accepts for a file"
        )),
        _ => Failure::Broken(format!("{path}: {error}")),
    }
}

fn create(path: &Path) -> io::Result<File> {
    above(path)?;
    File::create(path)
}

fn above(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)
}

/// Reads the packed bytes of a file and unpacks them while they arrive.
async fn unpack(
    reader: &mut (impl AsyncRead + Unpin),
    path: &str,
    bytes: u64,
    content: &mut GzDecoder<Content>,
) -> Result<(), Failure> {
    let mut packed = reader.take(bytes);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let read = match timeout(WITHIN, packed.read(&mut chunk)).await {
            Ok(Ok(0)) => {
                let found = format!("the connection ended within {path}");
                return Err(Failure::Broken(found));
            }
            Ok(read) => read.map_err(|e| Failure::Broken(e.to_string()))?,
            Err(_) => {
                let found = format!("{path}: no content within {} s", WITHIN.as_secs());
                return Err(Failure::Broken(found));
            }
        };
        left -= read as u64;
        let unpacked = content.write_all(&chunk[..read]);
        unpacked.map_err(|e| of_file(path, e))?;
    }
    Ok(())
}

async fn header(reader: &mut BufReader<impl AsyncRead + Unpin>) -> Result<Header, String> {
    let mut line = Vec::new();
    let mut limited = reader.take(HEADER_BYTES_MAX);
    match timeout(WITHIN, limited.read_until(b'\n', &mut line)).await {
        Ok(read) => read.map_err(|e| e.to_string())?,
        Err(_) => return Err(format!("no file within {} s", WITHIN.as_secs())),
    };
    if line.last() != Some(&b'\n') {
        return Err("the connection ended before the last file".to_owned());
    }
    serde_json::from_slice(&line).map_err(|e| format!("invalid header: {e}"))
}

/// Whether a path leads to a file below the directory that it is relative to.
fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}
