//! The page of a whole run: its content, its size, excluded trials and prices.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use tare_plan::Prices;
use tare_records::layout;
use tare_records::summary::TrialStatus;
use tare_records::trial::ProcessUse;
use tare_report::{LoadedRun, load_run, render_report, summarise, write_derived};

/// Most bytes of a page.
const BYTES_MAX: usize = 3_000_000;

fn loaded(plan: &tare_plan::Plan) -> (tempfile::TempDir, LoadedRun) {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), plan, |_| {});
    let run = load_run(dir.path()).unwrap();
    (dir, run)
}

#[test]
fn an_excluded_trial_is_named_and_in_no_figure() {
    let (dir, run) = loaded(&support::quick());
    let out = run.trials[0].result.trial.clone();
    let summary = write_derived(dir.path(), &[out.index]).unwrap();
    let row = summary
        .trials
        .iter()
        .find(|t| t.index == out.index)
        .unwrap();
    assert_eq!(row.status, TrialStatus::Excluded);
    for cell in &summary.cells {
        let same = cell.mesh == out.mesh.name && cell.load == out.load.name;
        assert_eq!(cell.trials_used.len(), if same { 2 } else { 3 });
        assert!(cell.trials_failed.is_empty());
    }
    let note = format!("excluded on request: trial {}", out.index);
    assert!(summary.notes.contains(&note), "{:?}", summary.notes);
    let page = std::fs::read_to_string(dir.path().join(layout::REPORT)).unwrap();
    assert!(page.contains("1 excluded by --exclude"));
    assert!(page.contains(&format!("--exclude {}</code>", out.index)));

    let error = write_derived(dir.path(), &[99]).unwrap_err().to_string();
    assert!(
        error.contains("no trial 99") && error.contains("18 trials"),
        "{error}"
    );
}

#[test]
fn the_reasons_of_a_trial_span_the_table_of_trials() {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &support::quick(), support::with_doubts);
    let run = load_run(dir.path()).unwrap();
    let page = render_report(&run, &summarise(&run));
    let (_, table) = page.split_once("<table class=\"trials\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let columns = table.matches("<th scope=\"col\"").count();
    let spans = table.split("<tr class=\"reasons\">").skip(1);
    let widths = spans.map(|row| -> usize {
        let cells = row.split("colspan=\"").skip(1);
        let width = |cell: &str| cell.split('"').next().unwrap().parse::<usize>().unwrap();
        cells.map(width).sum()
    });
    let widths: Vec<usize> = widths.collect();
    assert!(
        !widths.is_empty() && widths.iter().all(|w| *w == columns),
        "{columns}: {widths:?}"
    );
    let trial = &run.trials[0];
    let expected = format!(
        "data-trial=\"{}\" title=\"{}\"",
        trial.result.trial.index, trial.dir
    );
    assert!(table.contains(&expected), "{expected}");
}

#[test]
fn the_plan_is_shown_as_text() {
    let (_dir, run) = loaded(&support::quick());
    let page = render_report(&run, &summarise(&run));
    assert!(page.contains("&lt;b&gt;no plan&lt;/b&gt; was ever written"));
    for id in ["summary", "details"] {
        assert_eq!(page.matches(&format!("id=\"{id}\">")).count(), 1, "{id}");
    }
}

#[test]
fn the_page_of_a_large_run_is_small() {
    let meshes = ["bare", "envoy", "envoy/mtls", "other", "another"].map(|m| (m, m));
    let plan = support::plan(&meshes, &[400.0], 10);
    let (_dir, mut run) = loaded(&plan);
    assert_eq!(run.trials.len(), 50);
    for (number, trial) in run.trials.iter_mut().enumerate() {
        let resources = trial.result.resources.as_mut().unwrap();
        let one = resources.processes[0].clone();
        resources.processes = (0..180)
            .map(|i| ProcessUse {
                name: format!("emojivoto-{}/service-{}/sidecar", i / 6, i % 6),
                cpu_cores: one.cpu_cores * (1.0 + (i * 37 + number * 91) as f64 / 1e3),
                memory_mean_bytes: one.memory_mean_bytes * (1.0 + (i + number) as f64 / 1e4),
                ..one.clone()
            })
            .collect();
        let load = trial.result.load.as_mut().unwrap();
        let some = load.endpoints.clone();
        load.endpoints = (0..90)
            .map(|i| tare_records::load::EndpointResult {
                name: format!("service-{i}/endpoint"),
                ..some[i % some.len()].clone()
            })
            .collect();
    }
    let summary = summarise(&run);
    assert_eq!(summary.cells[0].endpoints.len(), 90);
    let page = render_report(&run, &summary);
    assert!(page.len() < BYTES_MAX, "{} bytes", page.len());
}

#[test]
fn prices_become_a_monthly_cost_at_the_given_size() {
    let mut plan = support::quick();
    plan.prices = Some(Prices {
        core_hour: 0.04,
        gib_hour: 0.005,
        currency: "EUR".to_owned(),
        rps: Some(700.0),
        proxies: Some(600.0),
    });
    let (_dir, run) = loaded(&plan);
    let summary = summarise(&run);
    let cell = |mesh: &str| {
        let mut cells = summary.cells.iter();
        cells
            .find(|c| c.mesh == mesh && c.load == "400rps")
            .unwrap()
    };
    assert!(cell("bare").cost.is_none());
    let (cost, plane) = (
        cell("envoy").cost.as_ref().unwrap(),
        &cell("envoy").planes[&tare_records::worker::Plane::DataPlane],
    );
    // 1.75 times the rate, 100 times the proxies.
    assert!((cost.cores.value / plane.cpu_cores.value - 1.75).abs() < 1e-6);
    let gib = plane.memory_bytes.value * 100.0 / 1_073_741_824.0;
    assert!((cost.memory_gib.value / gib - 1.0).abs() < 1e-9);
    let money = 730.5 * (cost.cores.value * 0.04 + cost.memory_gib.value * 0.005);
    assert!((cost.per_month.value / money - 1.0).abs() < 1e-9);
    assert!(cost.per_month.low.unwrap() < money && money < cost.per_month.high.unwrap());
    assert!(render_report(&run, &summary).contains("EUR per month"));
    let table = tare_report::render_table(&summary, false);
    assert!(table.contains("EUR per month"), "{table}");
    // 700 rps are more than twice the other load.
    assert!(
        summary
            .cells
            .iter()
            .all(|c| c.load == "400rps" || c.cost.is_none())
    );
    let note = "no cost at 700 rps from the load with 200 rps: a rate more than 2 times the measured \
                one would be a guess; add a load with at least 350 rps";
    assert!(
        summary.notes.contains(&note.to_owned()),
        "{:?}",
        summary.notes
    );
}
