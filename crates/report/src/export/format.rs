//! The export formats and their names.

use std::str::FromStr;

/// A format in which tare writes results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values.
    Csv,
    /// The complete result.
    Json,
    /// OpenMetrics text.
    Openmetrics,
    /// HdrHistogram percentile distribution.
    Hgrm,
    /// HdrHistogram interval log.
    Hlog,
    /// Fortio's JSON.
    Fortio,
}

impl Format {
    /// Every format with its name and what `tare export` writes in it.
    pub const ALL: [(Self, &str, &str); 6] = [
        (
            Self::Csv,
            "csv",
            "One row per mesh and load, then one row per trial",
        ),
        (
            Self::Json,
            "json",
            "The complete analysis; `tare schema summary` describes it",
        ),
        (
            Self::Openmetrics,
            "openmetrics",
            "OpenMetrics text with pooled histograms",
        ),
        (
            Self::Hgrm,
            "hgrm",
            "HdrHistogram percentile distributions: a directory of files",
        ),
        (
            Self::Hlog,
            "hlog",
            "HdrHistogram interval logs: a directory of files",
        ),
        (
            Self::Fortio,
            "fortio",
            "Fortio's JSON: a directory of files",
        ),
    ];

    /// Former formats, and what to use instead.
    pub const FORMER: [(&str, &str); 2] = [
        ("parquet", "csv, which has the same rows"),
        ("smp", "json, which has all figures"),
    ];
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some((format, ..)) = Self::ALL.iter().find(|(_, n, _)| *n == name) {
            return Ok(*format);
        }
        if let Some((_, instead)) = Self::FORMER.iter().find(|(n, _)| *n == name) {
            return Err(format!("{name} is no longer supported: use {instead}"));
        }
        let names = Self::ALL.map(|(_, name, _)| name).join(", ");
        Err(format!("expected one of {names}"))
    }
}
