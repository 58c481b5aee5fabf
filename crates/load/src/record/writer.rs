//! Writes records as JSON lines: the standard output of a generator.

use std::io::{self, Write};

use tare_model::SCHEMA_VERSION;
use tare_model::load::LoadResult;
use tare_model::record::{Hello, LoadRecord, StreamChecksum};

/// Writes a complete stream, from `hello` to `final` with its checksum.
#[derive(Debug)]
pub struct RecordWriter<W> {
    out: W,
    checksum: StreamChecksum,
}

impl<W: Write> RecordWriter<W> {
    /// Begins the stream with `hello`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn begin(out: W) -> io::Result<Self> {
        let mut writer = Self {
            out,
            checksum: StreamChecksum::default(),
        };
        writer.write(&LoadRecord::Hello(Hello {
            schema_version: SCHEMA_VERSION,
            role: "load".to_owned(),
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }))?;
        Ok(writer)
    }

    /// Writes one record and flushes, so that the reader sees it at once.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write(&mut self, record: &LoadRecord) -> io::Result<()> {
        let mut line = serde_json::to_string(record)?;
        self.checksum.line(&line);
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }

    /// Ends the stream with the result.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn finish(mut self, result: LoadResult) -> io::Result<W> {
        self.write(&LoadRecord::Final {
            checksum: self.checksum.hex(),
            result: Box::new(result),
        })?;
        Ok(self.out)
    }
}
