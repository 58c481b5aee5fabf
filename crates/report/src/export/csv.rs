//! The analysis as a CSV table: one row per mesh and load, then one per ratio, then one per trial.

use tare_analysis::formats::csv;
use tare_plan::{Figure, Load};
use tare_records::load::Counts;
use tare_records::summary::{
    Cell, Estimate, MeshComparison, Percentile, Quantile, Ratio, Summary, TrialRow, TrialStatus,
};
use tare_records::verdict::Verdict;
use tare_stats::wire::LatencySummary;

use super::plane_name;

/// One row: the names of its columns and their values as CSV fields.
type Fields = Vec<(String, String)>;

/// Returns the table as comma-separated values. A column that a row lacks is empty there.
pub(super) fn of(summary: &Summary) -> String {
    let cells = summary.cells.iter().map(|c| cell(summary, c));
    let trials = summary.trials.iter().map(|t| trial(summary, t));
    let ratios = summary.comparisons.iter().flat_map(|c| {
        let rows = c.ratios.iter();
        rows.map(move |r| ratio(summary, c, r))
    });
    to_csv(cells.chain(ratios).chain(trials))
}

fn to_csv(rows: impl Iterator<Item = Fields>) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut table: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let mut values = vec![String::new(); names.len()];
        for (name, value) in row {
            match names.iter().position(|n| *n == name) {
                Some(at) => values[at] = value,
                None => {
                    names.push(name);
                    values.push(value);
                }
            }
        }
        table.push(values);
    }
    let mut out = names.join(",") + "\n";
    for mut values in table {
        values.resize(names.len(), String::new());
        out += &values.join(",");
        out.push('\n');
    }
    out
}

/// A row under construction.
struct Row(Fields);

impl Row {
    fn new(summary: &Summary, row: &str, mesh: &str, load: &str) -> Self {
        let mut fields = Self(Vec::new());
        for (name, value) in [
            ("row", row),
            ("run", &summary.run),
            ("plan", &summary.plan),
            ("mesh", mesh),
            ("load", load),
        ] {
            fields.text(name, value);
        }
        fields
    }

    fn text(&mut self, name: &str, value: &str) {
        self.value(name, Some(csv::field(value)));
    }

    /// Adds a value, written with as many digits as restore it exactly.
    fn value(&mut self, name: &str, value: Option<impl ToString>) {
        let value = value.map_or_else(String::new, |v| v.to_string());
        self.0.push((name.to_owned(), value));
    }

    /// Adds the columns that both kinds of rows share.
    fn position(&mut self, rate_rps: Option<f64>, trial: Option<&TrialRow>) {
        self.value("rate_rps", rate_rps);
        self.value("trial", trial.map(|t| t.index));
        self.value("block", trial.map(|t| t.block + 1));
        self.text("dir", trial.map_or("", |t| &t.dir));
        self.value("used", trial.map(|t| t.status == TrialStatus::Used));
        self.text("status", trial.map_or("", |t| t.status.words()));
    }

    fn verdict(&mut self, verdict: &Verdict) {
        self.text("grade", verdict.grade.word());
        let found: Vec<&str> = verdict.reasons.iter().map(|r| r.found.as_str()).collect();
        self.text("reasons", &found.join("; "));
    }

    fn counts(&mut self, counts: Option<&Counts>) {
        self.value("planned", counts.map(|c| c.planned));
        for (i, (name, _)) in Counts::default().outcomes().into_iter().enumerate() {
            self.value(name, counts.map(|c| c.outcomes()[i].1));
        }
    }

    fn latency(&mut self, quantiles: &[Quantile]) {
        for q in quantiles {
            let name = format!("latency_{}", column(q.name.id()));
            self.value(&format!("{name}_ns"), Some(q.value_ns));
            self.value(&format!("{name}_low_ns"), q.low_ns);
            self.value(&format!("{name}_high_ns"), q.high_ns);
            self.value(&format!("{name}_supported"), Some(q.supported));
            self.value(&format!("{name}_pooled_ns"), Some(q.pooled.value_ns));
        }
    }

    fn percentiles(&mut self, measure: &str, percentiles: &[Percentile]) {
        for p in percentiles {
            self.value(&format!("{measure}_{}_ns", column(p.name.id())), p.value_ns);
        }
    }

    fn latency_summary(&mut self, measure: &str, s: Option<&LatencySummary>) {
        let Some(s) = s else { return };
        for (name, value) in [
            (Figure::P50, s.p50),
            (Figure::P90, s.p90),
            (Figure::P99, s.p99),
            (Figure::P99_9, s.p99_9),
            (Figure::Max, s.max),
        ] {
            self.value(&format!("{measure}_{}_ns", column(name.id())), Some(value));
        }
    }

    fn estimate(&mut self, name: &str, e: Option<&Estimate>) {
        let Some(e) = e else { return };
        self.value(name, Some(e.value));
        self.value(&format!("{name}_low"), e.low);
        self.value(&format!("{name}_high"), e.high);
    }
}

/// `p99.9` as part of a column's name.
fn column(name: &str) -> String {
    name.replace('.', "_")
}

fn cell(summary: &Summary, cell: &Cell) -> Fields {
    let mut row = Row::new(summary, "cell", &cell.mesh, &cell.load);
    row.position(Some(cell.rate_rps).filter(|rps| *rps > 0.0), None);
    row.verdict(&cell.verdict);
    row.value("trials_used", Some(cell.trials_used.len()));
    row.counts(Some(&cell.counts));
    row.value("achieved_rps", cell.achieved_rps);
    if let Some(capacity) = &cell.capacity {
        row.estimate("capacity_rps", capacity.rate_rps.as_ref());
        let limits = capacity.limits.iter().map(|l| l.limit.words());
        row.text("capacity_limits", &limits.collect::<Vec<_>>().join(", "));
    }
    row.estimate("throughput_rps", cell.throughput_rps.as_ref());
    if let Some(overload) = &cell.overload {
        row.value("overload_rps", Some(overload.rate_rps));
        row.estimate("goodput_rps", overload.goodput_rps.as_ref());
        row.estimate("failed_share", overload.failed_share.as_ref());
        row.estimate("overload_p50_ns", overload.p50_ns.as_ref());
        row.estimate("overload_p99_ns", overload.p99_ns.as_ref());
        row.estimate("recovery_s", overload.recovery_s.as_ref());
        row.value("not_recovered", Some(overload.not_recovered));
    }
    if let Some(churn) = &cell.churn {
        row.estimate("convergence_ns", churn.convergence_ns.as_ref());
        row.value("not_arrived", Some(churn.unseen));
        row.estimate("pod_ready_ns", churn.pod_ready_ns.as_ref());
        row.estimate("pod_ready_added_ns", churn.pod_ready_added_ns.as_ref());
        row.estimate("mesh_ready_ns", churn.mesh_ready_ns.as_ref());
    }
    row.latency(&cell.latency);
    row.percentiles("latency_of_all", &cell.latency_of_all);
    row.percentiles("service_time", &cell.service_time);
    row.percentiles("lateness", &cell.lateness);
    if let Some(instrument) = &cell.instrument {
        row.value("instrument_sampled", Some(instrument.sampled));
        row.percentiles("instrument_error", &instrument.service_time);
    }
    if let Some(cores) = &cell.core_to_core {
        row.value("core_to_core_least_ns", Some(cores.least_ns));
        row.value("core_to_core_median_ns", Some(cores.median_ns));
        row.value("core_to_core_most_ns", Some(cores.most_ns));
    }
    for (plane, usage) in &cell.planes {
        let name = plane_name(*plane);
        row.estimate(&format!("{name}_cpu_cores"), Some(&usage.cpu_cores));
        row.value(&format!("{name}_cpu_cores_max"), Some(usage.cpu_cores_max));
        row.estimate(
            &format!("{name}_cpu_cores_per_krps"),
            usage.cpu_cores_per_krps.as_ref(),
        );
        for (counter, estimate) in [
            (Figure::Instructions, &usage.instructions_per_request),
            (Figure::Cycles, &usage.cycles_per_request),
        ] {
            row.estimate(&format!("{name}_{counter}_per_request"), estimate.as_ref());
        }
        row.estimate(&format!("{name}_memory_bytes"), Some(&usage.memory_bytes));
        row.value(
            &format!("{name}_memory_max_bytes"),
            Some(usage.memory_max_bytes),
        );
    }
    row.estimate("machine_busy_cores", cell.machine_busy_cores.as_ref());
    row.0
}

fn ratio(summary: &Summary, comparison: &MeshComparison, ratio: &Ratio) -> Fields {
    let mut row = Row::new(summary, "ratio", &comparison.mesh, &comparison.load);
    row.text("reference", &comparison.reference);
    row.text("figure", ratio.what.id());
    row.text("unit", ratio.unit.id());
    row.value("ratio", Some(ratio.value));
    row.value("ratio_low", ratio.low);
    row.value("ratio_high", ratio.high);
    row.value("difference", Some(ratio.difference));
    row.value("blocks", Some(ratio.blocks.len()));
    row.value("primary", Some(ratio.primary));
    row.value("p", ratio.p);
    row.value("p_holm", ratio.p_holm);
    row.value("margin", Some(ratio.margin));
    row.text("outcome", ratio.outcome.words());
    row.0
}

fn trial(summary: &Summary, trial: &TrialRow) -> Fields {
    let mut row = Row::new(summary, "trial", &trial.mesh, &trial.load);
    let load = summary.setup.loads.iter().find(|l| l.name == trial.load);
    row.position(load.and_then(Load::rate_rps), Some(trial));
    row.verdict(&trial.verdict);
    row.counts(trial.counts.as_ref());
    row.value("achieved_rps", trial.achieved_rps);
    row.latency_summary("latency", trial.latency_ns.as_ref());
    row.latency_summary("lateness", trial.lateness_ns.as_ref());
    row.value("data_plane_cpu_cores", trial.data_plane_cores);
    row.value("data_plane_memory_bytes", trial.data_plane_bytes);
    row.value(
        "run_queue_delay_per_request_ns",
        trial.run_queue_delay_per_request_ns,
    );
    row.value("instructions_per_request", trial.instructions_per_request);
    row.value("cycles_per_request", trial.cycles_per_request);
    row.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_have_different_columns() {
        let mut first = Row(Vec::new());
        first.text("name", "a,\"b\"");
        first.value("n", Some(u64::from(u32::MAX) + 1));
        let mut second = Row(Vec::new());
        second.value("n", None::<u64>);
        second.value("x", Some(0.1 + 0.2));
        second.value("ok", Some(true));
        assert_eq!(
            to_csv([first.0, second.0].into_iter()),
            "name,n,x,ok\n\"a,\"\"b\"\"\",4294967296,,\n,,0.30000000000000004,true\n"
        );
    }
}
