//! Writes the record stream of an agent.

use std::collections::BTreeSet;
use std::io::{self, Write};

use tare_records::record::{AgentRecord, Hello, ResourceSample};
use tare_records::writer::RecordWriter;

/// The writer of an agent's stream.
#[derive(Default)]
pub struct AgentRecords<W> {
    out: RecordWriter<W>,
    /// Indexes of the processes that are already recorded as gone.
    gone: BTreeSet<usize>,
}

impl<W: Write> AgentRecords<W> {
    /// Creates an empty stream.
    pub fn new(out: W) -> Self {
        Self {
            out: RecordWriter::new(out),
            gone: BTreeSet::new(),
        }
    }

    /// Writes a record.
    pub fn write(&mut self, record: &AgentRecord) -> io::Result<()> {
        self.out.write(record)
    }

    /// Writes the first record.
    pub fn hello(&mut self, role: &str, pid: u32) -> io::Result<()> {
        self.write(&AgentRecord::Hello(Hello::new(role, pid)))
    }

    /// Writes a `Gone` record for each process that is missing for the first time, then the sample.
    pub fn sample(&mut self, sample: ResourceSample) -> io::Result<()> {
        for (process, usage) in sample.processes.iter().enumerate() {
            if usage.is_none() && self.gone.insert(process) {
                self.gone(process, sample.t_ns)?;
            }
        }
        self.write(&AgentRecord::Sample(sample))
    }

    /// Writes a record that a process has ended.
    pub fn gone(&mut self, process: usize, t_ns: i64) -> io::Result<()> {
        let process = process as u32;
        self.write(&AgentRecord::Gone { process, t_ns })
    }

    /// Writes the last record.
    pub fn last(self, own_cpu_ns: u64, elapsed_ns: u64) -> io::Result<W> {
        self.out.finish(|checksum| AgentRecord::Final {
            checksum,
            own_cpu_ns,
            elapsed_ns,
        })
    }
}

/// A stream in memory, where writes do not fail.
impl AgentRecords<Vec<u8>> {
    /// Takes the lines that were written since the last call, without their newlines.
    pub fn take_lines(&mut self) -> Vec<String> {
        self.out.take_lines()
    }
}
