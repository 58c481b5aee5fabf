//! The lines of an agent's stream: one JSON record each, with a checksum over all of them in the last.

use std::collections::BTreeSet;

use tare_model::SCHEMA_VERSION;
use tare_model::record::{AgentRecord, Hello, ResourceSample, StreamChecksum};

/// A stream so far.
#[derive(Default)]
pub(crate) struct AgentRecords {
    checksum: StreamChecksum,
    /// Indexes of the processes that a sample did not have.
    gone: BTreeSet<usize>,
}

impl AgentRecords {
    /// The line of a record.
    pub(crate) fn line(&mut self, record: &AgentRecord) -> String {
        let line = serde_json::to_string(record).unwrap_or_default();
        self.checksum.line(&line);
        line
    }

    /// The first line.
    pub(crate) fn hello(&mut self, role: &str, pid: u32) -> String {
        self.line(&AgentRecord::Hello(Hello {
            schema_version: SCHEMA_VERSION,
            role: role.to_owned(),
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid,
        }))
    }

    /// The lines of a sample: one for each process that it is the first to lack, then its own.
    pub(crate) fn sample(&mut self, sample: ResourceSample) -> Vec<String> {
        let mut lines = Vec::new();
        for (process, usage) in sample.processes.iter().enumerate() {
            if usage.is_none() && self.gone.insert(process) {
                lines.push(self.gone(process, sample.t_ns));
            }
        }
        lines.push(self.line(&AgentRecord::Sample(sample)));
        lines
    }

    /// The line of a process that ended.
    pub(crate) fn gone(&mut self, process: usize, t_ns: i64) -> String {
        let process = process as u32;
        self.line(&AgentRecord::Gone { process, t_ns })
    }

    /// The last line.
    pub(crate) fn last(mut self, own_cpu_ns: u64, elapsed_ns: u64) -> String {
        self.line(&AgentRecord::Final {
            checksum: self.checksum.hex(),
            own_cpu_ns,
            elapsed_ns,
        })
    }
}
