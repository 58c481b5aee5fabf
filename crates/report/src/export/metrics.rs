//! The analysis as families of metrics, for OpenMetrics files and for Prometheus. The dashboard in
//! `docs/grafana` uses these names.

use tare_analysis::formats::families::{Family, Kind, Sample};
use tare_analysis::formats::histogram_samples;
use tare_records::summary::{Cell, Estimate, MeshComparison, Outcome, Summary};
use tare_records::verdict::Grade;

use super::{ExportError, plane_name, pooled};
use crate::store::LoadedRun;

pub(super) type Labels = Vec<(&'static str, String)>;

/// Name, unit and help of a family.
type Name<'a> = (&'a str, &'static str, &'static str);

/// Returns all families of a run that have samples.
///
/// # Errors
/// [`ExportError`] if the histogram of a used trial is damaged.
pub fn of(run: &LoadedRun, summary: &Summary) -> Result<Vec<Family>, ExportError> {
    let mut set = Set::default();
    about(&mut set, summary);
    for cell in &summary.cells {
        let labels = vec![
            ("run", summary.run.clone()),
            ("plan", summary.plan.clone()),
            ("mesh", cell.mesh.clone()),
            ("load", cell.load.clone()),
        ];
        counts(&mut set, cell, &labels);
        quantiles(&mut set, cell, &labels);
        planes(&mut set, cell, &labels);
        let all = pooled(run, cell)?;
        if !all.is_empty() {
            let help = "Latency over all used trials of a mesh under a load";
            let family = set.family(("tare_latency_seconds", "seconds", help));
            family.kind = Kind::Histogram;
            family.samples.extend(histogram_samples(&all, &labels));
        }
    }
    for comparison in &summary.comparisons {
        ratios(&mut set, summary, comparison);
    }
    Ok(set.0)
}

/// Families in the order in which they were added.
#[derive(Default)]
pub(super) struct Set(pub(super) Vec<Family>);

impl Set {
    pub(super) fn family(&mut self, (name, unit, help): Name<'_>) -> &mut Family {
        let found = self.0.iter().position(|f| f.name == name);
        let index = found.unwrap_or_else(|| {
            self.0.push(Family::new(name, Kind::Gauge, unit, help));
            self.0.len() - 1
        });
        &mut self.0[index]
    }

    fn add(&mut self, name: Name<'_>, labels: &Labels, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            let family = self.family(name);
            family.samples.push(Sample::new(labels.clone(), value));
        }
    }

    /// Adds a figure, and the ends of its interval as separate families: `_low` and `_high` before
    /// the unit.
    fn interval(&mut self, name: Name<'_>, labels: &Labels, values: [Option<f64>; 3]) {
        let [value, low, high] = values;
        self.add(name, labels, value);
        let (name, unit, _) = name;
        let base = name.strip_suffix(unit).unwrap_or(name);
        for (end, value, help) in [
            ("low", low, "Lower end of its interval"),
            ("high", high, "Upper end of its interval"),
        ] {
            let name = match unit {
                "" => format!("{name}_{end}"),
                _ => format!("{base}{end}_{unit}"),
            };
            self.add((&name, unit, help), labels, value);
        }
    }
}

fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.to_owned()));
    labels
}

fn about(set: &mut Set, summary: &Summary) {
    let run = vec![("run", summary.run.clone()), ("plan", summary.plan.clone())];
    let mut described = run.clone();
    described.push(("baseline", summary.baseline.clone()));
    described.push(("version", summary.tare_version.clone()));
    described.push(("workload", summary.setup.workload.clone()));
    let family = set.family((
        "tare_run",
        "",
        "The plan, baseline, workload and version of a run",
    ));
    family.kind = Kind::Info;
    family.samples.push(Sample {
        suffix: "_info",
        ..Sample::new(described, 1.0)
    });
    let started = (
        "tare_run_started_timestamp_seconds",
        "seconds",
        "Start of the run, in seconds since 1970",
    );
    set.add(started, &run, summary.started_unix_ns as f64 / 1e9);
}

fn counts(set: &mut Set, cell: &Cell, labels: &Labels) {
    let grade = match cell.verdict.grade {
        Grade::Valid => 0.0,
        Grade::Suspect => 1.0,
        Grade::Invalid => 2.0,
    };
    let help = "Verdict: 0 valid, 1 suspect, 2 invalid";
    set.add(("tare_grade", "", help), labels, grade);
    let help = "Requests per second planned";
    let planned = Some(cell.rate_rps).filter(|rps| *rps > 0.0);
    set.add(("tare_planned_rps", "", help), labels, planned);
    let rate = |e: Option<&Estimate>| e.map_or([None; 3], |e| [Some(e.value), e.low, e.high]);
    let help = "Highest requests per second that meet the objectives, mean over the used trials";
    let capacity = cell.capacity.as_ref().and_then(|c| c.rate_rps.as_ref());
    set.interval(("tare_capacity_rps", "", help), labels, rate(capacity));
    let help = "Responses per second of a closed loop, mean over the used trials";
    let throughput = rate(cell.throughput_rps.as_ref());
    set.interval(("tare_throughput_rps", "", help), labels, throughput);
    let goodput = cell.overload.as_ref().and_then(|o| o.goodput_rps.as_ref());
    let help = "Responses within the timeout per second of an overload, mean over the used trials";
    set.interval(("tare_goodput_rps", "", help), labels, rate(goodput));
    let help = "Requests per second achieved, mean over the used trials";
    set.add(("tare_achieved_rps", "", help), labels, cell.achieved_rps);
    for (outcome, n) in cell.counts.outcomes() {
        let labels = with(labels, "outcome", outcome);
        let help = "Slots of the used trials by outcome";
        set.add(("tare_slots", "", help), &labels, n as f64);
    }
}

/// Adds the label `quantile`; the maximum is quantile 1.
fn quantile_label(labels: &Labels, q: f64) -> Labels {
    with(labels, "quantile", &q.to_string())
}

fn quantiles(set: &mut Set, cell: &Cell, labels: &Labels) {
    let seconds = |ns: u64| ns as f64 / 1e9;
    for q in cell.latency.iter().filter(|q| q.supported) {
        let help = "Latency at a quantile, median over the trials";
        set.interval(
            ("tare_latency_quantile_seconds", "seconds", help),
            &quantile_label(labels, q.q),
            [Some(q.value_ns), q.low_ns, q.high_ns].map(|ns| ns.map(seconds)),
        );
    }
    for q in cell.lateness.iter().filter(|q| q.supported) {
        let help = "The generator's own delay at a quantile";
        set.add(
            ("tare_lateness_quantile_seconds", "seconds", help),
            &quantile_label(labels, q.q),
            q.value_ns.map(seconds),
        );
    }
}

fn planes(set: &mut Set, cell: &Cell, labels: &Labels) {
    let ends = |e: &Estimate| [Some(e.value), e.low, e.high];
    for (plane, e) in &cell.planes {
        let labels = with(labels, "plane", plane_name(*plane));
        let name = ("tare_plane_cpu_cores", "", "CPU of a plane in cores");
        set.interval(name, &labels, ends(&e.cpu_cores));
        let help = "Memory of a plane, mean";
        let name = ("tare_plane_memory_bytes", "bytes", help);
        set.interval(name, &labels, ends(&e.memory_bytes));
        let help = "CPU of a plane in cores per 1,000 requests per second";
        let per_krps = e.cpu_cores_per_krps.as_ref().map(|e| e.value);
        set.add(
            ("tare_plane_cpu_cores_per_krps", "", help),
            &labels,
            per_krps,
        );
    }
    let busy = cell.machine_busy_cores.as_ref().map(|e| e.value);
    let help = "Busy cores of the whole machine";
    set.add(("tare_machine_busy_cores", "", help), labels, busy);
}

fn ratios(set: &mut Set, summary: &Summary, comparison: &MeshComparison) {
    for ratio in &comparison.ratios {
        let labels = vec![
            ("run", summary.run.clone()),
            ("plan", summary.plan.clone()),
            ("mesh", comparison.mesh.clone()),
            ("reference", comparison.reference.clone()),
            ("load", comparison.load.clone()),
            ("figure", ratio.what.to_string()),
        ];
        let help = "A figure of a mesh divided by that of another, by block";
        let ends = [Some(ratio.value), ratio.low, ratio.high];
        set.interval(("tare_ratio", "", help), &labels, ends);
        let outcome = match ratio.outcome {
            Outcome::Same => 0.0,
            Outcome::Different => 1.0,
            Outcome::NotResolved => 2.0,
        };
        let help = "Outcome of a ratio: 0 the same within the margin, 1 different, 2 not resolved";
        set.add(("tare_ratio_outcome", "", help), &labels, outcome);
    }
}
