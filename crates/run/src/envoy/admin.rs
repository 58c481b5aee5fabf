//! Asks a sidecar through its administration interface, a Unix socket.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tokio::net::UnixStream;

use super::config::{INBOUND, OUTBOUND};
use crate::local::probe::{self, ProbeError};

/// Whether it serves, with its own word (`LIVE`, `PRE_INITIALIZING`).
///
/// # Errors
/// When it cannot be reached.
pub(crate) async fn ready(socket: &Path) -> Result<(bool, String), ProbeError> {
    let response = get(socket, "/ready").await?;
    Ok((response.status == 200, response.text().trim().to_owned()))
}

/// Version of the running program, as `1.40.0`.
///
/// # Errors
/// When it cannot be reached, or the answer is not as expected.
pub(crate) async fn version(socket: &Path) -> Result<String, ProbeError> {
    let info: Value = serde_json::from_slice(&get(socket, "/server_info").await?.body)
        .map_err(|e| ProbeError::Answer(format!("/server_info is not JSON: {e}")))?;
    info["version"]
        .as_str()
        .and_then(|v| v.split('/').nth(1))
        .map(str::to_owned)
        .ok_or_else(|| ProbeError::Answer("/server_info has no version".to_owned()))
}

/// Requests that came in by each listener since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Requests {
    /// From other sidecars.
    pub inbound: u64,
    /// From its own application.
    pub outbound: u64,
}

/// Its request counters.
///
/// # Errors
/// When it cannot be reached.
pub(crate) async fn requests(socket: &Path) -> Result<Requests, ProbeError> {
    let response = get(socket, "/stats?filter=downstream_rq_total&usedonly").await?;
    Ok(parse_requests(&response.text()))
}

fn parse_requests(text: &str) -> Requests {
    let counters: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| {
            let (name, value) = line.split_once(": ")?;
            Some((name, value.trim().parse().ok()?))
        })
        .collect();
    let of = |listener: &str| {
        let name = format!("http.{listener}.downstream_rq_total");
        counters.get(name.as_str()).copied().unwrap_or(0)
    };
    Requests {
        inbound: of(INBOUND),
        outbound: of(OUTBOUND),
    }
}

/// What an Envoy is asked for after the load, with the paths.
pub(crate) const DOCUMENTS: [(&str, &str); 2] = [
    ("config_dump", "/config_dump"),
    ("server_info", "/server_info"),
];

/// A document of JSON, as it came.
///
/// # Errors
/// When it cannot be reached, or has no such document.
pub(crate) async fn document(socket: &Path, path: &str) -> Result<Vec<u8>, ProbeError> {
    let response = get(socket, path).await?;
    match response.status {
        200 => Ok(response.body),
        status => Err(ProbeError::Answer(format!("{path}: status {status}"))),
    }
}

async fn get(socket: &Path, path: &str) -> Result<probe::Response, ProbeError> {
    let stream = UnixStream::connect(socket).await?;
    probe::get(stream, "sidecar", path).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_by_listener() {
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
