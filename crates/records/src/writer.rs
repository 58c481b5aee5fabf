//! Writes a stream of records: one JSON object per line, with a checksum in the last one.

use std::io::{self, Write};

use serde::Serialize;

use super::record::StreamChecksum;

/// Writes the records of one stream, from `hello` to `final`.
#[derive(Debug, Default)]
pub struct RecordWriter<W> {
    out: W,
    checksum: StreamChecksum,
}

impl<W: Write> RecordWriter<W> {
    /// Starts a stream.
    pub fn new(out: W) -> Self {
        Self {
            out,
            checksum: StreamChecksum::default(),
        }
    }

    /// Writes a record and flushes, so that the reader sees it at once.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write(&mut self, record: &impl Serialize) -> io::Result<()> {
        self.line(serde_json::to_string(record)?)
    }

    /// Writes a record of another stream as it is, without its newline.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn line(&mut self, mut line: String) -> io::Result<()> {
        self.checksum.line(&line);
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }

    /// Writes the last record, made with the checksum over all lines before it.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn finish<R: Serialize>(mut self, last: impl FnOnce(String) -> R) -> io::Result<W> {
        let checksum = self.checksum.hex();
        self.write(&last(checksum))?;
        Ok(self.out)
    }
}

impl RecordWriter<Vec<u8>> {
    /// Takes the lines that were written since the last time, without their newlines.
    pub fn take_lines(&mut self) -> Vec<String> {
        lines(&std::mem::take(&mut self.out))
    }

    /// Does the same as [`Self::finish`], and returns all lines that were not taken.
    pub fn finish_lines<R: Serialize>(self, last: impl FnOnce(String) -> R) -> Vec<String> {
        // Writing to memory does not fail.
        lines(&self.finish(last).unwrap_or_default())
    }
}

/// Returns the lines of a stream in memory, without their newlines.
#[must_use]
pub fn lines(written: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(written);
    text.split_terminator('\n').map(str::to_owned).collect()
}
