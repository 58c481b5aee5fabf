//! `--save FORMAT=FILE`: saves a load result in the formats of other tools.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use tare_analysis::formats::hlog::{self, Seconds};
use tare_analysis::formats::{self, About};
use tare_records::load::LoadResult;
use tare_records::record::LoadRecord;
use tare_stats::Histogram;

pub(crate) use tare_report::export::Format;

/// A format and the file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) format: Format,
    pub(crate) path: PathBuf,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            let names = Format::ALL.map(|(_, name, _)| name);
            format!(
                "expected FORMAT=FILE, where FORMAT is one of {}",
                names.join(", ")
            )
        };
        match text
            .split_once('=')
            .map(|(format, path)| (format.parse(), path))
        {
            Some((Ok(format), path)) if !path.is_empty() => Ok(Self {
                format,
                path: path.into(),
            }),
            _ => Err(expected()),
        }
    }
}

/// The output files of one measurement. They are opened before it starts, so that a path that
/// cannot be written fails early.
pub(crate) struct Saves {
    files: Vec<(Target, BufWriter<File>)>,
    seconds: Seconds,
    /// The first error during the measurement; [`Saves::finish`] returns it.
    failed: Option<anyhow::Error>,
}

impl Saves {
    /// Creates all files.
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

    /// Returns whether a file needs the interval records.
    pub(crate) fn want_intervals(&self) -> bool {
        self.files.iter().any(|(t, _)| t.format == Format::Hlog)
    }

    /// Processes a record of the running generator. Interval logs are written during the
    /// measurement, so that memory use does not grow with its length.
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
            LoadRecord::Interval(interval) if self.want_intervals() => {
                let lines = self.seconds.add(interval).map_err(anyhow::Error::from);
                lines.and_then(|lines| self.log(&lines))
            }
            _ => Ok(()),
        };
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
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

    /// Writes the result in every format and closes all files.
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
                Format::Fortio => formats::fortio(about, &[result])?,
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
    fn a_target_is_a_format_and_a_file() {
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
