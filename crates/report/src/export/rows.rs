//! The analysis as rows: each mesh under each load, then each trial.

use tare_model::hist::LatencySummary;
use tare_model::load::Counts;
use tare_model::summary::{Cell, Difference, Estimate, Overhead, Quantile, Summary, TrialRow};
use tare_model::verdict::Verdict;
use tare_model::worker::Plane;

use super::table::{Kind, Row, Table, Value};

const PLANES: [(Plane, &str); 6] = [
    (Plane::Application, "application"),
    (Plane::DataPlane, "data_plane"),
    (Plane::GeneratorProxy, "generator_proxy"),
    (Plane::ControlPlane, "control_plane"),
    (Plane::Generator, "generator"),
    (Plane::Tare, "tare"),
];

/// Names and units of the differences in resources, as columns.
const RESOURCES: [(&str, &str); 4] = [
    ("cpu", "cores"),
    ("memory", "bytes"),
    ("machine_cpu", "cores"),
    ("application_cpu", "cores"),
];

pub(super) fn of(summary: &Summary) -> Table {
    let mut table = Table::default();
    summary
        .cells
        .iter()
        .for_each(|c| table.push(cell(summary, c)));
    summary
        .trials
        .iter()
        .for_each(|t| table.push(trial(summary, t)));
    table
}

/// A row in the making.
struct Columns(Row);

impl Columns {
    fn new(summary: &Summary, row: &str, mesh: &str, load: &str) -> Self {
        let mut columns = Self(Vec::new());
        for (name, value) in [
            ("row", row),
            ("run", &summary.run),
            ("plan", &summary.plan),
            ("mesh", mesh),
            ("load", load),
        ] {
            columns.text(name, value);
        }
        columns
    }

    fn text(&mut self, name: &str, value: &str) {
        self.add(name, Kind::Text, Value::Text(value.to_owned()));
    }

    fn whole(&mut self, name: &str, value: Option<u64>) {
        self.add(name, Kind::Whole, value.into());
    }

    fn number(&mut self, name: &str, value: Option<f64>) {
        self.add(name, Kind::Number, value.into());
    }

    fn truth(&mut self, name: &str, value: Option<bool>) {
        let value = value.map_or(Value::None, Value::Truth);
        self.add(name, Kind::Truth, value);
    }

    fn add(&mut self, name: &str, kind: Kind, value: Value) {
        self.0.push((name.to_owned(), kind, value));
    }

    /// The columns that both kinds of rows have in the same place.
    fn place(&mut self, rate_rps: Option<f64>, trial: Option<&TrialRow>) {
        self.number("rate_rps", rate_rps);
        self.whole("trial", trial.map(|t| u64::from(t.index)));
        self.whole("block", trial.map(|t| u64::from(t.block)));
        let dir = trial.map_or(Value::None, |t| Value::Text(t.dir.clone()));
        self.add("dir", Kind::Text, dir);
        self.truth("used", trial.map(|t| t.used));
    }

    fn verdict(&mut self, verdict: &Verdict) {
        self.text("grade", verdict.grade.word());
        let found: Vec<&str> = verdict.reasons.iter().map(|r| r.found.as_str()).collect();
        self.text("reasons", &found.join("; "));
    }

    fn counts(&mut self, counts: Option<&Counts>) {
        self.whole("planned", counts.map(|c| c.planned));
        self.whole("ok", counts.map(|c| c.ok));
        self.whole("error", counts.map(|c| c.error));
        self.whole("timeout", counts.map(|c| c.timeout));
        self.whole("in_flight", counts.map(|c| c.in_flight));
        self.whole("not_sent", counts.map(|c| c.not_sent));
    }

    fn quantiles(&mut self, measure: &str, quantiles: &[Quantile]) {
        for q in quantiles {
            let name = format!("{measure}_{}", column(&q.name));
            self.whole(&format!("{name}_ns"), Some(q.value_ns));
            if measure == "latency" {
                self.whole(&format!("{name}_low_ns"), q.low_ns);
                self.whole(&format!("{name}_high_ns"), q.high_ns);
                self.truth(&format!("{name}_supported"), Some(q.supported));
            }
        }
    }

    fn latency_summary(&mut self, measure: &str, s: Option<&LatencySummary>) {
        let Some(s) = s else { return };
        for (name, value) in [
            ("p50", s.p50),
            ("p90", s.p90),
            ("p99", s.p99),
            ("p99_9", s.p99_9),
            ("max", s.max),
        ] {
            self.whole(&format!("{measure}_{name}_ns"), Some(value));
        }
    }

    fn estimate(&mut self, name: &str, e: Option<&Estimate>) {
        let Some(e) = e else { return };
        self.number(name, Some(e.value));
        self.number(&format!("{name}_low"), e.low);
        self.number(&format!("{name}_high"), e.high);
    }

    fn overhead(&mut self, overhead: &Overhead) {
        for d in &overhead.latency {
            self.difference(&format!("overhead_{}_ns", column(&d.what)), d);
        }
        for d in &overhead.resources {
            let unit = RESOURCES.iter().find(|(what, _)| d.what == *what);
            let unit = unit.map_or("", |(_, unit)| unit);
            self.difference(&format!("overhead_{}_{unit}", column(&d.what)), d);
        }
    }

    fn difference(&mut self, name: &str, d: &Difference) {
        self.number(name, Some(d.value));
        self.number(&format!("{name}_low"), d.low);
        self.number(&format!("{name}_high"), d.high);
        self.number(&format!("{name}_ratio"), d.ratio);
        self.text(&format!("{name}_distinction"), d.distinction.words());
    }
}

/// `p99.9` as part of a column's name.
fn column(name: &str) -> String {
    name.replace('.', "_")
}

fn cell(summary: &Summary, cell: &Cell) -> Row {
    let mut row = Columns::new(summary, "cell", &cell.mesh, &cell.load);
    row.place(Some(cell.rate_rps), None);
    row.verdict(&cell.verdict);
    row.whole("trials_used", Some(cell.trials_used.len() as u64));
    row.counts(Some(&cell.counts));
    row.number("achieved_rps", cell.achieved_rps);
    row.quantiles("latency", &cell.latency);
    row.quantiles("service_time", &cell.service_time);
    row.quantiles("lateness", &cell.lateness);
    if let Some(instrument) = &cell.instrument {
        row.whole("instrument_sampled", Some(instrument.sampled));
        row.quantiles("instrument_error", &instrument.service_time);
    }
    if let Some(cores) = &cell.core_to_core {
        row.number("core_to_core_least_ns", Some(cores.least_ns));
        row.number("core_to_core_median_ns", Some(cores.median_ns));
        row.number("core_to_core_most_ns", Some(cores.most_ns));
    }
    for (plane, name) in PLANES {
        let Some(plane) = cell.planes.get(&plane) else {
            continue;
        };
        row.estimate(&format!("{name}_cpu_cores"), Some(&plane.cpu_cores));
        row.number(&format!("{name}_cpu_cores_max"), Some(plane.cpu_cores_max));
        row.estimate(
            &format!("{name}_cpu_cores_per_krps"),
            plane.cpu_cores_per_krps.as_ref(),
        );
        row.estimate(&format!("{name}_memory_bytes"), Some(&plane.memory_bytes));
        row.whole(
            &format!("{name}_memory_max_bytes"),
            Some(plane.memory_max_bytes),
        );
    }
    row.estimate("machine_busy_cores", cell.machine_busy_cores.as_ref());
    if let Some(overhead) = &cell.overhead {
        row.overhead(overhead);
    }
    row.0
}

fn trial(summary: &Summary, trial: &TrialRow) -> Row {
    let mut row = Columns::new(summary, "trial", &trial.mesh, &trial.load);
    let load = summary.setup.loads.iter().find(|l| l.name == trial.load);
    row.place(load.map(|l| l.rate_rps), Some(trial));
    row.verdict(&trial.verdict);
    row.counts(trial.counts.as_ref());
    row.number("achieved_rps", trial.achieved_rps);
    row.latency_summary("latency", trial.latency_ns.as_ref());
    row.latency_summary("lateness", trial.lateness_ns.as_ref());
    row.number("data_plane_cpu_cores", trial.data_plane_cores);
    row.number("data_plane_memory_bytes", trial.data_plane_bytes);
    row.0
}
