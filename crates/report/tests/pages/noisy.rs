//! A real run on a noisy host with two cores, in which neighbours took up to half a core: its answers
//! must hold. `runs/noisy-quick.ndjson` has the manifest and the result of each trial, a line each.

#![allow(clippy::unwrap_used, reason = "a test")]

use tare_analysis::StoredTrial;
use tare_analysis::summary::summarise;
use tare_plan::Figure;
use tare_records::layout::RunManifest;
use tare_records::summary::{MeshComparison, Outcome, Ratio, Summary};
use tare_records::trial::TrialResult;

fn noisy() -> Summary {
    let mut lines = include_str!("../runs/noisy-quick.ndjson").lines();
    let manifest: RunManifest = serde_json::from_str(lines.next().unwrap()).unwrap();
    let stored = lines.map(|line| {
        let result: TrialResult = serde_json::from_str(line).unwrap();
        StoredTrial {
            dir: result.trial.dir_name(),
            result,
            seconds: Vec::new(),
            failed_since_s: None,
            calls: None,
        }
    });
    summarise(&manifest, &stored.collect::<Vec<_>>(), Vec::new())
}

/// The number before a word in a text.
fn number_before(text: &str, word: &str) -> f64 {
    let before = text.split_once(word).unwrap().0;
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The sidecars counted each request that left one, the generator's included, over the whole load.
#[test]
fn the_graph_predicts_the_hops_that_the_sidecars_counted() {
    let mut lines = include_str!("../runs/noisy-quick.ndjson").lines();
    let manifest: RunManifest = serde_json::from_str(lines.next().unwrap()).unwrap();
    let workload = &manifest.plan.workload;
    let predicted = workload.graph.requests_per_request(&workload.mix).unwrap();
    let summary = noisy();
    let proofs = summary.trials.iter().flat_map(|t| &t.proofs);
    let mut checked = 0;
    for proof in proofs.filter(|p| p.claim.contains("called services carried the load")) {
        let requests = number_before(&proof.seen, " requests");
        let left = number_before(&proof.seen, " left a sidecar");
        let counted = left / requests;
        // The warm-up ends within a cycle of the endpoints.
        assert!(
            (counted / predicted - 1.0).abs() < 0.01,
            "{counted}, {predicted}"
        );
        checked += 1;
    }
    assert!(checked >= 20, "{checked}");
}

fn ratio<'a>(summary: &'a Summary, mesh: &str, over: &str, load: &str, what: Figure) -> &'a Ratio {
    let same = |c: &&MeshComparison| c.mesh == mesh && c.reference == over && c.load == load;
    let pair = summary.comparisons.iter().find(same).unwrap();
    pair.ratio(what).unwrap()
}

/// Panics unless the ratio and its interval are these, to 1 in the last digit.
fn is(found: &Ratio, expected: [f64; 3]) {
    let values = [Some(found.value), found.low, found.high].map(Option::unwrap);
    for (value, expected) in values.iter().zip(expected) {
        let digit = if expected < 2.0 { 0.01 } else { 0.1 };
        let digit = if expected < 10.0 { digit } else { 1.0 };
        assert!((value - expected).abs() < digit, "{values:?}");
    }
}

#[test]
fn mutual_tls_costs_several_times_the_median_of_bare() {
    let summary = noisy();
    let p50 = ratio(&summary, "envoy/mtls", "bare", "400rps", Figure::P50);
    // By hand: Student's t of the logarithms over blocks 2 to 5.
    is(p50, [7.3, 3.6, 15.0]);
    assert_eq!((p50.outcome, p50.blocks.len()), (Outcome::Different, 4));
    let p99 = ratio(&summary, "envoy/mtls", "bare", "400rps", Figure::P99);
    is(p99, [10.8, 3.7, 31.0]);
    assert_eq!(p99.outcome, Outcome::Different);
    let answer = summary
        .answers
        .iter()
        .find(|a| a.mesh == "envoy/mtls" && a.reference == "bare");
    let text = &answer.unwrap().text;
    for expected in ["the median is at least x3.6, ", "p99 is at least x3.7, "] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn the_disturbed_block_hides_what_mutual_tls_costs_over_plain_proxies() {
    let summary = noisy();
    let p99 = ratio(&summary, "envoy/mtls", "envoy", "200rps", Figure::P99);
    is(p99, [1.24, 1.14, 1.34]);
    assert_eq!((p99.outcome, p99.primary), (Outcome::Different, false));
    let all = &p99.variants[0];
    assert_eq!((all.blocks, all.outcome), (5, Outcome::NotResolved));
    let shown = [Some(all.value), all.low, all.high].map(|x| (x.unwrap() * 100.0).round() / 100.0);
    assert_eq!(shown, [1.43, 0.95, 2.15]);
}

#[test]
fn what_the_run_cannot_tell_is_not_resolved() {
    let summary = noisy();
    for what in [Figure::P50, Figure::P99] {
        let found = ratio(&summary, "envoy/mtls", "envoy", "400rps", what);
        assert_eq!(found.outcome, Outcome::NotResolved);
        let more = found.more_blocks.unwrap();
        assert!(more.low >= 1 && more.high.unwrap() > 20, "{more:?}");
    }
}
