//! The entry of a history, from the summaries of its runs.

use tare_model::SCHEMA_VERSION;
use tare_model::history::{HistoryEntry, HistoryFigure, HistoryVariant, unit_of};
use tare_model::layout::Fingerprint;
use tare_model::mesh::name_and_version;
use tare_model::summary::{Cell, Ratio, Summary};
use tare_model::worker::Plane;

/// The figures that a history keeps.
const KEPT: [&str; 6] = ["capacity", "throughput", "p50", "p99", "cpu", "memory"];

/// What identifies an entry, beside the results of its runs.
#[derive(Debug, Clone)]
pub struct EntryNames {
    /// Names of the plans.
    pub plan: String,
    /// `HistoryEntry::plan_key`.
    pub plan_key: String,
    /// `HistoryEntry::host_key`.
    pub host_key: String,
    /// `HistoryEntry::build`.
    pub build: String,
    /// `HistoryEntry::id`.
    pub id: String,
    /// The directories of the runs.
    pub runs: Vec<String>,
}

/// The entry of these runs, which have the same baseline and one version of each mesh; `None` without runs.
#[must_use]
pub fn entry(summaries: &[Summary], names: EntryNames) -> Option<HistoryEntry> {
    let first = summaries.first()?;
    let mut variants: Vec<HistoryVariant> = Vec::new();
    for summary in summaries {
        for mesh in summary.mesh_trials.iter().map(|m| &m.mesh) {
            let (name, _) = name_and_version(mesh);
            let figures = figures(summary, mesh);
            match variants.iter_mut().find(|v| v.name == name) {
                Some(variant) => variant.figures.extend(figures),
                None => variants.push(HistoryVariant {
                    name: name.to_owned(),
                    figures,
                }),
            }
        }
    }
    let programs = summaries
        .iter()
        .flat_map(|s| s.fingerprint.programs.clone());
    Some(HistoryEntry {
        schema_version: SCHEMA_VERSION,
        id: names.id,
        at_unix_ns: first.started_unix_ns,
        build: names.build,
        plan: names.plan,
        plan_key: names.plan_key,
        host: host(&first.fingerprint),
        host_key: names.host_key,
        anchor: name_and_version(&first.baseline).0.to_owned(),
        versions: programs.collect(),
        runs: names.runs,
        variants,
    })
}

fn host(fingerprint: &Fingerprint) -> String {
    let Fingerprint {
        cpu_model, cores, ..
    } = fingerprint;
    // `Linux 6.12.1 #1 SMP ...`
    let kernel: Vec<&str> = fingerprint.kernel.split(' ').take(2).collect();
    format!("{cpu_model}, {cores} cores, {}", kernel.join(" "))
}

fn figures(summary: &Summary, mesh: &str) -> Vec<HistoryFigure> {
    let mut figures = Vec::new();
    for cell in summary.cells.iter().filter(|c| c.mesh == mesh) {
        let compared = summary
            .comparisons
            .iter()
            .find(|c| c.mesh == mesh && c.reference == summary.baseline && c.load == cell.load);
        for what in KEPT {
            let ratio = compared.and_then(|c| c.ratio(what));
            let value = value(cell, what);
            if ratio.is_none() && value.is_none() {
                continue;
            }
            figures.push(HistoryFigure {
                what: what.to_owned(),
                load: cell.load.clone(),
                unit: unit_of(what).unwrap_or_default().to_owned(),
                value,
                log_ratio: ratio.map(|r| r.value.ln()),
                low: ratio.and_then(|r: &Ratio| r.low).map(f64::ln),
                high: ratio.and_then(|r: &Ratio| r.high).map(f64::ln),
            });
        }
    }
    figures
}

fn value(cell: &Cell, what: &str) -> Option<f64> {
    let proxies = cell.planes.get(&Plane::DataPlane);
    match what {
        "capacity" => Some(cell.capacity.as_ref()?.rate_rps.as_ref()?.value),
        "throughput" => Some(cell.throughput_rps.as_ref()?.value),
        // Nanoseconds of CPU time of applications and proxies per request.
        "cpu" => {
            let rps = cell
                .achieved_rps
                .filter(|rps| *rps > 0.0 && cell.capacity.is_none())?;
            let applications = cell.planes.get(&Plane::Application)?.cpu_cores.value;
            let proxies = proxies.map_or(0.0, |p| p.cpu_cores.value);
            Some((applications + proxies) / rps * 1e9)
        }
        "memory" if cell.capacity.is_none() => Some(proxies?.memory_bytes.value),
        name => {
            let quantile = cell.latency.iter().find(|q| q.name == name)?;
            quantile.supported.then_some(quantile.value_ns as f64)
        }
    }
}
