//! The outputs of a run directory: damage becomes notes, names are escaped, and every output shows
//! the same numbers.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;
use tare_plan::Figure;

use std::path::{Path, PathBuf};

use tare_analysis::figures;
use tare_records::layout;
use tare_records::summary::{Outcome, Summary, TrialStatus};
use tare_records::verdict::{Grade, Reason};
use tare_records::worker::Plane;
use tare_report::{StoreError, load_run, render_page, render_table, summarise};

fn written() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &support::quick(), |_| {});
    dir
}

fn trial_dirs(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.join(layout::TRIALS)).unwrap();
    let mut dirs: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    dirs.sort();
    dirs
}

fn analysed(dir: &Path) -> Summary {
    summarise(&load_run(dir).unwrap())
}

fn table(summary: &Summary) -> String {
    render_table(summary, false)
}

#[test]
fn a_complete_run_has_no_notes_and_distinguishes_the_meshes() {
    let dir = written();
    let summary = analysed(dir.path());
    assert_eq!(summary.notes, Vec::<String>::new());
    assert_eq!(summary.grade, Grade::Valid);
    assert_eq!((summary.trials_done, summary.trials_planned), (18, 18));
    assert_eq!(summary.comparisons.len(), 6);
    for comparison in &summary.comparisons {
        assert_eq!(comparison.blocks, [0, 1, 2]);
        for ratio in comparison.ratios.iter().filter(|r| r.primary) {
            let over_bare = comparison.reference == "bare";
            assert_eq!(
                ratio.outcome == Outcome::Different,
                over_bare || ratio.what == Figure::ProxyCpu,
                "{ratio:?}"
            );
        }
    }
}

#[test]
fn the_schema_version_is_found_at_any_position() {
    let dir = written();
    let path = trial_dirs(dir.path())[0].join(layout::RESULT);
    let text = std::fs::read_to_string(&path).unwrap();
    let whole = load_run(dir.path()).unwrap().trials;
    let head = format!("{{\"schema_version\":{},", tare_plan::SCHEMA_VERSION);
    let rest = text.trim_end().strip_prefix(&head).unwrap();
    let rest = rest.strip_suffix('}').unwrap();
    let last = |version: u32| format!("{{{rest},\"schema_version\":{version}}}");
    std::fs::write(&path, last(tare_plan::SCHEMA_VERSION)).unwrap();
    assert!(load_run(dir.path()).unwrap().trials == whole);
    let newer = tare_plan::SCHEMA_VERSION + 1;
    for text in [
        last(newer),
        format!("{{ \"schema_version\" : {newer} ,{rest}}}"),
    ] {
        std::fs::write(&path, text).unwrap();
        let notes = load_run(dir.path()).unwrap().notes;
        assert!(notes.iter().any(|n| n.contains("newer tare")), "{notes:?}");
    }
}

/// Replaces `from` by `to` in a file.
fn change(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn names_in_files_follow_the_rules_of_plans() {
    let dir = written();
    let envoy = |name: &str| format!("\"name\":\"{name}\"");
    let trial = trial_dirs(dir.path())
        .into_iter()
        .find(|d| d.to_string_lossy().contains("envoy-mtls"))
        .unwrap();
    let hostile = r"bare\u001b[2K";
    change(
        &trial.join(layout::RESULT),
        &envoy("envoy/mtls"),
        &envoy(hostile),
    );
    let notes = load_run(dir.path()).unwrap().notes;
    assert!(
        notes.len() == 1 && notes[0].contains("expected a name of 1 to 64 letters"),
        "{notes:?}"
    );
    let manifest = dir.path().join(layout::RUN);
    let good = std::fs::read_to_string(&manifest).unwrap();
    let compact: serde_json::Value = serde_json::from_str(&good).unwrap();
    for (name, expected) in [
        (hostile, "expected a name of 1 to 64 letters"),
        ("", "expected a name of 1 to 64 letters"),
        ("bare", "found the mesh `bare` twice, expected it once"),
    ] {
        std::fs::write(&manifest, compact.to_string()).unwrap();
        change(&manifest, &envoy("envoy/mtls"), &envoy(name));
        let error = load_run(dir.path()).err().unwrap().to_string();
        assert!(error.contains(expected), "{name}: {error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn the_table_equals_the_stored_one() {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &support::quick(), support::with_doubts);
    let found = table(&analysed(dir.path()));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/table.txt");
    if std::env::var_os("TARE_UPDATE").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&golden).unwrap());
    for line in found.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let coloured = render_table(&analysed(dir.path()), true);
    let plain: String = coloured
        .split('\x1b')
        .enumerate()
        .map(|(i, part)| {
            if i == 0 {
                part
            } else {
                part.split_once('m').unwrap().1
            }
        })
        .collect();
    assert_eq!(plain, found, "colours must not change the text");
}

#[test]
fn table_page_and_json_show_the_same_numbers() {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &support::quick(), support::with_doubts);
    let summary = tare_report::write_derived(dir.path(), &[]).unwrap();
    let page = std::fs::read_to_string(dir.path().join(layout::REPORT)).unwrap();
    let table = table(&summary);
    let json = std::fs::read(dir.path().join(layout::SUMMARY)).unwrap();
    assert!(serde_json::from_slice::<Summary>(&json).unwrap() == summary);
    let mut expected = support::rounded(serde_json::to_value(&summary).unwrap());
    expected.as_object_mut().unwrap().remove("path");
    assert!(support::embedded::<serde_json::Value>(&page, "summary") == expected);
    let _: Summary = support::embedded(&page, "summary");

    for cell in &summary.cells {
        for q in cell.latency.iter().filter(|q| q.supported) {
            let words = figures::ms(q.value_ns as f64);
            assert!(
                page.contains(&format!("<b>{words}</b>")),
                "page: {} {words}",
                q.name
            );
            let in_table = q.name != Figure::P99_99 && q.supported;
            assert!(
                !in_table || table.contains(&words),
                "table: {} {words}",
                q.name
            );
        }
        if let Some(plane) = cell.planes.get(&Plane::DataPlane) {
            let cpu = &plane.cpu_cores;
            let [value, low, high] =
                [cpu.value, cpu.low.unwrap(), cpu.high.unwrap()].map(figures::cores);
            let shown = format!("<b>{value}</b> <small>{low} to {high}</small>");
            assert!(page.contains(&shown), "page: {shown}");
            let shown = format!("{value} ({low} to {high})");
            assert!(table.contains(&shown), "table: {shown}");
        }
    }
    for r in summary.comparisons.iter().flat_map(|c| &c.ratios) {
        let shown = figures::ratio(r.value, r.low, r.high);
        let interval = shown.interval.unwrap_or_default();
        let words = format!("<b>{}</b> <small>{interval}</small>", shown.value);
        assert!(page.contains(&words), "page: {words}");
        if [Figure::P50, Figure::P99].contains(&r.what) {
            let words = figures::ratio_short(r.value, r.low, r.high).to_string();
            assert!(table.contains(&words), "table: {words}");
        }
    }
    assert_eq!(summary.answers.len(), 3);
    let joined = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for answer in &summary.answers {
        assert!(joined.contains(&answer.text), "{}", answer.text);
    }
}

#[test]
fn ratios_are_in_groups_by_their_reference_and_the_baseline_comes_first() {
    let mut plan = support::quick();
    plan.baseline = "envoy".to_owned();
    plan.loads.truncate(1);
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &plan, |_| {});
    let summary = analysed(dir.path());
    let table = table(&summary);
    let block = |head: &str| -> Vec<&str> {
        let lines = table.lines().skip_while(|l| !l.starts_with(head)).skip(1);
        lines.take_while(|l| !l.is_empty()).collect()
    };
    assert!(
        table.find("over envoy").unwrap() < table.find("over bare").unwrap(),
        "{table}"
    );
    let over = block("over envoy");
    assert_eq!(over.len(), 2, "{table}");
    for line in over {
        // A name and three ratios with their intervals.
        assert_eq!(line.matches(" to ").count(), 3, "{line}");
        assert!(line.ends_with(')') && !line.contains("MiB"), "{line}");
    }
    assert_eq!(block("over bare").len(), 1, "{table}");
    let plane = block("data plane");
    assert!(plane[0].starts_with("envoy (base)"), "{table}");
    let cell = summary.cells.iter().find(|c| c.mesh == "envoy").unwrap();
    let cpu = figures::cores(cell.planes[&Plane::DataPlane].cpu_cores.value);
    assert!(plane[0].contains(&format!(" {cpu} (")), "{table}");
}

#[test]
fn a_ratio_that_is_not_different_has_a_sign() {
    let dir = tempfile::tempdir().unwrap();
    let meshes = [("bare", "No mesh"), ("again", "Once more")];
    support::write_run(dir.path(), &support::plan(&meshes, &[200.0], 3), |_| {});
    let mut summary = analysed(dir.path());
    summary.answers.clear();
    for (outcome, sign, legend) in [
        (Outcome::Same, "= ", "; = the same within the margin"),
        (Outcome::NotResolved, "? ", "; ? not resolved"),
        (Outcome::Different, "x", ""),
    ] {
        let ratios = summary.comparisons.iter_mut().flat_map(|c| &mut c.ratios);
        ratios.for_each(|r| r.outcome = outcome);
        let p50 = summary.comparisons[0].ratio(Figure::P50).unwrap();
        let words = figures::ratio_short(p50.value, p50.low, p50.high).to_string();
        let table = table(&summary);
        let joined = table.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(table.contains(&format!(" {sign}{words}")), "{table}");
        assert!(joined.contains(legend), "{table}");
        assert_eq!(table.contains(['=', '?']), sign != "x", "{table}");
    }
}

#[test]
fn a_partial_run_counts_its_existing_blocks() {
    let dir = written();
    for trial in trial_dirs(dir.path()).iter().skip(12) {
        std::fs::remove_dir_all(trial).unwrap();
    }
    let summary = analysed(dir.path());
    assert!(table(&summary).contains("10.0 s x 2 of 3 blocks"));
    assert!(render_page(&summary).contains("over 2 of 3 blocks"));
}

#[test]
fn an_invalid_trial_is_listed_and_used_unless_something_else_disturbed_it() {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &support::quick(), support::with_doubts);
    let summary = analysed(dir.path());
    let row = summary.trials.iter().find(|t| t.index == 9).unwrap();
    assert_eq!(
        (row.verdict.grade, row.status),
        (Grade::Invalid, TrialStatus::Used)
    );
    let cell = |index| {
        summary
            .cells
            .iter()
            .find(|c| c.trials_used.contains(&index))
            .unwrap()
    };
    assert_eq!(cell(9).mesh, row.mesh);
    for index in [4, 9] {
        assert_eq!(cell(index).verdict.grade, Grade::Suspect);
        assert_eq!(cell(index).saturation, None);
    }
    assert!(render_page(&summary).contains("lateness of 2.10 ms at p99"));
}

#[test]
fn damaged_trials_become_notes_and_the_others_are_read() {
    let dir = written();
    let trials = trial_dirs(dir.path());
    let result = |i: usize| trials[i].join(layout::RESULT);
    let text = std::fs::read_to_string(result(0)).unwrap();
    std::fs::write(result(0), &text[..text.len() / 2]).unwrap();
    std::fs::write(
        result(1),
        text.replacen("\"schema_version\":1", "\"schema_version\":9", 1),
    )
    .unwrap();
    std::fs::remove_file(result(2)).unwrap();
    std::fs::remove_dir_all(&trials[3]).unwrap();
    std::fs::write(result(4), b"\xff\x00nonsense").unwrap();
    // A changed digit in the records, which the checksum detects.
    let load = trials[5].join(layout::LOAD);
    let records = std::fs::read_to_string(&load).unwrap();
    std::fs::write(&load, records.replacen("\"sent\":", "\"sent\":1", 1)).unwrap();
    std::fs::remove_file(trials[6].join(layout::LOAD)).unwrap();
    std::fs::create_dir(
        dir.path()
            .join(layout::TRIALS)
            .join(".partial-018-b4-bare-200rps"),
    )
    .unwrap();
    std::fs::write(dir.path().join(layout::TRIALS).join("stray"), "x").unwrap();
    std::os::unix::fs::symlink("/", dir.path().join(layout::TRIALS).join("zz-link")).unwrap();

    let run = load_run(dir.path()).unwrap();
    assert_eq!(run.trials.len(), 13);
    let summary = summarise(&run);
    let notes = summary.notes.join("\n");
    for expected in [
        "000-",
        "truncated",
        "001-",
        "newer tare: schema 9",
        "002-",
        "the file is missing",
        "damaged",
        "checksum is",
        "not completed",
        "stray",
        "zz-link",
        "13 of 18 trials",
    ] {
        assert!(notes.contains(expected), "{expected} in\n{notes}");
    }
    for index in [5, 6] {
        let damaged = summary.trials.iter().find(|t| t.index == index).unwrap();
        assert_eq!(
            (damaged.verdict.grade, damaged.status),
            (Grade::Invalid, TrialStatus::Failed)
        );
        assert_eq!(damaged.verdict.reasons[0].reason, Reason::Incomplete);
    }
    assert!(table(&summary).contains("note: "));
    assert!(render_page(&summary).contains("truncated"));
}

#[test]
fn a_result_that_disagrees_with_its_records_is_invalid() {
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &support::quick(), |result| {
        let load = result.load.as_mut().unwrap();
        match result.trial.index {
            0 => {
                load.counts.planned += 10;
                load.counts.ok += 10;
            }
            1 => load.endpoints[1].latency = load.endpoints[0].latency.clone(),
            2 => load.rate.achieved *= 1.01,
            _ => {}
        }
    });
    let summary = analysed(dir.path());
    for trial in &summary.trials {
        let damaged = trial.index < 3;
        assert_eq!(trial.verdict.grade == Grade::Invalid, damaged, "{trial:?}");
        assert_eq!(trial.status == TrialStatus::Failed, damaged);
        let noted = |n: &&String| {
            n.starts_with(&trial.dir) && n.contains("load.ndjson and result.json differ")
        };
        assert_eq!(
            summary.notes.iter().filter(noted).count(),
            usize::from(damaged)
        );
    }
}

#[test]
fn a_trial_with_an_impossible_window_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let years = 500 * 365 * 24 * 3_600 * 1_000_000_000_u64;
    support::write_run(dir.path(), &support::quick(), |result| {
        let (load, resources) = (result.load.as_mut(), result.resources.as_mut());
        match result.trial.index {
            0 => load.unwrap().window_ns = years,
            1 => load.unwrap().window_start_unix_ns = u64::MAX,
            2 => load.unwrap().window_ns = 0,
            3 => resources.unwrap().window_ns = years,
            _ => {}
        }
    });
    let run = tare_report::load_run(dir.path()).unwrap();
    let indices: Vec<u32> = run.trials.iter().map(|t| t.result.trial.index).collect();
    assert_eq!(indices, Vec::from_iter(4..18));
    let reasons = [
        "expected at most 720h00m; the trial is skipped",
        "expected an end below 2^64 ns",
        "found slots in a window of 0 s",
        "expected at most 720h00m; the trial is skipped",
    ];
    assert_eq!(run.notes.len(), reasons.len(), "{:?}", run.notes);
    for (note, reason) in run.notes.iter().zip(reasons) {
        assert!(note.contains(reason), "{note}");
    }
}

#[test]
fn a_write_error_states_its_cause_once() {
    let dir = written();
    std::fs::create_dir_all(dir.path().join(layout::SUMMARY).join("in the way")).unwrap();
    let error = tare_report::write_derived(dir.path(), &[]).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(!error.to_string().contains(&cause), "{error}: {cause}");
}

#[test]
fn a_directory_without_a_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = load_run(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::NoRun { .. }), "{error}");
    std::fs::write(dir.path().join(layout::RUN), "{\"schema_version\": 7}").unwrap();
    let error = load_run(dir.path()).unwrap_err().to_string();
    assert!(
        error.contains("schema 7; this version reads schemas up to 1"),
        "{error}"
    );
    assert!(tare_report::write_derived(dir.path(), &[]).is_err());
    assert!(!dir.path().join(layout::REPORT).exists());
}

#[test]
fn a_run_without_trials_is_invalid() {
    let dir = written();
    std::fs::remove_dir_all(dir.path().join(layout::TRIALS)).unwrap();
    let summary = analysed(dir.path());
    assert_eq!(summary.grade, Grade::Invalid);
    assert!(
        summary.answers[0].text.contains("has no usable trial"),
        "{:?}",
        summary.answers
    );
    assert!(table(&summary).contains("all meshes and loads: no trial yet."));
    assert!(render_page(&summary).contains("has no usable trial"));
}

#[test]
fn hostile_names_are_shown_as_text() {
    use support::EVIL;
    let mut plan = support::quick();
    support::make_hostile(&mut plan);
    let dir = tempfile::tempdir().unwrap();
    support::write_run(dir.path(), &plan, |_| {});
    let mut run = load_run(dir.path()).unwrap();
    // A file with such names is refused, but their display does not depend on that.
    let plan = &mut run.manifest.plan;
    let (mesh, load) = (plan.meshes[1].name.clone(), plan.loads[0].name.clone());
    plan.meshes[1].name = EVIL.to_owned();
    plan.loads[0].name = EVIL.to_owned();
    for trial in run.trials.iter_mut().map(|t| &mut t.result.trial) {
        if trial.mesh.name == mesh {
            trial.mesh.name = EVIL.to_owned();
        }
        if trial.load.name == load {
            trial.load.name = EVIL.to_owned();
        }
    }
    let mut summary = summarise(&run);
    for cell in &mut summary.cells {
        cell.endpoints[0].name = EVIL.to_owned();
    }
    assert_eq!(summary.trials_done, 18);
    let page = render_page(&summary);
    assert!(!page.contains("<img"), "markup from a name");
    assert!(!page.contains('\x1b'));
    // The page has three script elements of its own: the data, the compressed script, and what starts it.
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    let table = table(&summary);
    assert!(
        !table.contains('\x1b'),
        "an escape sequence reaches the terminal"
    );
}

#[test]
fn the_page_loads_nothing_from_outside() {
    let dir = written();
    let page = render_page(&analysed(dir.path()));
    assert!(page.contains("default-src 'none'") && page.contains("script-src 'sha256-"));
    for reference in ["src=\"http", "href=\"http", "@import", "url(http", "url(//"] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}
