//! The directory of a trial while it runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tare_records::calls::TrialCalls;
use tare_records::capacity::CapacityStep;
use tare_records::churn::ChurnRecord;
use tare_records::layout;
use tare_records::trial::{Event, TrialResult};

use super::StoreError;
use super::files::{Lines, io_error, write_atomically, write_json, write_lines, write_list};

/// The directory of a trial in progress. Dropping it before [`Self::finish`] removes it.
#[derive(Debug)]
pub struct TrialWriter {
    pub(super) path: PathBuf,
    pub(super) target: PathBuf,
    pub(super) load: Lines,
    pub(super) agent: Lines,
    pub(super) events: Lines,
    pub(super) kept: bool,
}

impl TrialWriter {
    /// The path for logs and configurations while the trial runs.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a record of the generator, unchanged.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn load(&mut self, line: &str) -> Result<(), StoreError> {
        self.load.line(line)
    }

    /// Writes a record of the agent, unchanged.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn agent(&mut self, line: &str) -> Result<(), StoreError> {
        self.agent.line(line)
    }

    /// Writes the records of an agent that sampled the idle deployment, unchanged.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn idle(&self, lines: &[String]) -> Result<(), StoreError> {
        let mut file = Lines::open(self.path.join(layout::IDLE))?;
        lines.iter().try_for_each(|line| file.line(line))
    }

    /// Writes the steps of a search for the capacity: all of them, or none.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn steps(&self, steps: &[&CapacityStep]) -> Result<(), StoreError> {
        write_lines(&self.path.join(layout::STEPS), steps)
    }

    /// Writes the records of the churn: all of them, or none.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn churn(&self, records: &[ChurnRecord]) -> Result<(), StoreError> {
        write_lines(&self.path.join(layout::CHURN), records)
    }

    /// Writes an event.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn event(&mut self, event: &Event) -> Result<(), StoreError> {
        self.events.json(event)
    }

    /// Writes the calls between services.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn calls(&self, calls: &TrialCalls) -> Result<(), StoreError> {
        write_json(&self.path.join(layout::CALLS), calls)
    }

    /// Writes the interval log.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn hlog(&self, text: &[u8]) -> Result<(), StoreError> {
        write_atomically(&self.path.join(layout::HLOG), text)
    }

    /// Writes the result, and renames the directory to the name of the trial.
    ///
    /// # Errors
    /// When it cannot be written; the trial is then not kept.
    pub fn finish(mut self, result: &TrialResult) -> Result<PathBuf, StoreError> {
        for lines in [&self.load, &self.agent, &self.events] {
            lines.sync()?;
        }
        write_json(&self.path.join(layout::RESULT), result)?;
        write_list(&self.path)?;
        if self.target.exists() {
            // Remove an earlier attempt that failed before measurement.
            fs::remove_dir_all(&self.target).map_err(io_error("replace", &self.target))?;
        }
        fs::rename(&self.path, &self.target).map_err(io_error("write", &self.target))?;
        self.kept = true;
        if let Some(parent) = self.target.parent() {
            // The rename is durable only after its folder is synced.
            File::open(parent)
                .and_then(|d| d.sync_all())
                .map_err(io_error("sync", parent))?;
        }
        Ok(self.target.clone())
    }
}

impl Drop for TrialWriter {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
