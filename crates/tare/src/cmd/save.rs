//! `--save FORMAT=FILE`: a load result in the formats of other tools.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use clap::ValueEnum;
use tare_analysis::formats::hlog::{self, Seconds};
use tare_analysis::formats::{self, About, Measured};
use tare_model::load::LoadResult;
use tare_model::record::{Interval, LoadRecord};
use tare_stats::Histogram;

/// What a result can be saved as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// HdrHistogram interval log, by second, endpoint and failure.
    Hlog,
    /// HdrHistogram percentile distribution.
    Hgrm,
    /// Fortio's JSON.
    Fortio,
    /// A row for each measure and endpoint.
    Csv,
    /// OpenMetrics text with histogram buckets.
    Openmetrics,
    /// The whole result, as `--output json` prints it.
    Json,
}

/// A format and where to write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) format: Format,
    pub(crate) path: PathBuf,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> = Format::value_variants()
            .iter()
            .filter_map(|f| f.to_possible_value())
            .map(|v| v.get_name().to_owned())
            .collect();
        let expected = || {
            format!(
                "expected FORMAT=FILE, with a format of {}",
                names.join(", ")
            )
        };
        let (format, path) = text.split_once('=').ok_or_else(expected)?;
        if path.is_empty() {
            return Err(expected());
        }
        Ok(Self {
            format: Format::from_str(format, false).map_err(|_| expected())?,
            path: path.into(),
        })
    }
}

/// The files of one measurement, opened before it: what cannot be written should not
/// cost one.
pub(crate) struct Saves {
    files: Vec<(Target, BufWriter<File>)>,
    seconds: Seconds,
    /// The first thing that went wrong while measuring; told afterwards.
    failed: Option<anyhow::Error>,
}

impl Saves {
    /// Opens all files.
    pub(crate) fn open(targets: Vec<Target>) -> anyhow::Result<Self> {
        let open = |target: Target| {
            let failed = || format!("failed to open {} for writing", target.path.display());
            let file = File::create(&target.path).with_context(failed)?;
            Ok((target, BufWriter::new(file)))
        };
        Ok(Self {
            files: targets
                .into_iter()
                .map(open)
                .collect::<anyhow::Result<_>>()?,
            seconds: Seconds::default(),
            failed: None,
        })
    }

    /// Whether the seconds of the measurement are wanted.
    pub(crate) fn want_intervals(&self) -> bool {
        self.files.iter().any(|(t, _)| t.format == Format::Hlog)
    }

    /// Takes what a running generator tells: interval logs are written as it goes, so
    /// that a long measurement needs no more memory than a short one.
    pub(crate) fn take(&mut self, record: &LoadRecord) {
        let written = match record {
            LoadRecord::Armed {
                window_start_unix_ns,
                window_ns,
                ..
            } => {
                self.seconds = Seconds::new(*window_ns);
                self.log(&hlog::header(*window_start_unix_ns))
            }
            LoadRecord::Interval(interval) => self.interval(interval),
            _ => Ok(()),
        };
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn interval(&mut self, interval: &Interval) -> anyhow::Result<()> {
        if self.want_intervals() {
            let lines = self.seconds.add(interval)?;
            self.log(&lines)?;
        }
        Ok(())
    }

    /// Writes `text` to the interval logs.
    pub(crate) fn log(&mut self, text: &str) -> anyhow::Result<()> {
        for (target, file) in &mut self.files {
            if target.format == Format::Hlog {
                file.write_all(text.as_bytes())
                    .with_context(|| failed_to_write(&target.path))?;
            }
        }
        Ok(())
    }

    /// Writes what is made of the result, and ends all files.
    pub(crate) fn finish(mut self, about: &About, result: &LoadResult) -> anyhow::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let rest = std::mem::take(&mut self.seconds).finish();
        self.log(&rest)?;
        for (target, file) in &mut self.files {
            let text = match target.format {
                Format::Hlog => String::new(),
                Format::Hgrm => formats::hgrm(&Histogram::from_wire(&result.histograms.latency)?),
                Format::Fortio => formats::fortio(about, &Measured::new(result)?),
                Format::Csv => formats::csv::load(result),
                Format::Openmetrics => formats::families::openmetrics(&formats::of_load(result)?),
                Format::Json => serde_json::to_string_pretty(result)? + "\n",
            };
            file.write_all(text.as_bytes())
                .and_then(|()| file.flush())
                .with_context(|| failed_to_write(&target.path))?;
        }
        Ok(())
    }
}

fn failed_to_write(path: &Path) -> String {
    format!("failed to write {}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_a_format_and_a_file() {
        let target: Target = "hgrm=a=b.hgrm".parse().unwrap();
        assert_eq!(
            (target.format, target.path),
            (Format::Hgrm, "a=b.hgrm".into())
        );
        for wrong in ["x.csv", "xls=x", "csv="] {
            let error = wrong.parse::<Target>().unwrap_err();
            assert!(error.starts_with("expected FORMAT=FILE"), "{error}");
        }
    }
}
