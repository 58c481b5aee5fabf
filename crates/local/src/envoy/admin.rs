//! Reads the admin interface of a sidecar through its Unix socket.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tare_analysis::proxy_config::{ASKS_WITHIN, BYTES_MAX};
use tokio::net::UnixStream;

use tare_run::http as probe;
use tare_run::http::{Limits, ProbeError};

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

/// What a listener has carried: requests of HTTP, or connections and received bytes of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    /// HTTP requests.
    pub requests: u64,
    /// TCP connections.
    pub connections: u64,
    /// Bytes that clients sent on these connections.
    pub bytes: u64,
}

impl Traffic {
    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            connections: self.connections + other.connections,
            bytes: self.bytes + other.bytes,
        }
    }

    fn since(self, before: Self) -> Option<Self> {
        Some(Self {
            requests: self.requests.checked_sub(before.requests)?,
            connections: self.connections.checked_sub(before.connections)?,
            bytes: self.bytes.checked_sub(before.bytes)?,
        })
    }
}

/// What a sidecar has carried since it started, by listener.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Carried(BTreeMap<String, Traffic>);

impl Carried {
    /// The traffic of a listener; with the name [`super::config::OUTBOUND`], also that of those for TCP
    /// services.
    pub(crate) fn of(&self, listener: &str) -> Traffic {
        let is_of = |name: &str| {
            let rest = name.strip_prefix(listener);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let all = self.0.iter().filter(|(name, _)| is_of(name));
        all.fold(Traffic::default(), |sum, (_, traffic)| sum.plus(*traffic))
    }

    /// Requests only, of listeners by name.
    pub(crate) fn of_requests(requests: impl IntoIterator<Item = (&'static str, u64)>) -> Self {
        let of = |(name, requests): (&str, u64)| {
            let traffic = Traffic {
                requests,
                ..Traffic::default()
            };
            (name.to_owned(), traffic)
        };
        Self(requests.into_iter().map(of).collect())
    }

    /// The traffic after `before`; `None` if a counter decreased, which then belongs to a new process.
    pub(crate) fn since(&self, before: &Self) -> Option<Self> {
        let names = self.0.keys().chain(before.0.keys());
        let grown = names.map(|name| {
            let of = |all: &Self| all.0.get(name).copied().unwrap_or_default();
            Some((name.clone(), of(self).since(of(before))?))
        });
        grown.collect::<Option<_>>().map(Self)
    }
}

/// Returns the counters of the listeners.
///
/// # Errors
/// When the request fails.
pub(crate) async fn carried(socket: &Path) -> Result<Carried, ProbeError> {
    let filter = "downstream_(rq_total|cx_total|cx_rx_bytes_total)";
    let response = get(socket, &format!("/stats?filter={filter}&usedonly")).await?;
    Ok(parse_carried(&response.text()))
}

/// Reads the counters in a text of `/stats`.
pub(crate) fn parse_carried(text: &str) -> Carried {
    let mut all = BTreeMap::<String, Traffic>::new();
    for (name, value) in parse_stats(text) {
        let parts = name.split_once('.');
        let Some((protocol, (listener, counter))) =
            parts.and_then(|(protocol, rest)| Some((protocol, rest.rsplit_once('.')?)))
        else {
            continue;
        };
        let count: fn(&mut Traffic) -> &mut u64 = match (protocol, counter) {
            ("http", "downstream_rq_total") => |t| &mut t.requests,
            ("tcp", "downstream_cx_total") => |t| &mut t.connections,
            ("tcp", "downstream_cx_rx_bytes_total") => |t| &mut t.bytes,
            _ => continue,
        };
        *count(all.entry(listener.to_owned()).or_default()) = value;
    }
    Carried(all)
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
    document_within(socket, path, DOCUMENT).await
}

async fn document_within(socket: &Path, path: &str, limits: Limits) -> Result<Vec<u8>, ProbeError> {
    let stream = UnixStream::connect(socket).await?;
    let response = probe::get(stream, AUTHORITY, path, limits).await?;
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

    /// Requests a document of this length, without haste. Without a length, the server accepts the
    /// connection and never responds, and the time limit is that of all documents.
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
        let mut limits = DOCUMENT;
        if bytes.is_some() {
            limits.within = std::time::Duration::from_secs(60);
        }
        let came = document_within(&socket, "/config_dump", limits).await;
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
    fn requests_and_bytes_are_counted_by_listener() {
        let text = "http.admin.downstream_rq_total: 3\nhttp.inbound.downstream_rq_total: 12\n\
            http.inbound.downstream_cx_total: 2\nhttp.inbound.downstream_cx_rx_bytes_total: 900\n\
            http.outbound.downstream_rq_total: 7\ntcp.outbound.back.shop-0.downstream_cx_total: 2\n\
            tcp.outbound.back.shop-0.downstream_cx_rx_bytes_total: 400\n\
            tcp.outbound.back.shop-1.downstream_cx_rx_bytes_total: 50\n";
        let carried = parse_carried(text);
        let traffic = |requests, connections, bytes| Traffic {
            requests,
            connections,
            bytes,
        };
        assert_eq!(carried.of("inbound"), traffic(12, 0, 0));
        assert_eq!(carried.of("outbound"), traffic(7, 2, 450));
        assert_eq!(carried.of("outbound.back.shop-0"), traffic(0, 2, 400));
        assert_eq!(carried.of("outbound.back"), traffic(0, 2, 450));
        assert_eq!(parse_carried(""), Carried::default());

        let less = parse_carried("http.inbound.downstream_rq_total: 2\n");
        let grown = carried.since(&less).unwrap();
        assert_eq!(grown.of("inbound"), traffic(10, 0, 0));
        assert_eq!(grown.of("outbound"), carried.of("outbound"));
        assert_eq!(less.since(&carried), None, "a counter is gone");
    }
}
