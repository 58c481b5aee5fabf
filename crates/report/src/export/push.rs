//! Pushes families of metrics to Prometheus remote write (1.0: Protobuf compressed with snappy), or
//! to a Pushgateway (text).
//!
//! Samples have the time of the push, because receivers refuse old samples. The start of the run is
//! `tare_run_started_timestamp_seconds`.

use std::time::Duration;

use prost::Message;
use tare_analysis::formats::families::{self, Family, Kind};

/// Timeout of a push.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Protocol of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `POST` of a remote-write request.
    RemoteWrite,
    /// `PUT` of text, which replaces the previous samples of the same group.
    Gateway,
}

impl Protocol {
    /// Returns the protocol of a URL: the path of a Pushgateway contains `/metrics/job/`.
    #[must_use]
    pub fn of(url: &str) -> Self {
        if url.contains("/metrics/job/") {
            Self::Gateway
        } else {
            Self::RemoteWrite
        }
    }
}

/// Why a push failed: no response, or a response with an error status.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PushError(String);

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
    #[prost(message, repeated, tag = "3")]
    metadata: Vec<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<WireSample>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireSample {
    #[prost(double, tag = "1")]
    value: f64,
    /// Milliseconds since 1970.
    #[prost(int64, tag = "2")]
    timestamp_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "4")]
    help: String,
    #[prost(string, tag = "5")]
    unit: String,
}

/// Returns the families as the body of a remote-write request.
#[must_use]
pub fn remote_write(families: &[Family], now_unix_ms: i64) -> Vec<u8> {
    let mut request = WriteRequest::default();
    for family in families.iter().filter(|f| !f.samples.is_empty()) {
        request.metadata.push(Metadata {
            kind: match family.kind {
                Kind::Counter => 1,
                Kind::Gauge => 2,
                Kind::Histogram => 3,
                Kind::Info => 6,
            },
            name: family.name.clone(),
            help: family.help.to_owned(),
            unit: family.unit.to_owned(),
        });
        for sample in &family.samples {
            let name = format!("{}{}", family.name, sample.suffix);
            let mut labels = vec![("__name__".to_owned(), name)];
            let own = |(n, v): &(&str, String)| ((*n).to_owned(), v.clone());
            labels.extend(sample.labels.iter().map(own));
            // Receivers require sorted labels.
            labels.sort();
            request.timeseries.push(TimeSeries {
                labels: labels
                    .into_iter()
                    .map(|(name, value)| Label { name, value })
                    .collect(),
                samples: vec![WireSample {
                    value: sample.value,
                    timestamp_ms: now_unix_ms,
                }],
            });
        }
    }
    // Compressing into a vector of the right size does not fail.
    snap::raw::Encoder::new()
        .compress_vec(&request.encode_to_vec())
        .unwrap_or_default()
}

/// Sends `families` to `url`, with `headers` in addition to those of the protocol.
///
/// # Errors
/// [`PushError`] unless the receiver responds with a success status.
pub fn push(
    url: &str,
    protocol: Protocol,
    headers: &[(String, String)],
    families: &[Family],
    now_unix_ms: i64,
) -> Result<(), PushError> {
    if !["http://", "https://"].iter().any(|s| url.starts_with(s)) {
        return Err(PushError(format!(
            "invalid URL {url}, expected http://host:port/api/v1/write or http://host:port/metrics/job/NAME"
        )));
    }
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .build();
    let agent = ureq::Agent::new_with_config(config);
    let (request, fixed, body): (_, &[(&str, &str)], _) = match protocol {
        Protocol::RemoteWrite => (
            agent.post(url),
            &[
                ("Content-Type", "application/x-protobuf"),
                ("Content-Encoding", "snappy"),
                ("X-Prometheus-Remote-Write-Version", "0.1.0"),
            ],
            remote_write(families, now_unix_ms),
        ),
        Protocol::Gateway => (
            agent.put(url),
            &[("Content-Type", "text/plain; version=0.0.4")],
            families::prometheus(families).into_bytes(),
        ),
    };
    let own = headers.iter().map(|(n, v)| (n.as_str(), v.as_str()));
    let request = fixed
        .iter()
        .copied()
        .chain(own)
        .fold(request, |r, (name, value)| r.header(name, value));
    let mut response = request
        .send(&body[..])
        .map_err(|e| PushError(format!("failed to push to {url}: {e}")))?;
    let status = response.status().as_u16();
    if (200..300).contains(&status) {
        return Ok(());
    }
    let text = response.body_mut().read_to_string().unwrap_or_default();
    let body = crate::text::printable(&text.chars().take(300).collect::<String>());
    let body = if body.is_empty() {
        body
    } else {
        format!(": {body}")
    };
    Err(PushError(format!(
        "{url} responded with status {status}{body}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_analysis::formats::families::Sample;

    #[test]
    fn a_request_decodes_to_the_same_samples() {
        let family = Family {
            name: "tare_x".into(),
            kind: Kind::Gauge,
            unit: "",
            help: "X",
            samples: vec![
                Sample::new(vec![("z", "1".to_owned()), ("a", "2".to_owned())], 0.5),
                Sample::new(Vec::new(), -1.0),
            ],
        };
        let packed = remote_write(&[family], 42);
        let plain = snap::raw::Decoder::new().decompress_vec(&packed).unwrap();
        let request = WriteRequest::decode(&plain[..]).unwrap();
        let names: Vec<&str> = request.timeseries[0]
            .labels
            .iter()
            .map(|l| l.name.as_str())
            .collect();
        assert_eq!(names, ["__name__", "a", "z"]);
        assert_eq!(request.timeseries[1].samples[0].value, -1.0);
        assert_eq!(request.timeseries[1].samples[0].timestamp_ms, 42);
        assert_eq!(request.metadata[0].name, "tare_x");
    }

    #[test]
    fn the_path_determines_the_protocol() {
        let gateway = "http://h:9091/metrics/job/tare/run/x";
        assert_eq!(Protocol::of(gateway), Protocol::Gateway);
        assert_eq!(Protocol::of("http://h/api/v1/write"), Protocol::RemoteWrite);
    }
}
