//! The check of a node by a pod on it, for `tare doctor --deep`.
//!
//! The worker reads one [`NodeCheckSpec`] and writes one [`NodeReport`].

use serde::{Deserialize, Serialize};

use crate::record::{Hello, StreamChecksum};

/// The specification of the check of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeCheckSpec {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// A name that the cluster's DNS must resolve.
    pub name: String,
    /// Time limit of each connection and of the resolution, in nanoseconds.
    pub timeout_ns: u64,
    /// Whether to read the control groups of the node.
    pub cgroups: bool,
}

/// What a pod found on its node. A failure is a fragment such as `connection refused`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeReport {
    /// Clock of the node when it wrote this record, in nanoseconds of Unix time.
    pub unix_ns: u64,
    /// Architecture of the running program, as the kernel names it, such as `x86_64`.
    pub architecture: String,
    /// Release of the kernel.
    pub kernel: String,
    /// `address:port` of the API server's Service; empty if the pod has no such environment variables.
    pub api_server: String,
    /// Why no connection to the API server was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_server_failure: Option<String>,
    /// Why the name was not resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns_failure: Option<String>,
    /// Why the control groups were not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroups_failure: Option<String>,
}

/// What the worker writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NodeCheckRecord {
    /// The first record.
    Hello(Hello),
    /// The second record.
    Node(NodeReport),
    /// The last record.
    Final {
        /// [`StreamChecksum`] over all lines before this one, as 16 hexadecimal digits.
        checksum: String,
    },
}

/// Reads the records of the check of a node.
///
/// # Errors
/// When the stream is incomplete or damaged: what was found.
pub fn read(lines: &[String]) -> Result<NodeReport, String> {
    let [hello, node, last] = lines else {
        return Err(format!("{} records, expected 3", lines.len()));
    };
    let record = |line: &String| -> Result<NodeCheckRecord, String> {
        serde_json::from_str(line).map_err(|e| format!("a line is not a record: {e}"))
    };
    let mut checksum = StreamChecksum::default();
    checksum.line(hello);
    checksum.line(node);
    match (record(hello)?, record(node)?, record(last)?) {
        (NodeCheckRecord::Hello(hello), _, _)
            if hello.schema_version != tare_plan::SCHEMA_VERSION =>
        {
            let expected = tare_plan::SCHEMA_VERSION;
            Err(format!(
                "records of schema version {}, expected {expected}",
                hello.schema_version
            ))
        }
        (
            NodeCheckRecord::Hello(_),
            NodeCheckRecord::Node(report),
            NodeCheckRecord::Final { checksum: found },
        ) if found == checksum.hex() => Ok(report),
        _ => Err("the records are damaged".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::RecordWriter;

    #[test]
    fn only_a_complete_stream_has_a_report() {
        let report = NodeReport {
            unix_ns: 7,
            ..NodeReport::default()
        };
        let mut records = RecordWriter::new(Vec::new());
        let hello = NodeCheckRecord::Hello(Hello::new("node-check", 1));
        for record in [hello, NodeCheckRecord::Node(report.clone())] {
            records.write(&record).unwrap();
        }
        let lines = records.finish_lines(|checksum| NodeCheckRecord::Final { checksum });
        assert_eq!(read(&lines), Ok(report));
        assert_eq!(read(&lines[..2]).unwrap_err(), "2 records, expected 3");
        let mut damaged = lines.clone();
        damaged[1] = damaged[1].replace("\"unix_ns\":7", "\"unix_ns\":8");
        assert_eq!(read(&damaged).unwrap_err(), "the records are damaged");
    }
}
