//! The entry of a history, from the summaries of its runs.

use tare_model::SCHEMA_VERSION;
use tare_model::history::{HistoryEntry, HistoryFigure, HistoryVariant};
use tare_model::layout::Fingerprint;
use tare_model::summary::{Cell, Ratio, Summary};
use tare_model::worker::Plane;

/// The figures that a history keeps.
const KEPT: [&str; 7] = [
    "capacity",
    "throughput",
    "p50",
    "p99",
    "cpu",
    "proxy_cpu",
    "memory",
];

/// What identifies an entry beside the runs.
#[derive(Debug, Clone)]
pub struct PlanNames {
    /// Names of the plans.
    pub plan: String,
    /// `HistoryEntry::plan_key`.
    pub plan_key: String,
    /// `HistoryEntry::host_key`.
    pub host_key: String,
    /// Name of the build; by default the versions of the meshes.
    pub build: Option<String>,
    /// `HistoryEntry::id`.
    pub id: String,
    /// The directories of the runs.
    pub runs: Vec<String>,
}

/// The entry of these runs of one build on one host; `None` without runs.
///
/// # Errors
/// What was found and expected, if the runs have no baseline in common, or a mesh in two versions.
pub fn entry(summaries: &[&Summary], names: PlanNames) -> Result<Option<HistoryEntry>, String> {
    let Some(first) = summaries.first() else {
        return Ok(None);
    };
    let anchor = without_version(&first.baseline);
    let mut variants: Vec<HistoryVariant> = Vec::new();
    let mut versions = Vec::new();
    for summary in summaries {
        if without_version(&summary.baseline) != anchor {
            let found = &summary.baseline;
            return Err(format!(
                "found the baseline {found}, expected {anchor} as in the first run"
            ));
        }
        let meshes = summary.mesh_trials.iter().map(|m| m.mesh.as_str());
        let meshes: Vec<&str> = meshes.collect();
        for mesh in &meshes {
            let name = without_version(mesh);
            if meshes
                .iter()
                .any(|m| m != mesh && without_version(m) == name)
            {
                return Err(format!(
                    "found {name} in two versions, expected one: an entry is about one build"
                ));
            }
            versions.extend(version(mesh).map(str::to_owned));
            let figures = figures(summary, mesh);
            match variants.iter_mut().find(|v| v.name == name) {
                Some(variant) => variant.figures.extend(figures),
                None => variants.push(HistoryVariant { name, figures }),
            }
        }
    }
    versions.sort();
    versions.dedup();
    let build = names.build.unwrap_or_else(|| match versions.as_slice() {
        [] => "unnamed".to_owned(),
        all => all.join(", "),
    });
    let programs = summaries
        .iter()
        .flat_map(|s| s.fingerprint.programs.clone());
    Ok(Some(HistoryEntry {
        schema_version: SCHEMA_VERSION,
        id: names.id,
        at_unix_ns: first.started_unix_ns,
        build,
        plan: names.plan,
        plan_key: names.plan_key,
        host: host(&first.fingerprint),
        host_key: names.host_key,
        anchor,
        versions: programs.collect(),
        runs: names.runs,
        variants,
    }))
}

fn host(fingerprint: &Fingerprint) -> String {
    format!("{}, {} cores", fingerprint.cpu_model, fingerprint.cores)
}

/// `envoy/mtls` of `envoy/mtls@1.39.3`.
fn without_version(mesh: &str) -> String {
    mesh.split('@').next().unwrap_or(mesh).to_owned()
}

fn version(mesh: &str) -> Option<&str> {
    mesh.split_once('@').map(|(_, version)| version)
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
                unit: unit(what).to_owned(),
                value,
                log_ratio: ratio.map(|r| r.value.ln()),
                low: ratio.and_then(|r: &Ratio| r.low).map(f64::ln),
                high: ratio.and_then(|r: &Ratio| r.high).map(f64::ln),
            });
        }
    }
    figures
}

fn unit(what: &str) -> &'static str {
    match what {
        "capacity" | "throughput" => "rps",
        "memory" => "bytes",
        _ => "ns",
    }
}

fn value(cell: &Cell, what: &str) -> Option<f64> {
    let proxies = cell.planes.get(&Plane::DataPlane);
    match what {
        "capacity" => Some(cell.capacity.as_ref()?.rate_rps.as_ref()?.value),
        "throughput" => Some(cell.throughput_rps.as_ref()?.value),
        // Nanoseconds of CPU time per request.
        "proxy_cpu" => {
            let rps = cell
                .achieved_rps
                .filter(|rps| *rps > 0.0 && cell.capacity.is_none())?;
            Some(proxies?.cpu_cores.value / rps * 1e9)
        }
        "memory" if cell.capacity.is_none() => Some(proxies?.memory_bytes.value),
        name => {
            let quantile = cell.latency.iter().find(|q| q.name == name)?;
            quantile.supported.then_some(quantile.value_ns as f64)
        }
    }
}
