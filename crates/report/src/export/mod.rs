//! Exports a run in the formats of other tools. All figures are those of its [`Summary`]; histograms
//! and seconds come from the same counts.

mod csv;
mod format;
pub mod history;
pub mod metrics;
pub mod push;

pub use format::Format;

use tare_analysis::StoredTrial;
use tare_analysis::formats::hlog::{self, LogError};
use tare_analysis::formats::{self, About, families};
use tare_records::layout;
use tare_records::summary::{Cell, Summary};
use tare_records::worker::Plane;
use tare_stats::{Histogram, WireError};

use crate::store::{LoadedRun, log_of};

/// An exported run.
#[derive(Debug, Clone, PartialEq)]
pub enum Export {
    /// One document.
    Document(Vec<u8>),
    /// Several files for one directory: file names and contents.
    Files(Vec<(String, Vec<u8>)>),
}

/// Why a run cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A histogram or the records of a trial are damaged.
    #[error("{place}: {found}")]
    Damaged {
        /// Directory of the trial, or the file of its records.
        place: String,
        /// What is wrong with it.
        found: String,
    },
    /// An interval log of tare cannot be read: a bug.
    #[error("bug: failed to read an interval log of tare: {0}")]
    Log(#[from] LogError),
    /// The analysis cannot be encoded: a bug.
    #[error("bug: failed to encode the analysis: {0}")]
    Json(#[from] serde_json::Error),
}

/// Returns the run in `format`.
///
/// # Errors
/// [`ExportError`] if a used trial is damaged.
pub fn export(run: &LoadedRun, summary: &Summary, format: Format) -> Result<Export, ExportError> {
    Ok(match format {
        Format::Csv => Export::Document(csv::of(summary).into_bytes()),
        Format::Json => {
            let mut text = serde_json::to_string_pretty(summary)?;
            text.push('\n');
            Export::Document(text.into_bytes())
        }
        Format::Openmetrics => {
            let text = families::openmetrics(&metrics::of(run, summary)?);
            Export::Document(text.into_bytes())
        }
        Format::Hgrm => Export::Files(distributions(run, summary)?),
        Format::Hlog => Export::Files(logs(run, summary)?),
        Format::Fortio => Export::Files(fortio(run, summary)?),
    })
}

/// Returns the trials that a cell uses.
fn used<'a>(run: &'a LoadedRun, cell: &'a Cell) -> impl Iterator<Item = &'a StoredTrial> {
    let find = |index: &u32| {
        run.trials
            .iter()
            .find(move |t| t.result.trial.index == *index)
    };
    cell.trials_used.iter().filter_map(find)
}

/// Returns the name of a plane in columns and labels.
fn plane_name(plane: Plane) -> &'static str {
    match plane {
        Plane::Application => "application",
        Plane::DataPlane => "data_plane",
        Plane::GeneratorProxy => "generator_proxy",
        Plane::ControlPlane => "control_plane",
        Plane::Generator => "generator",
        Plane::Tare => "tare",
    }
}

/// Returns the name of a cell in file names: `00-envoy-mtls-200rps`.
fn cell_name(index: usize, cell: &Cell) -> String {
    format!("{index:02}-{}-{}", clean(&cell.mesh), clean(&cell.load))
}

/// Replaces characters of a label that a file name should not have.
fn clean(label: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '_';
    let cleaned: String = label
        .chars()
        .map(|c| if keep(c) { c } else { '-' })
        .collect();
    cleaned.chars().take(80).collect()
}

fn latency(trial: &StoredTrial) -> Result<Histogram, ExportError> {
    let load = trial.result.counted();
    let latency = load.map(|l| Histogram::from_wire(&l.histograms.latency));
    let latency = latency.transpose().map_err(|e| damaged(trial, e))?;
    Ok(latency.unwrap_or_default())
}

fn damaged(trial: &StoredTrial, source: WireError) -> ExportError {
    ExportError::Damaged {
        place: trial.dir.clone(),
        found: source.to_string(),
    }
}

/// Returns the latencies of all used trials of a cell.
fn pooled(run: &LoadedRun, cell: &Cell) -> Result<Histogram, ExportError> {
    let mut all = Histogram::new();
    for trial in used(run, cell) {
        all.merge(&latency(trial)?);
    }
    Ok(all)
}

type Files = Vec<(String, Vec<u8>)>;

fn distributions(run: &LoadedRun, summary: &Summary) -> Result<Files, ExportError> {
    let mut files = Vec::new();
    for (i, cell) in summary.cells.iter().enumerate() {
        let name = format!("pooled-{}.hgrm", cell_name(i, cell));
        files.push((name, formats::hgrm(&pooled(run, cell)?).into_bytes()));
    }
    for trial in run.trials.iter().filter(|t| t.result.load.is_some()) {
        let name = format!("trial-{}.hgrm", clean(&trial.dir));
        files.push((name, formats::hgrm(&latency(trial)?).into_bytes()));
    }
    Ok(files)
}

/// Returns the interval logs of each trial and of each cell, in which the trials are in order of time.
/// A trial with damaged records has no log; it is invalid and belongs to no cell.
fn logs(run: &LoadedRun, summary: &Summary) -> Result<Files, ExportError> {
    let mut files = Vec::new();
    let mut logs_by_trial: Vec<(u32, hlog::Log)> = Vec::new();
    for trial in &run.trials {
        let path = run
            .dir
            .join(layout::TRIALS)
            .join(&trial.dir)
            .join(layout::LOAD);
        match log_of(&path) {
            Ok(text) => {
                logs_by_trial.push((trial.result.trial.index, hlog::read(&text)?));
                let name = format!("trial-{}.hlog", clean(&trial.dir));
                files.push((name, text.into_bytes()));
            }
            Err(found) => {
                let index = trial.result.trial.index;
                if summary.cells.iter().any(|c| c.trials_used.contains(&index)) {
                    let place = path.display().to_string();
                    return Err(ExportError::Damaged { place, found });
                }
            }
        }
    }
    for (i, cell) in summary.cells.iter().enumerate() {
        let mut logs: Vec<&hlog::Log> = cell
            .trials_used
            .iter()
            .filter_map(|index| logs_by_trial.iter().find(|(k, _)| k == index))
            .map(|(_, log)| log)
            .collect();
        logs.sort_by_key(|log| log.start_unix_ns);
        let start = logs.first().map_or(0, |log| log.start_unix_ns);
        let mut text = hlog::header(start);
        for log in logs {
            for line in &log.lines {
                let from_ns = log.start_unix_ns - start + line.from_ns;
                let tag = line.tag.as_deref();
                text += &hlog::line(tag, from_ns, line.length_ns, &line.histogram);
            }
        }
        files.push((
            format!("pooled-{}.hlog", cell_name(i, cell)),
            text.into_bytes(),
        ));
    }
    Ok(files)
}

fn fortio(run: &LoadedRun, summary: &Summary) -> Result<Files, ExportError> {
    let document = |label: String, connections: u32, trials: &[&StoredTrial]| {
        let about = About {
            label,
            url: String::new(),
            connections,
        };
        let loads = trials.iter().filter_map(|t| t.result.counted());
        let text = formats::fortio(&about, &loads.collect::<Vec<_>>());
        text.map_err(|e| damaged(trials[0], e))
    };
    let mut files = Vec::new();
    for (i, cell) in summary.cells.iter().enumerate() {
        let trials: Vec<&StoredTrial> = used(run, cell).collect();
        if trials.is_empty() {
            continue;
        }
        let load = summary.setup.loads.iter().find(|l| l.name == cell.load);
        let label = format!("{} at {}", cell.mesh, cell.load);
        let text = document(label, load.map_or(0, |l| l.connections), &trials)?;
        let name = format!("pooled-{}.json", cell_name(i, cell));
        files.push((name, text.into_bytes()));
    }
    for trial in run.trials.iter().filter(|t| t.result.load.is_some()) {
        let spec = &trial.result.trial;
        let (mesh, load) = (&spec.mesh.name, &spec.load);
        let label = format!("{mesh} at {}, block {}", load.name, spec.block + 1);
        let text = document(label, load.connections, &[trial])?;
        let name = format!("trial-{}.json", clean(&trial.dir));
        files.push((name, text.into_bytes()));
    }
    Ok(files)
}
