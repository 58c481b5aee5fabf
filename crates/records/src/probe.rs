//! Probes: single requests from a place outside the mesh, for proofs. Nothing here is measured.
//!
//! A probe reads one [`ProbeSpec`] and writes a [`ProbeRecord`] for each request, in the same order.

use serde::{Deserialize, Serialize};

use crate::record::{Hello, StreamChecksum};
use tare_plan::mesh::{lines_of_counters, sum_of_counters};

/// The specification of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeSpec {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The requests. Several are sent at the same time.
    pub requests: Vec<ProbeRequest>,
    /// How many of them, from the first on, must have a result before the others are sent.
    #[serde(default)]
    pub first: usize,
}

/// A GET request by HTTP/1.1 without TLS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRequest {
    /// `address:port` to connect to; an IPv6 address in brackets.
    pub address: String,
    /// Host header.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// Time limit of one attempt: connection, response and body.
    pub timeout_ns: u64,
    /// For how long after the start of the probe the request is sent again, if it has no answer, or one with a
    /// status of 400 or more.
    #[serde(default)]
    pub retry_ns: u64,
    /// Maximum size of the kept part of the body, in bytes.
    pub body_bytes_max: usize,
    /// Keep only the lines of these counters of a Prometheus text; absent: keep the whole body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Vec<String>>,
    /// Keep only the sum of the first of these counters, as a number.
    #[serde(default)]
    pub is_sum: bool,
}

impl ProbeRequest {
    /// Returns the answer with the part of the body that this request keeps. `is_cut`: the body is longer.
    #[must_use]
    pub fn answer(&self, status: u16, body: &str, is_cut: bool) -> ProbeAnswer {
        let mut body = match &self.counters {
            Some(counters) if self.is_sum => sum_of_counters(body, counters).to_string(),
            Some(counters) => lines_of_counters(body, counters),
            None => body.to_owned(),
        };
        let end = body.floor_char_boundary(self.body_bytes_max);
        let is_cut = is_cut || end < body.len();
        body.truncate(end);
        ProbeAnswer {
            status,
            body,
            is_cut,
            unix_ns: 0,
        }
    }
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeAnswer {
    /// HTTP status.
    pub status: u16,
    /// The kept part of the body.
    pub body: String,
    /// Whether a part is missing because of a limit.
    pub is_cut: bool,
    /// When it was complete, in nanoseconds of Unix time.
    #[serde(default)]
    pub unix_ns: u64,
}

/// Why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeFailure {
    /// Its kind.
    pub kind: FailureKind,
    /// What was found: a fragment such as `connection reset`.
    pub found: String,
}

/// Kinds of failures of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The address refused the connection.
    Refused,
    /// The peer reset or closed the connection before a complete response.
    Reset,
    /// No connection or no complete response in time.
    Timeout,
    /// The response is not HTTP/1.1, such as a TLS alert.
    NotHttp,
    /// Anything else, such as no route to the address.
    Other,
}

/// What a probe writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ProbeRecord {
    /// The first record.
    Hello(Hello),
    /// The result of a request with a response.
    Answer(ProbeAnswer),
    /// The result of a request without one.
    Failure(ProbeFailure),
    /// The last record.
    Final {
        /// [`StreamChecksum`] over all lines before this one, as 16 hexadecimal digits.
        checksum: String,
    },
}

/// The result of a request.
pub type ProbeResult = Result<ProbeAnswer, ProbeFailure>;

impl From<ProbeResult> for ProbeRecord {
    fn from(result: ProbeResult) -> Self {
        match result {
            Ok(answer) => Self::Answer(answer),
            Err(failure) => Self::Failure(failure),
        }
    }
}

/// Reads the results of a probe with this number of requests.
///
/// # Errors
/// When the stream is incomplete or damaged: what was found.
pub fn read(lines: &[String], requests: usize) -> Result<Vec<ProbeResult>, String> {
    let mut checksum = StreamChecksum::default();
    let mut results = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let record = serde_json::from_str(line);
        let record = record.map_err(|e| format!("line {} is not a record: {e}", index + 1))?;
        match record {
            ProbeRecord::Hello(hello) if index == 0 => {
                let (found, expected) = (hello.schema_version, tare_plan::SCHEMA_VERSION);
                if found != expected {
                    return Err(format!(
                        "records of schema version {found}, expected {expected}"
                    ));
                }
            }
            ProbeRecord::Answer(answer) if index > 0 => results.push(Ok(answer)),
            ProbeRecord::Failure(failure) if index > 0 => results.push(Err(failure)),
            ProbeRecord::Final { checksum: found } if found == checksum.hex() => {
                return match results.len() == requests {
                    true => Ok(results),
                    false => Err(format!("{} results of {requests} requests", results.len())),
                };
            }
            _ => return Err(format!("line {} is damaged", index + 1)),
        }
        checksum.line(line);
    }
    Err(format!(
        "the records end after {} of {requests} results",
        results.len()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::RecordWriter;

    fn stream() -> Vec<String> {
        let mut records = RecordWriter::new(Vec::new());
        let hello = ProbeRecord::Hello(Hello::new("probe", 1));
        let failure = ProbeFailure {
            kind: FailureKind::Reset,
            found: "connection reset".into(),
        };
        for record in [hello, ProbeRecord::Failure(failure)] {
            records.write(&record).unwrap();
        }
        records.finish_lines(|checksum| ProbeRecord::Final { checksum })
    }

    #[test]
    fn only_a_complete_stream_has_results() {
        let lines = stream();
        assert_eq!(read(&lines, 1).unwrap().len(), 1);
        assert_eq!(read(&lines, 2).unwrap_err(), "1 results of 2 requests");
        let cut = read(&lines[..2], 1).unwrap_err();
        assert_eq!(cut, "the records end after 1 of 1 results");
        let mut damaged = lines.clone();
        damaged[1] = damaged[1].replace("reset", "resat");
        assert!(read(&damaged, 1).is_err());
        let twice = [&lines[..2], &lines[1..]].concat();
        assert_eq!(read(&twice, 2).unwrap_err(), "line 4 is damaged");
        assert_eq!(read(&lines[1..], 1).unwrap_err(), "line 1 is damaged");
    }

    #[test]
    fn the_kept_part_of_a_body_has_a_limit() {
        let mut request = ProbeRequest {
            address: "[::1]:80".into(),
            host: "web".into(),
            path: "/".into(),
            timeout_ns: 1,
            retry_ns: 0,
            body_bytes_max: 4,
            counters: None,
            is_sum: false,
        };
        let answer = request.answer(200, "naïve", false);
        assert_eq!((answer.body.as_str(), answer.is_cut), ("naï", true));
        assert!(!request.answer(200, "four", false).is_cut);
        request.counters = Some(vec!["a".to_owned()]);
        let answer = request.answer(200, "b 123456789\na 1\n", false);
        assert_eq!((answer.body.as_str(), answer.is_cut), ("a 1\n", false));
        (request.is_sum, request.body_bytes_max) = (true, 64);
        let answer = request.answer(200, "a{x=\"1\"} 1\na{x=\"2\"} 2\n", true);
        assert_eq!((answer.body.as_str(), answer.is_cut), ("3", true));
    }
}
