//! Targets for the parsers of files and of other processes' output: histograms, results,
//! records, logs, plans and proxy configurations.

use tare_analysis::history::series;
use tare_analysis::proxy_config;
use tare_analysis::streams::merge::{Part, interval_log, merge};
use tare_plan as plan;
use tare_plan::Margins;
use tare_records::history::{Annotations, HistoryEntry};
use tare_records::record::StreamChecksum;
use tare_stats::Histogram;

/// The counts of an encoded histogram, after a header with their length.
pub fn histogram(data: &[u8]) {
    let mut bytes = Histogram::new().to_v2();
    bytes[4..8].copy_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    let Ok(read) = Histogram::from_v2(&bytes) else {
        return;
    };
    assert_eq!(read.iter().map(|(_, n)| n).sum::<u64>(), read.len());
    let again = Histogram::from_v2(&read.to_v2());
    assert_eq!(again.as_ref(), Ok(&read));
    let wire = Histogram::from_wire(&read.to_wire());
    assert_eq!(wire.as_ref(), Ok(&read));
    let summary = read.summary();
    let ladder = [
        summary.min,
        summary.p50,
        summary.p90,
        summary.p99,
        summary.max,
    ];
    assert!(ladder.is_sorted(), "{ladder:?}");
}

/// A file for `tare merge`: a result, a stream of records, or an interval log.
pub fn merge_file(data: &[u8]) {
    let text = with_its_checksum(&String::from_utf8_lossy(data));
    let Ok(part) = Part::read("a", &text) else {
        return;
    };
    let parts = vec![part];
    if let Ok(log) = interval_log(&parts) {
        let again = Part::read("b", &log).expect("read the log that was just written");
        assert!(interval_log(&[again]).is_ok());
    }
    let allow_missing = true;
    if let Ok(merged) = merge(parts, allow_missing) {
        let counts = merged.result.map(|r| r.counts);
        assert!(counts.is_none_or(|c| c.identity_holds()));
        assert_eq!(merged.latency.count, merged.latency_ns.count);
    }
}

/// The configuration that a proxy returns.
pub fn proxy_config(data: &[u8]) {
    let Ok(kept) = proxy_config::settings("answer", data) else {
        return;
    };
    let values = || kept.settings.values().flatten();
    assert!(values().all(|(value, count)| !value.contains("PRIVATE KEY") && *count > 0));
}

/// Replaces the checksum of a stream's final record with the correct one. Otherwise every
/// mutated stream would fail the check.
fn with_its_checksum(text: &str) -> String {
    const KEY: &str = r#"{"type":"final","checksum":""#;
    let Some(at) = text.rfind(KEY).filter(|at| text[..*at].ends_with('\n')) else {
        return text.to_owned();
    };
    let (before, last) = text.split_at(at);
    let mut checksum = StreamChecksum::default();
    before.lines().for_each(|line| checksum.line(line));
    let tail = last[KEY.len()..].trim_start_matches(|c: char| c.is_ascii_hexdigit());
    format!("{before}{KEY}{}{tail}", checksum.hex())
}

/// A plan's YAML.
pub fn plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let absent = |_: &str| Err("no such file".to_owned());
    match plan::resolve("plan.yaml", text, &[], &absent) {
        Ok(plan) => {
            assert!(plan.trial_count() > 0);
            assert!(plan.estimated_duration_ns() > 0);
            let json = serde_json::to_string(&plan).expect("write the plan as JSON");
            let again: plan::Plan =
                serde_json::from_str(&json).expect("read the plan that was just written");
            assert_eq!(again, plan);
        }
        Err(problems) => {
            assert!(!problems.list().is_empty(), "the list of problems is empty");
            // YAML has more line ends than LF and CR LF, and the message must handle all of them.
            assert!(!problems.to_string().is_empty());
        }
    }
}

/// An entry of a history, and what is found in a history of many of it.
pub fn history_entry(data: &[u8]) {
    let Ok(entry) = serde_json::from_slice::<HistoryEntry>(data) else {
        return;
    };
    let Ok(()) = entry.check() else {
        return;
    };
    let json = serde_json::to_string(&entry).expect("write the entry as JSON");
    let again: HistoryEntry = serde_json::from_str(&json).expect("read the entry again");
    assert_eq!(again, entry);
    let entries = vec![entry; 3];
    for found in series(&entries, &[], &Margins::default(), "2026-12-31") {
        assert_eq!(found.points.len(), entries.len());
    }
}

/// The annotations of a history.
pub fn annotations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Annotations::read("annotations.yaml", text) {
        Ok(found) => drop(found.unknown_names("annotations.yaml", &[])),
        Err(problems) => assert!(!problems.to_string().is_empty()),
    }
}
