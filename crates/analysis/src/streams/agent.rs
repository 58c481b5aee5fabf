//! Reader of an agent's stream of records, which checks that the stream is complete.

use tare_plan::SCHEMA_VERSION;
use tare_records::record::{AgentRecord, StreamChecksum};

use crate::streams::check_length;
use crate::streams::load::{StreamError, json_words};

/// Reads an agent's stream line by line.
#[derive(Debug, Default)]
pub struct AgentStream {
    checksum: StreamChecksum,
    records: Vec<AgentRecord>,
    finished: Option<String>,
}

impl AgentStream {
    /// A reader before the first line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next line and returns its record.
    ///
    /// # Errors
    /// [`StreamError`] when the line is not a record, has another schema version, or follows the
    /// final record.
    pub fn line(&mut self, line: &str) -> Result<&AgentRecord, StreamError> {
        let wrong = |found: String| StreamError::Line {
            line: self.records.len() + 1,
            found,
        };
        if self.finished.is_some() {
            return Err(wrong("found a record after the final one".into()));
        }
        check_length(line).map_err(wrong)?;
        let record: AgentRecord = serde_json::from_str(line).map_err(|e| wrong(json_words(&e)))?;
        match &record {
            AgentRecord::Hello(hello) if hello.schema_version != SCHEMA_VERSION => {
                return Err(StreamError::Schema {
                    found: hello.schema_version,
                });
            }
            AgentRecord::Final { checksum, .. } => self.finished = Some(checksum.clone()),
            _ => self.checksum.line(line),
        }
        Ok(self.records.push_mut(record))
    }

    /// The records so far.
    #[must_use]
    pub fn records(&self) -> &[AgentRecord] {
        &self.records
    }

    /// Returns all records, and an error if the stream is incomplete or damaged.
    #[must_use]
    pub fn finish(self) -> (Vec<AgentRecord>, Option<StreamError>) {
        let found = self.checksum.hex();
        let problem = match self.finished {
            None => Some(StreamError::Cut {
                lines: self.records.len(),
            }),
            Some(expected) if expected != found => Some(StreamError::Checksum { found, expected }),
            Some(_) => None,
        };
        (self.records, problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<String> {
        let gone = |process| {
            serde_json::to_string(&AgentRecord::Gone { process, t_ns: 5 }).unwrap_or_default()
        };
        let mut lines = vec![gone(1), gone(2)];
        let mut checksum = StreamChecksum::default();
        lines.iter().for_each(|l| checksum.line(l));
        let last = AgentRecord::Final {
            checksum: checksum.hex(),
            own_cpu_ns: 1,
            elapsed_ns: 2,
        };
        lines.push(serde_json::to_string(&last).unwrap_or_default());
        lines
    }

    fn read(lines: &[String]) -> (usize, Option<StreamError>) {
        let mut stream = AgentStream::new();
        for line in lines {
            stream.line(line).unwrap();
        }
        let (records, problem) = stream.finish();
        (records.len(), problem)
    }

    #[test]
    fn a_lost_or_changed_sample_is_found() {
        assert_eq!(read(&lines()), (3, None));
        let cut = &lines()[..2];
        assert!(matches!(read(cut).1, Some(StreamError::Cut { lines: 2 })));
        let lost = &lines()[1..];
        assert!(matches!(read(lost).1, Some(StreamError::Checksum { .. })));
        let mut changed = lines();
        changed[0] = changed[0].replace('5', "6");
        assert!(matches!(
            read(&changed).1,
            Some(StreamError::Checksum { .. })
        ));
        let mut stream = AgentStream::new();
        stream.line(&lines()[2]).unwrap();
        assert!(matches!(
            stream.line(&lines()[0]),
            Err(StreamError::Line { .. })
        ));
    }
}
