//! Watching a service: which of its servers answers, request by request.
//!
//! The worker reads one [`WatchSpec`], sends a request at each of its instants, on a connection of its own, and writes a
//! [`WatchRecord`] for each.

use serde::{Deserialize, Serialize};

use crate::record::{Hello, StreamChecksum};

/// The specification of a watcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchSpec {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `address:port` to connect to; an IPv6 address in brackets.
    pub address: String,
    /// Host header.
    pub host: String,
    /// Time between two requests, whether they are answered or not.
    pub every_ns: u64,
    /// When the last request is sent, in nanoseconds of Unix time.
    pub until_unix_ns: u64,
    /// Time limit of a request.
    pub timeout_ns: u64,
}

/// One request. The times are of the watcher's clock, in nanoseconds of Unix time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watched {
    /// When it was sent.
    pub sent_unix_ns: u64,
    /// When its response was complete, or when it failed.
    pub done_unix_ns: u64,
    /// Size of the body of the response in bytes, by which the servers differ; absent if the request failed.
    pub bytes: Option<u64>,
    /// Why it failed; empty if it did not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
}

/// What a watcher writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WatchRecord {
    /// The first record.
    Hello(Hello),
    /// A request that has ended.
    Watched(Watched),
    /// The last record.
    Final {
        /// [`StreamChecksum`] over all lines before this one, as 16 hexadecimal digits.
        checksum: String,
    },
}

/// Reads the requests of a watcher.
///
/// # Errors
/// When the stream is incomplete or damaged: what was found.
pub fn read(lines: &[String]) -> Result<Vec<Watched>, String> {
    let mut checksum = StreamChecksum::default();
    let mut all = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let record = serde_json::from_str(line);
        match record.map_err(|e| format!("line {} is not a record: {e}", index + 1))? {
            WatchRecord::Hello(hello)
                if index == 0 && hello.schema_version == tare_plan::SCHEMA_VERSION => {}
            WatchRecord::Watched(watched) if index > 0 => all.push(watched),
            WatchRecord::Final { checksum: found } if found == checksum.hex() => return Ok(all),
            _ => return Err(format!("line {} is damaged", index + 1)),
        }
        checksum.line(line);
    }
    Err(format!("the records end after {} requests", all.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::RecordWriter;

    #[test]
    fn only_a_complete_stream_has_requests() {
        let watched = Watched {
            sent_unix_ns: 1,
            done_unix_ns: 2,
            bytes: None,
            failure: "connection reset".into(),
        };
        let mut records = RecordWriter::new(Vec::new());
        let hello = WatchRecord::Hello(Hello::new("watch", 1));
        for record in [hello, WatchRecord::Watched(watched.clone())] {
            records.write(&record).unwrap();
        }
        let lines = records.finish_lines(|checksum| WatchRecord::Final { checksum });
        assert_eq!(read(&lines), Ok(vec![watched]));
        let cut = read(&lines[..2]).unwrap_err();
        assert_eq!(cut, "the records end after 1 requests");
        let mut damaged = lines.clone();
        damaged[1] = damaged[1].replace("reset", "resat");
        assert_eq!(read(&damaged).unwrap_err(), "line 3 is damaged");
    }
}
