//! Runs in which something failed: every output begins with it.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use std::path::Path;

use crate::support::trials;
use tare_analysis::StoredTrial;
use tare_analysis::summary::summarise;
use tare_plan::Plan;
use tare_plan::trial::order;
use tare_records::layout;
use tare_records::load::Counts;
use tare_records::record::{LoadRecord, StreamChecksum};
use tare_records::summary::Summary;
use tare_records::trial::TrialResult;
use tare_records::verdict::{Finding, Grade, Reason, Verdict};
use tare_report::{load_run, render_gate_markdown, render_report, render_table};
use tare_stats::Histogram;

fn plan() -> Plan {
    let meshes = [("bare", "No mesh"), ("envoy", "Envoy sidecars")];
    support::plan(&meshes, &[200.0, 400.0], 3)
}

/// Lets `failed` of every `of` requests fail.
fn fail(result: &mut TrialResult, failed: u64, of: u64) {
    let load = result.load.as_mut().unwrap();
    let counts = &mut load.counts;
    let bad = counts.planned * failed / of;
    (counts.ok, counts.error, counts.timeout) = (counts.planned - bad, bad, 0);
    (counts.in_flight, counts.not_sent) = (0, 0);
    load.errors.insert("connect_refused".to_owned(), bad);
    if failed == of {
        load.latency_ns = Default::default();
        load.histograms.latency = Histogram::new().to_wire();
    }
    let found = format!("{bad} requests failed");
    add(result, Finding::new(Grade::Invalid, Reason::Errors, found));
}

fn add(result: &mut TrialResult, finding: Finding) {
    let verdict = std::mem::take(&mut result.verdict);
    result.verdict = verdict.and(Verdict::from_findings(vec![finding]));
}

fn is_envoy_at_400(result: &TrialResult) -> bool {
    result.trial.mesh.name == "envoy" && result.trial.load.name == "400rps"
}

fn analysed(mut stored: Vec<StoredTrial>) -> Summary {
    for trial in stored.iter_mut().filter(|t| is_envoy_at_400(&t.result)) {
        trial.failed_since_s = Some(4 + trial.result.trial.block);
    }
    summarise(&support::manifest(&plan()), &stored, Vec::new())
}

fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_tenth_of_the_requests_is_in_the_first_line_with_its_class_and_second() {
    let summary = analysed(trials(&plan(), |result| {
        if is_envoy_at_400(result) && result.trial.block > 0 {
            fail(result, 1, 10);
        }
    }));
    let [failure] = summary.failures.as_slice() else {
        panic!("{:?}", summary.failures);
    };
    assert_eq!((failure.trials, failure.trials_all), (2, 3));
    assert_eq!(failure.since_s, Some(4));
    assert!(failure.requests_failed > 0 && failure.requests > 9 * failure.requests_failed);
    let text = flat(&render_table(&summary, false));
    assert!(
        text.starts_with("Failed: envoy at 400 rps: in 2 of 3 trials, "),
        "{text}"
    );
    let share = " %: connect_refused ";
    assert!(
        text.contains(share) && text.contains(", the first one 4 s after the start of the window."),
        "{text}"
    );
    assert!(render_gate_markdown(&summary).is_none(), "no gate");
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["failures"][0]["text"], failure.text);
}

#[test]
fn an_application_that_ended_has_no_cost_and_no_remedy_for_a_measurement() {
    let summary = analysed(trials(&plan(), |result| {
        if is_envoy_at_400(result) {
            fail(result, 1, 1);
            let found = "web: ended with signal 9, 4.2 s into the window";
            add(result, Finding::new(Grade::Invalid, Reason::Restart, found));
        }
    }));
    let text = flat(&render_table(&summary, false));
    assert!(
        text.starts_with(
            "Failed: envoy at 400 rps: in all 3 trials, web: ended with signal 9, 4.2 s into the window; all "
        ),
        "{text}"
    );
    let why = "no comparison, because no request to envoy succeeded";
    let answer = &summary.answers[0];
    assert!(answer.text.contains(why), "{}", answer.text);
    assert!(answer.outcome.is_none() && answer.caution.is_none());
    for misleading in ["its proxies used", "higher rate", "Start the server"] {
        assert!(!text.contains(misleading), "{misleading}: {text}");
    }
    let cell = summary
        .cells
        .iter()
        .find(|c| c.mesh == "envoy" && c.load == "400rps");
    let per_krps = |p: &tare_records::summary::PlaneEstimate| p.cpu_cores_per_krps.is_some();
    assert!(!cell.unwrap().planes.values().any(per_krps));
}

/// Lets ten requests of each second from `since` on fail, in the records and the result of a trial.
fn fail_since(trial: &Path, since: u32) {
    let class = || "connect_refused".to_owned();
    let fail = |counts: &mut Counts, n: u64| {
        counts.ok -= n;
        counts.error += n;
    };
    let text = std::fs::read_to_string(trial.join(layout::LOAD)).unwrap();
    let (mut lines, mut checksum, mut failed) = (String::new(), StreamChecksum::default(), 0);
    for line in text.lines() {
        let mut record: LoadRecord = serde_json::from_str(line).unwrap();
        match &mut record {
            LoadRecord::Interval(interval) if interval.second >= since => {
                fail(&mut interval.counts, 10);
                fail(&mut interval.endpoints[0].counts, 10);
                interval.errors.insert(class(), 10);
                failed += 10;
            }
            LoadRecord::Final {
                checksum: sum,
                result,
            } => {
                fail(&mut result.counts, failed);
                fail(&mut result.endpoints[0].counts, failed);
                result.errors.insert(class(), failed);
                *sum = checksum.hex();
                let path = trial.join(layout::RESULT);
                let stored = std::fs::read(&path).unwrap();
                let mut stored: TrialResult = serde_json::from_slice(&stored).unwrap();
                stored.load = Some((**result).clone());
                support::write_json(&path, &stored);
            }
            _ => {}
        }
        let line = serde_json::to_string(&record).unwrap();
        checksum.line(&line);
        lines += &(line + "\n");
    }
    std::fs::write(trial.join(layout::LOAD), lines).unwrap();
}

#[test]
fn the_page_begins_with_what_failed_and_reads_the_second_from_the_records() {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &plan(), |result| {
        if is_envoy_at_400(result) {
            let finding = Finding::new(Grade::Suspect, Reason::Errors, "requests failed");
            add(result, finding);
        }
    });
    for spec in order(&plan()) {
        if spec.mesh.name == "envoy" && spec.load.name == "400rps" {
            let trial = dir.path().join(layout::TRIALS).join(spec.dir_name());
            fail_since(&trial, 2 + spec.block);
        }
    }
    let run = load_run(dir.path()).unwrap();
    assert_eq!(run.notes, Vec::<String>::new());
    let summary = tare_report::summarise(&run);
    assert_eq!(summary.failures[0].since_s, Some(2));
    let page = render_report(&run, &summary);
    // 8, 7 and 6 of 10 seconds in three trials of 4,000 requests.
    let sentence = "Failed: envoy at 400 rps: in all 3 trials, 210 of 12,000 requests failed (1.75 %: connect_refused 210), \
                    the first one 2 s after the start of the window.";
    let (at, answers) = (page.find(sentence), page.find("id=\"answers\""));
    assert!(at.is_some() && at < answers, "{at:?} {answers:?}");
}

#[test]
fn a_run_without_failures_begins_with_its_answers() {
    let summary = analysed(trials(&plan(), |_| {}));
    assert!(summary.failures.is_empty());
    assert!(!render_table(&summary, false).contains("Failed:"));
}
