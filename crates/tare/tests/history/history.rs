//! Histories: the table of 2018, changes that are planted, damaged files, and several writers.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

use tare_analysis::history::series;
use tare_plan::{Figure, Margins, Unit};
use tare_records::history::{
    Annotation, ChangeKind, HistoryEntry, HistoryFigure, HistorySeries, HistoryVariant,
};
use tare_report::{HistoryDir, render_badge, render_history, render_history_page};

use crate::support;

const TODAY: &str = "2026-11-25";

fn entry(number: u64, host: &str, log_ratio: f64) -> HistoryEntry {
    let figure = |log_ratio| HistoryFigure {
        what: Figure::P50,
        load: "60rps".to_owned(),
        unit: Unit::Ns,
        value: Some(1e6),
        log_ratio,
        low: log_ratio.map(|log| log - 0.01),
        high: log_ratio.map(|log| log + 0.01),
    };
    let variant = |name: &str, log_ratio| HistoryVariant {
        name: name.to_owned(),
        figures: vec![figure(log_ratio)],
    };
    HistoryEntry {
        schema_version: tare_plan::SCHEMA_VERSION,
        id: format!("{host}-{number}"),
        at_unix_ns: number,
        build: format!("build-{number}"),
        plan: "patrol".to_owned(),
        plan_key: "1".to_owned(),
        host: host.to_owned(),
        host_key: host.to_owned(),
        anchor: "bare".to_owned(),
        versions: Default::default(),
        runs: Vec::new(),
        variants: vec![variant("bare", None), variant("envoy", Some(log_ratio))],
    }
}

/// Entries with small noise, and a step of a quarter at entry `step`.
fn stepped(host: &str, count: u64, step: u64) -> Vec<HistoryEntry> {
    let noise = |n: u64| 0.01 * ((n * 7_919 % 13) as f64 / 6.0 - 1.0);
    let level = |n: u64| if n >= step { 0.25_f64.ln_1p() } else { 0.0 };
    (0..count)
        .map(|n| entry(n, host, 1.0 + noise(n) + level(n)))
        .collect()
}

fn of_envoy(all: &[HistorySeries]) -> &HistorySeries {
    all.iter().find(|s| s.key.variant == "envoy").unwrap()
}

#[test]
fn the_table_of_2018_flags_its_build_of_282_and_nothing_else() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/history/istio-2018");
    let history = HistoryDir::read(&dir).unwrap();
    assert!(history.notes.is_empty(), "{:?}", history.notes);
    let all = series(&history.entries, &[], &Margins::default(), TODAY);
    let changes: Vec<_> = all
        .iter()
        .flat_map(|s| s.changes.iter().map(move |c| (s.key.variant.as_str(), c)))
        .collect();
    let [(variant, change)] = changes[..] else {
        panic!("{changes:#?}");
    };
    assert_eq!(variant, "A: Istio full");
    assert_eq!(change.build, "0.8.0-pre20180404-09-15");
    assert_eq!(change.kind, ChangeKind::Outlier);
    let text = render_history(&history.entries, &all, false);
    assert!(text.contains("A: Istio full x0.224 (outlier)"), "{text}");
    assert!(text.contains("  7.74"), "{text}");
    assert!(text.contains("A: Istio full, %"), "{text}");
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
}

#[test]
fn the_patrol_of_ten_releases_is_complete_and_has_no_change() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/history/envoy-2026");
    let history = HistoryDir::read(&dir).unwrap();
    assert!(history.notes.is_empty(), "{:?}", history.notes);
    let builds: std::collections::BTreeSet<_> = history.entries.iter().map(|e| &e.build).collect();
    assert_eq!((history.entries.len(), builds.len()), (11, 10));
    let all = series(&history.entries, &[], &Margins::default(), TODAY);
    // p50, p99, CPU and memory of two meshes.
    assert_eq!(all.len(), 8);
    assert!(
        all.iter()
            .all(|s| s.points.len() == 11 && s.changes.is_empty())
    );
}

#[test]
fn a_step_is_recent_then_lasting_and_an_annotation_silences_it() {
    let kinds = |count: u64| {
        let all = series(&stepped("host", count, 12), &[], &Margins::default(), TODAY);
        let changes = of_envoy(&all).changes.iter();
        changes
            .map(|c| (c.build.clone(), c.kind))
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(12), []);
    assert_eq!(kinds(14), [("build-12".to_owned(), ChangeKind::Recent)]);
    assert_eq!(kinds(15), [("build-12".to_owned(), ChangeKind::Lasting)]);
    assert_eq!(kinds(20), [("build-12".to_owned(), ChangeKind::Lasting)]);
    let entries = stepped("host", 14, 12);
    let known = |muted_until: Option<&str>, accepted: bool| Annotation {
        build: "build-12".to_owned(),
        variant: None,
        what: Some("p50".to_owned()),
        note: "new HTTP codec".to_owned(),
        accepted,
        muted_until: muted_until.map(str::to_owned),
    };
    for (annotation, silent) in [
        (known(None, false), false),
        (known(None, true), true),
        (known(Some("2026-11-26"), false), true),
        (known(Some("2026-11-25"), false), false),
    ] {
        let all = series(&entries, &[annotation], &Margins::default(), TODAY);
        let change = &of_envoy(&all).changes[0];
        assert_eq!(change.silent, silent);
        assert_eq!(change.note.as_deref(), Some("new HTTP codec"));
        assert_eq!(render_badge(&entries, &all).contains("steady"), silent);
    }
}

/// The changes of a series with these levels, each with its number of entries, and little noise: number and kind.
fn changes_of(levels: &[(f64, u64)]) -> Vec<(u64, ChangeKind, bool)> {
    let all = entries_of(levels);
    let all = series(&all, &[], &Margins::default(), TODAY);
    let number = |build: &str| build.trim_start_matches("build-").parse().unwrap();
    let envoy = of_envoy(&all);
    let changes = envoy.changes.iter();
    changes
        .map(|c| (number(&c.build), c.kind, c.ratio > 1.0))
        .collect()
}

fn entries_of(levels: &[(f64, u64)]) -> Vec<HistoryEntry> {
    let logs = levels
        .iter()
        .flat_map(|(log, count)| (0..*count).map(|_| *log));
    let noise = stepped("host", levels.iter().map(|(_, n)| n).sum(), u64::MAX);
    let mut all = noise;
    for (one, log) in all.iter_mut().zip(logs) {
        let figure = &mut one.variants[1].figures[0];
        for end in [&mut figure.log_ratio, &mut figure.low, &mut figure.high] {
            *end = end.map(|end| end + log);
        }
    }
    all
}

#[test]
fn a_change_that_recovered_stays_found_and_is_no_longer_open() {
    let worse = 1.2_f64.ln();
    for before in [4, 15, 200] {
        for slow in [2, 4, 9] {
            for after in [2, 3, 6, 8, 20, 60, 300] {
                let found = changes_of(&[(0.0, before), (worse, slow), (0.0, after)]);
                let found: Vec<_> = found.into_iter().map(|(at, _, up)| (at, up)).collect();
                assert_eq!(
                    found,
                    [(before, true), (before + slow, false)],
                    "{before} {slow} {after}"
                );
            }
        }
    }
    let badge = |levels: &[(f64, u64)]| {
        let entries = entries_of(levels);
        render_badge(&entries, &series(&entries, &[], &Margins::default(), TODAY))
    };
    assert!(badge(&[(0.0, 15), (worse, 4), (0.0, 8)]).contains("steady"));
    assert!(badge(&[(0.0, 15), (worse, 4), (worse / 2.0, 8)]).contains("1 change"));
    assert!(badge(&[(0.0, 15), (-worse, 4), (0.0, 8)]).contains("1 change"));
    assert!(badge(&[(0.0, 15), (-worse, 4)]).contains("steady"));
}

#[test]
fn a_change_is_recent_only_while_it_is_and_open_until_it_is_accepted() {
    let worse = 0.25_f64.ln_1p();
    let kinds = |before, from| {
        let found = changes_of(&[(0.0, before), (worse, from)]);
        found.iter().map(|c| (c.0, c.1)).collect::<Vec<_>>()
    };
    assert_eq!(kinds(5, 9), [(5, ChangeKind::Recent)]);
    assert_eq!(kinds(5, 10), [(5, ChangeKind::Lasting)]);
    assert_eq!(kinds(5, 44), [(5, ChangeKind::Lasting)]);
    let open = |annotations: &[Annotation], from| {
        let entries = entries_of(&[(0.0, 12), (worse, from)]);
        let all = series(&entries, annotations, &Margins::default(), TODAY);
        (
            of_envoy(&all).open.is_some(),
            render_badge(&entries, &all).contains("1 change"),
        )
    };
    let accepted = Annotation {
        build: "build-12".to_owned(),
        variant: None,
        what: None,
        note: "known".to_owned(),
        accepted: true,
        muted_until: None,
    };
    for from in [1, 2, 3, 30] {
        assert_eq!(open(&[], from), (true, true), "{from}");
        let accepted = open(std::slice::from_ref(&accepted), from);
        assert_eq!(accepted, (false, false), "{from}");
    }
}

#[test]
fn few_entries_are_not_called_steady() {
    let mut entries = entries_of(&[(0.0, 11)]);
    for (i, entry) in entries.iter_mut().enumerate() {
        let mut memory = entry.variants[1].figures[0].clone();
        (memory.what, memory.unit) = (Figure::Memory, Unit::Bytes);
        (memory.log_ratio, memory.low, memory.high) = (None, None, None);
        // Up and down in steps, none of which is a level that is clear.
        let percent = [0, 0, 3, 3, 5, 5, -2, -2, 6, 6, 10][i];
        memory.value = Some(80e6 * (1.0 + f64::from(percent) / 100.0));
        entry.variants[1].figures.push(memory);
    }
    let words = |entries: &[HistoryEntry]| {
        let all = series(entries, &[], &Margins::default(), TODAY);
        let text = render_history(entries, &all, false).replace("\n  ", " ");
        (
            text,
            render_badge(entries, &all),
            render_history_page(entries, &all, &[]),
        )
    };
    let (text, badge, page) = words(&entries);
    for text in [&text, &page] {
        let words = "Entries: 11. With fewer than 13 entries, only large changes can be found.";
        assert!(text.contains(words), "{text}");
        assert!(text.contains("memory of envoy x1.06"), "{text}");
    }
    assert!(badge.contains("too few entries"));
    assert!(!page.contains(">steady<") && page.contains(">no change found<"));
    let (text, badge, page) = words(&entries_of(&[(0.0, 13)]));
    assert!(!text.contains("fewer than"), "{text}");
    assert!(badge.contains("steady") && page.contains(">steady<"));
    // A mesh that was added later has fewer entries than the history.
    let mut entries = entries_of(&[(0.0, 20)]);
    for entry in &mut entries[16..] {
        let mut later = entry.variants[1].clone();
        later.name = "envoy/mtls".to_owned();
        entry.variants.push(later);
    }
    let (text, badge, page) = words(&entries);
    for text in [&text, &page] {
        let words = "Entries of envoy/mtls: 4. With fewer than 13 entries,";
        assert!(text.contains(words), "{text}");
    }
    assert!(badge.contains("too few entries"), "{badge}");
    assert!(!page.contains(">steady<"), "{page}");
}

/// Runs `tare history` on entries and annotations: exit code, standard output, standard error.
fn history(entries: &[HistoryEntry], annotations: &str, more: &[&str]) -> (i32, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let folder = HistoryDir::folder(dir.path());
    std::fs::create_dir(&folder).unwrap();
    for entry in entries {
        // Not `add`, which refuses invalid entries.
        let text = serde_json::to_string(entry).unwrap();
        std::fs::write(folder.join(format!("{}.json", entry.id)), text).unwrap();
    }
    std::fs::write(dir.path().join("annotations.yaml"), annotations).unwrap();
    let mut command = Command::new(support::TARE);
    let output = command.arg("history").arg(dir.path()).args(more).output();
    let output = output.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

#[test]
fn history_fails_on_a_change_that_nobody_accepted() {
    let worse = 0.25_f64.ln_1p();
    let fail = ["--fail-on-change"];
    let slow = entries_of(&[(0.0, 12), (worse, 5)]);
    let (code, _, errors) = history(&slow, "", &fail);
    assert_eq!(code, 1, "{errors}");
    for words in [
        "p50 of envoy at 60rps is x1.2",
        " of its best level before, since build build-12 (plan patrol, host host); to accept it, add \
         `- {build: build-12, note: ..., accepted: true}` to ",
    ] {
        assert!(errors.contains(words), "{errors}");
    }
    assert_eq!(history(&slow, "", &[]).0, 0);
    let (code, ..) = history(&slow, "- {build: build-12, note: a, accepted: true}", &fail);
    assert_eq!(code, 0);
    let recovered = entries_of(&[(0.0, 12), (worse, 5), (0.0, 5)]);
    assert_eq!(history(&recovered, "", &fail).0, 0);
    let faster = entries_of(&[(0.0, 12), (-worse, 5)]);
    assert_eq!(history(&faster, "", &fail).0, 0);
}

#[test]
fn annotations_that_cannot_be_or_concern_nothing_are_named_with_their_line() {
    let entries = stepped("host", 17, 12);
    for date in ["Dec 2025", "31.01.2020", "2026-9-1"] {
        let text = format!("# known\n- {{build: build-12, note: a, muted_until: {date}}}\n");
        let (code, _, errors) = history(&entries, &text, &[]);
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains("annotations.yaml:2:"), "{errors}");
    }
    let text = "- {build: 1.22, note: a}\n- {build: build-12, variant: envoi, note: b}\n\
        - {build: build-12, what: p95, note: c}\n- {build: build-12, variant: envoy, what: p50, note: d}\n";
    let (code, shown, errors) = history(&entries, text, &[]);
    assert_eq!(code, 0, "{errors}");
    assert!(shown.contains("(lasting: d)"), "{shown}");
    for words in [
        "annotations.yaml:1: found the build `1.22`",
        "annotations.yaml:2: found the variant `envoi`, expected one of the history; did you mean `envoy`?",
        "annotations.yaml:3: found the figure `p95`",
    ] {
        assert!(errors.contains(words), "{errors}");
    }
    assert!(!errors.contains("annotations.yaml:4"), "{errors}");
}

#[test]
fn an_entry_that_cannot_be_is_skipped_with_its_place_and_the_others_are_shown() {
    let mut entries = stepped("host", 6, 99);
    entries[1].build = "b".repeat(70_000);
    entries[2].variants[1].name = "m".repeat(70_000);
    let figure = |entry: &mut HistoryEntry, change: fn(&mut HistoryFigure)| {
        change(&mut entry.variants[1].figures[0]);
    };
    figure(&mut entries[3], |f| f.low = Some(1e308));
    figure(&mut entries[4], |f| f.unit = Unit::Rps);
    let (code, shown, errors) = history(&entries, "", &[]);
    assert_eq!(code, 0, "{errors}");
    for (number, place) in [
        (1, "build: found 70000 characters"),
        (2, "variants[1].name: found 70000 characters"),
        (3, "variants[1].figures[0].low: found 1e308"),
        (4, "variants[1].figures[0].unit: found `rps`, expected `ns`"),
    ] {
        let words = format!("host-{number}.json: {place}");
        assert!(errors.contains(&words), "{errors}");
    }
    assert!(shown.contains("build-0") && shown.contains("build-5") && !shown.contains("build-3"));
}

#[test]
fn an_entry_that_would_be_skipped_is_not_added() {
    let dir = tempfile::tempdir().unwrap();
    let mut one = entry(1, "host", 1.0);
    let figure = one.variants[1].figures[0].clone();
    one.variants[1].figures.push(figure);
    let error = HistoryDir::add(dir.path(), &one).unwrap_err().to_string();
    let found = "variants[1].figures[1]: found p50 at `60rps` twice, expected it once";
    assert_eq!(error, format!("cannot add the entry host-1: {found}"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn an_outlier_is_one_entry_that_is_far_and_certain() {
    let changes_at = |at: usize, distance: f64, half: f64| {
        let mut entries = stepped("host", 10, 99);
        let figure = &mut entries[at].variants[1].figures[0];
        let log = 1.0 + distance;
        (figure.log_ratio, figure.low, figure.high) =
            (Some(log), Some(log - half), Some(log + half));
        let all = series(&entries, &[], &Margins::default(), TODAY);
        let changes = of_envoy(&all).changes.iter();
        changes
            .map(|c| (c.build.clone(), c.kind))
            .collect::<Vec<_>>()
    };
    let changes = |distance, half| changes_at(4, distance, half);
    // The entry after the outlier is not marked.
    let outlier = [("build-4".to_owned(), ChangeKind::Outlier)];
    assert_eq!(changes(0.2, 0.05), outlier);
    assert_eq!(changes(-0.2, 0.05), outlier);
    // Its interval contains the level of the others; its distance is within the margin.
    assert_eq!(changes(0.2, 0.3), []);
    assert_eq!(changes(-0.2, 0.3), []);
    assert_eq!(changes(0.045, 0.001), []);
    // A single uncertain entry at either end is not marked.
    assert_eq!(changes_at(0, 0.2, 0.3), []);
    assert_eq!(changes_at(9, 0.2, 0.3), []);
}

#[test]
fn an_outlier_is_far_from_its_own_level() {
    let mut entries = stepped("host", 60, 30);
    let mut add = |at: usize, distance: f64| {
        let figure = &mut entries[at].variants[1].figures[0];
        for log in [&mut figure.log_ratio, &mut figure.low, &mut figure.high] {
            *log = log.map(|log| log + distance);
        }
    };
    // One entry is back at the old level: an outlier, although it would be normal before the step.
    add(45, -0.25_f64.ln_1p());
    let all = series(&entries, &[], &Margins::default(), TODAY);
    let changes = of_envoy(&all).changes.iter();
    let changes: Vec<_> = changes.map(|c| (c.build.as_str(), c.kind)).collect();
    let expected = [
        ("build-30", ChangeKind::Lasting),
        ("build-45", ChangeKind::Outlier),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn another_host_is_another_series() {
    // The words of the hosts are the same: only their digests differ.

    let mut entries = stepped("a", 12, 99);
    let slower = stepped("b", 12, 0).into_iter().map(|mut e| {
        e.at_unix_ns += 100;
        e.host = "a".to_owned();
        e
    });
    entries.extend(slower);
    let all = series(&entries, &[], &Margins::default(), TODAY);
    let envoy = all.iter().filter(|s| s.key.variant == "envoy");
    assert_eq!(envoy.clone().count(), 2);
    assert!(all.iter().all(|s| s.changes.is_empty()));
    let text = render_history(&entries, &all, false);
    assert_eq!(text.matches("Median latency at 60rps").count(), 2, "{text}");
    let page = render_history_page(&entries, &all, &[]);
    assert_eq!(page.matches("fill=\"var(--c)\"><title>").count(), 24);
}

#[test]
fn several_writers_lose_nothing_and_a_damaged_entry_is_named_and_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    assert!(
        HistoryDir::read(path)
            .unwrap_err()
            .to_string()
            .contains("tare patrol")
    );
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            scope.spawn(move || {
                for n in 0..25 {
                    HistoryDir::add(path, &entry(n * 4 + writer, "host", 1.0)).unwrap();
                }
            });
        }
    });
    let history = HistoryDir::read(path).unwrap();
    assert_eq!((history.entries.len(), history.notes.len()), (100, 0));
    std::fs::write(path.join("entries/host-7.json"), "{\"schema_version\": 1, ").unwrap();
    std::fs::rename(
        path.join("entries/host-8.json"),
        path.join("entries/other.json"),
    )
    .unwrap();
    let history = HistoryDir::read(path).unwrap();
    assert_eq!(history.entries.len(), 98);
    let notes = history.notes.join("\n");
    assert!(
        notes.contains("host-7.json: damaged")
            && notes.contains("other.json: found the entry host-8"),
        "{notes}"
    );
    std::fs::write(path.join("annotations.yaml"), "- {note: no build}\n").unwrap();
    let error = HistoryDir::read(path).unwrap_err().to_string();
    assert!(
        error.contains("annotations.yaml:1:") && error.contains("`build`"),
        "{error}"
    );
}

#[test]
fn the_page_of_a_thousand_entries_has_all_of_them() {
    let entries = stepped("host", 1_000, 600);
    let all = series(&entries, &[], &Margins::default(), TODAY);
    let [change] = &of_envoy(&all).changes[..] else {
        panic!("{:?}", of_envoy(&all).changes);
    };
    assert_eq!(
        (change.build.as_str(), change.kind),
        ("build-600", ChangeKind::Lasting)
    );
    let page = render_history_page(&entries, &all, &["a <note>".to_owned()]);
    assert_eq!(page.matches("fill=\"var(--c)\"><title>").count(), 1_000);
    assert_eq!(page.matches("<th scope=\"row\">").count(), 1_000);
    assert!(page.contains("a &lt;note&gt;") && page.contains("all 1,000 builds"));
    let (_, earlier) = page.split_once("<tbody class=\"earlier\">").unwrap();
    assert_eq!(earlier.matches("<th scope=\"row\">").count(), 950);
}
