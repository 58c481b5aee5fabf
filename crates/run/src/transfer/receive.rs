//! The side of the user, which receives.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use flate2::read::GzDecoder;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::time::timeout;

use super::{HEADER_BYTES_MAX, Header, ListDigest, Request};
use crate::image::sha256;

/// Longest wait for more bytes.
const WITHIN: Duration = Duration::from_secs(120);

/// Receives files into a directory, in as many connections as it takes.
#[derive(Debug)]
pub(crate) struct Receiver {
    dir: PathBuf,
    /// Digests of the files that were received completely, by path.
    have: BTreeMap<String, String>,
}

impl Receiver {
    /// Receives into `dir`, which is empty or does not exist.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            have: BTreeMap::new(),
        }
    }

    /// Number of files that were received completely.
    pub(crate) fn files(&self) -> usize {
        self.have.len()
    }

    /// Receives all files over one connection. Fails with what was found; files that are complete then are kept for the
    /// next connection.
    pub(crate) async fn receive<S>(&mut self, mut stream: S) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let request = Request {
            have: self.have.clone(),
        };
        let mut request = serde_json::to_vec(&request).map_err(|e| e.to_string())?;
        request.push(b'\n');
        let asked = stream.write_all(&request).await;
        asked.map_err(|e| e.to_string())?;
        let mut reader = BufReader::new(stream);
        let (mut listed, mut list) = (BTreeSet::new(), ListDigest::new());
        loop {
            match header(&mut reader).await? {
                Header::File {
                    path,
                    bytes,
                    sha256,
                } => {
                    self.file(&mut reader, &path, bytes, &sha256).await?;
                    list.add(&path, &sha256);
                    listed.insert(path);
                }
                Header::End { files, sha256 } => {
                    if files != listed.len() as u64 || sha256 != list.finish() {
                        return Err("the list of files is incomplete".to_owned());
                    }
                    break;
                }
            }
        }
        // A file can vanish between two connections.
        for path in self.have.keys().filter(|p| !listed.contains(*p)) {
            let path = self.dir.join(path);
            std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        self.have.retain(|path, _| listed.contains(path));
        Ok(())
    }

    async fn file(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        path: &str,
        bytes: u64,
        expected: &str,
    ) -> Result<(), String> {
        if !is_inside(path) {
            return Err(format!(
                "found the path {path:?}, expected one inside the run directory"
            ));
        }
        if bytes == 0 && self.have.get(path).is_some_and(|have| have == expected) {
            return Ok(());
        }
        let mut packed = Vec::new();
        let mut content = reader.take(bytes);
        while (packed.len() as u64) < bytes {
            match timeout(WITHIN, content.read_buf(&mut packed)).await {
                Ok(Ok(0)) => return Err(format!("the connection ended within {path}")),
                Ok(read) => read.map_err(|e| e.to_string())?,
                Err(_) => return Err(format!("{path}: no content within {} s", WITHIN.as_secs())),
            };
        }
        let mut content = Vec::new();
        let unpacked = GzDecoder::new(packed.as_slice()).read_to_end(&mut content);
        unpacked.map_err(|e| format!("{path}: {e}"))?;
        if sha256(&content) != expected {
            return Err(format!(
                "{path}: found another digest than that of the sender"
            ));
        }
        write(&self.dir.join(path), &content).map_err(|e| format!("{path}: {e}"))?;
        self.have.insert(path.to_owned(), expected.to_owned());
        Ok(())
    }
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

fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    std::fs::write(path, content)
}
