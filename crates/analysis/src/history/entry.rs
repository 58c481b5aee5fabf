//! The entry of a history, from the summaries of its runs.

use tare_plan::mesh::name_and_version;
use tare_plan::{Figure, SCHEMA_VERSION};
use tare_records::history::{FIGURES, HistoryEntry, HistoryFigure, HistoryVariant};
use tare_records::layout::Fingerprint;
use tare_records::summary::{Cell, Ratio, Summary};
use tare_records::worker::Plane;

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
        for what in FIGURES {
            let ratio = compared.and_then(|c| c.ratio(what));
            let value = value(cell, what);
            if ratio.is_none() && value.is_none() {
                continue;
            }
            figures.push(figure(what, &cell.load, value, ratio));
        }
    }
    figures
}

fn figure(what: Figure, load: &str, value: Option<f64>, ratio: Option<&Ratio>) -> HistoryFigure {
    let ends = ratio.and_then(|r| r.low.zip(r.high));
    let ends = ends.map(|(low, high)| [low.ln(), high.ln()]);
    // The interval of a few blocks can be wider than any ratio. A history has none then.
    let limit = HistoryFigure::RATIO_MAX.ln();
    let ends = ends.filter(|ends| ends.iter().all(|end| end.abs() <= limit));
    HistoryFigure {
        what,
        load: load.to_owned(),
        unit: what.unit(),
        value,
        log_ratio: ratio.map(|r| r.value.ln()),
        low: ends.map(|[low, _]| low),
        high: ends.map(|[_, high]| high),
    }
}

fn value(cell: &Cell, what: Figure) -> Option<f64> {
    let proxies = cell.planes.get(&Plane::DataPlane);
    match what {
        Figure::Capacity => Some(cell.capacity.as_ref()?.rate_rps.as_ref()?.value),
        Figure::Throughput => Some(cell.throughput_rps.as_ref()?.value),
        // Nanoseconds of CPU time of applications and proxies per request.
        Figure::Cpu => {
            let rps = cell
                .achieved_rps
                .filter(|rps| *rps > 0.0 && cell.capacity.is_none())?;
            let applications = cell.planes.get(&Plane::Application)?.cpu_cores.value;
            let proxies = proxies.map_or(0.0, |p| p.cpu_cores.value);
            Some((applications + proxies) / rps * 1e9)
        }
        Figure::Memory if cell.capacity.is_none() => Some(proxies?.memory_bytes.value),
        percentile => Some(cell.supported(percentile)?.value_ns as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::ratio::{Level, Question};

    fn of(blocks: &[(f64, f64)]) -> (Ratio, HistoryFigure) {
        let question = Question {
            what: Figure::P50,
            margin: 0.05,
            level: Level::FIXED,
        };
        let ratio = question.paired(blocks).unwrap();
        let figure = figure(Figure::P50, "60rps", Some(1e6), Some(&ratio));
        (ratio, figure)
    }

    #[test]
    fn an_interval_wider_than_any_ratio_is_left_out() {
        let (ratio, wide) = of(&[(1e6, 1e6), (1e8, 1e6)]);
        assert!(ratio.high.unwrap() > HistoryFigure::RATIO_MAX, "{ratio:?}");
        assert_eq!((wide.low, wide.high), (None, None));
        assert!((wide.log_ratio.unwrap() - 10.0_f64.ln()).abs() < 1e-9);
        let (ratio, narrow) = of(&[(1.1e6, 1e6), (1.2e6, 1e6)]);
        assert_eq!(narrow.high, ratio.high.map(f64::ln));
        assert_eq!(narrow.low, ratio.low.map(f64::ln));
        for figure in [wide, narrow] {
            let entry = HistoryEntry {
                schema_version: SCHEMA_VERSION,
                id: "1".to_owned(),
                at_unix_ns: 1,
                build: "1".to_owned(),
                plan: "patrol".to_owned(),
                plan_key: "1".to_owned(),
                host: "host".to_owned(),
                host_key: "host".to_owned(),
                anchor: "bare".to_owned(),
                versions: Default::default(),
                runs: Vec::new(),
                variants: vec![HistoryVariant {
                    name: "envoy".to_owned(),
                    figures: vec![figure],
                }],
            };
            assert_eq!(entry.check(), Ok(()));
        }
    }
}
