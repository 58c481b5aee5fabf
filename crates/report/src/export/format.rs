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
    /// Service Mesh Performance. It describes a run, not a single load result.
    Smp,
}

impl Format {
    /// Every format with its name and what `tare export` writes in it.
    pub const ALL: [(Self, &str, &str); 7] = [
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
        (
            Self::Smp,
            "smp",
            "Service Mesh Performance, as JSON and as Protobuf: a directory of files",
        ),
    ];
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some((format, ..)) = Self::ALL.iter().find(|(_, n, _)| *n == name) {
            return Ok(*format);
        }
        if name == "parquet" {
            return Err(
                "Parquet is no longer supported: use csv, which holds the same table".into(),
            );
        }
        let names = Self::ALL.map(|(_, name, _)| name).join(", ");
        Err(format!("expected one of {names}"))
    }
}
