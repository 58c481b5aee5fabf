//! Reads the admin interface of a sidecar through its Unix socket.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tare_analysis::proxy_config::{ASKS_WITHIN, BYTES_MAX};
use tokio::net::UnixStream;

use super::config::{INBOUND, OUTBOUND};
use crate::local::probe::{self, Limits, ProbeError};

/// The Host header of requests; the admin interface ignores it.
const AUTHORITY: &str = "sidecar";
/// Limits of a document, equal to those on a cluster, where the generator makes the requests.
const DOCUMENT: Limits = Limits {
    within: ASKS_WITHIN,
    body_bytes_max: BYTES_MAX,
};

/// Returns whether the sidecar is ready, and its state (`LIVE`, `PRE_INITIALIZING`).
///
/// # Errors
/// When the request fails.
pub(crate) async fn ready(socket: &Path) -> Result<(bool, String), ProbeError> {
    let response = get(socket, "/ready").await?;
    Ok((response.status == 200, response.text().trim().to_owned()))
}

/// Returns the version of the running program, for example `1.40.0`.
///
/// # Errors
/// When the request fails or the response is unexpected.
pub(crate) async fn version(socket: &Path) -> Result<String, ProbeError> {
    let info: Value = serde_json::from_slice(&get(socket, "/server_info").await?.body)
        .map_err(|e| ProbeError::Answer(format!("invalid JSON from /server_info: {e}")))?;
    info["version"]
        .as_str()
        .and_then(|v| v.split('/').nth(1))
        .map(str::to_owned)
        .ok_or_else(|| ProbeError::Answer("no version in /server_info".to_owned()))
}

/// Number of requests by listener since the sidecar started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Requests {
    /// From other sidecars.
    pub inbound: u64,
    /// From the sidecar's own application.
    pub outbound: u64,
}

/// Returns the request counters.
///
/// # Errors
/// When the request fails.
pub(crate) async fn requests(socket: &Path) -> Result<Requests, ProbeError> {
    let response = get(socket, "/stats?filter=downstream_rq_total&usedonly").await?;
    Ok(parse_requests(&response.text()))
}

fn parse_requests(text: &str) -> Requests {
    let counters: Stats = parse_stats(text).collect();
    let of = |listener: &str| {
        let name = format!("http.{listener}.downstream_rq_total");
        counters.get(&name).copied().unwrap_or(0)
    };
    Requests {
        inbound: of(INBOUND),
        outbound: of(OUTBOUND),
    }
}

/// Counters and gauges of a sidecar by name, without those that were never used.
pub(crate) type Stats = BTreeMap<String, u64>;

/// Returns all counters and gauges.
///
/// # Errors
/// When the request fails.
pub(crate) async fn stats(socket: &Path) -> Result<Stats, ProbeError> {
    let mut all = Stats::new();
    for kind in ["Counters", "Gauges"] {
        let text = document(socket, &format!("/stats?usedonly&type={kind}")).await?;
        all.extend(parse_stats(&String::from_utf8_lossy(&text)));
    }
    Ok(all)
}

fn parse_stats(text: &str) -> impl Iterator<Item = (String, u64)> {
    text.lines().filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    })
}

/// The documents that are read after the load, and their paths.
pub(crate) const DOCUMENTS: [(&str, &str); 2] = [
    ("config_dump", "/config_dump"),
    ("server_info", "/server_info"),
];

/// Returns a JSON document, unchanged.
///
/// # Errors
/// When the request fails, the document does not exist, or it exceeds the limits of size and time.
pub(crate) async fn document(socket: &Path, path: &str) -> Result<Vec<u8>, ProbeError> {
    let stream = UnixStream::connect(socket).await?;
    let response = probe::get(stream, AUTHORITY, path, DOCUMENT).await?;
    match response.status {
        200 => Ok(response.body),
        status => Err(ProbeError::Answer(format!("{path}: status {status}"))),
    }
}

async fn get(socket: &Path, path: &str) -> Result<probe::Response, ProbeError> {
    let stream = UnixStream::connect(socket).await?;
    probe::get(stream, AUTHORITY, path, Limits::PROOF).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    /// Requests a document of this length. Without a length, the server accepts the connection and
    /// never responds.
    async fn document_of(bytes: Option<usize>) -> Result<usize, String> {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("admin.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let Some(bytes) = bytes else {
                return std::future::pending().await;
            };
            let _ = stream.read(&mut [0; 4096]).await.unwrap();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            // The write fails when the client stops reading at its limit.
            let _ = stream.write_all(&vec![b' '; bytes]).await;
        });
        let came = document(&socket, "/config_dump").await;
        serving.abort();
        came.map(|json| json.len()).map_err(|e| e.to_string())
    }

    #[tokio::test]
    async fn the_size_limit_of_a_document_is_that_of_a_cluster() {
        assert_eq!(document_of(Some(BYTES_MAX)).await, Ok(16 << 20));
        let found = document_of(Some(BYTES_MAX + 1)).await.unwrap_err();
        assert!(found.contains("16777216 bytes"), "{found}");
    }

    #[tokio::test]
    async fn the_time_limit_of_a_document_is_that_of_a_cluster() {
        let found = document_of(None).await.unwrap_err();
        assert_eq!(found, "no response within 3 s");
    }

    #[test]
    fn requests_are_counted_by_listener() {
        let text = "http.admin.downstream_rq_total: 3\nhttp.inbound.downstream_rq_total: 12\nhttp.outbound.downstream_rq_total: 7\n";
        assert_eq!(
            parse_requests(text),
            Requests {
                inbound: 12,
                outbound: 7
            }
        );
        assert_eq!(parse_requests(""), Requests::default());
    }
}
