//! Sweeps with more levels than they had at first.

use super::good;
use crate::graph::builtin;
use crate::plan::{FactorKind, Plan, extend};
use crate::trial::{TrialSpec, block_order, order};

fn payload() -> Plan {
    let text = "workload: echo\nmeshes: [bare, envoy]\nload: {rate: 50, connections: 4, duration: 2s}\n\
                repeats: 3\nvary: {response_bytes: [1KiB, 16KiB, 0]}";
    good(text, &[])
}

fn names(plan: &Plan, block: u32) -> Vec<String> {
    let trials = block_order(plan, block, 0);
    let mut names: Vec<String> = trials.iter().map(|t| t.load.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn labels(plan: &Plan) -> Vec<&str> {
    let levels = plan.sweep.as_ref().unwrap().factors[0].levels.iter();
    levels.map(|l| l.label.as_str()).collect()
}

#[test]
fn an_extension_adds_blocks_with_the_anchor_and_the_new_levels() {
    let plan = payload();
    let extended = extend(&plan, "response_bytes=64KiB,4KiB").unwrap();
    assert_eq!(extended.repeats, 6);
    assert_eq!(
        names(&extended, 0),
        ["response=0", "response=16KiB", "response=1KiB"]
    );
    let new = ["response=1KiB", "response=4KiB", "response=64KiB"];
    assert_eq!(names(&extended, 5), new);
    assert!(block_order(&extended, 6, 0).is_empty());
    // The anchor stays first, the others are in order.
    assert_eq!(labels(&extended), ["1KiB", "0", "4KiB", "16KiB", "64KiB"]);
    let load = &extended.loads[3];
    assert_eq!(
        (load.name.as_str(), load.connections),
        ("response=64KiB", 4)
    );
    let workload = extended.workload_of(load);
    assert_eq!(
        workload.graph.services[0].endpoints[0].response_bytes,
        64 << 10
    );
    assert_eq!(extended.trial_count(), 2 * 3 * 3 * 2);
    let groups = extended.block_groups();
    assert_eq!(
        extended.estimated_duration_ns(),
        plan.estimated_duration_ns() + extended.estimated_duration_of_ns(&groups[1])
    );
    extended.check_names().unwrap();
    let json = serde_json::to_string(&extended).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), extended);
}

#[test]
fn no_earlier_trial_changes_and_no_index_is_used_twice() {
    let mut plan = payload();
    plan.reruns = 2;
    let once = extend(&plan, "response_bytes=64KiB").unwrap();
    let twice = extend(&once, "response_bytes=[128KiB, 256KiB]").unwrap();
    let all = |plan: &Plan| -> Vec<TrialSpec> {
        let attempts = (0..plan.repeats).flat_map(|b| (0..=2).map(move |a| (b, a)));
        attempts
            .flat_map(|(b, a)| block_order(plan, b, a))
            .collect()
    };
    let (first, second, third) = (all(&plan), all(&once), all(&twice));
    assert_eq!(second[..first.len()], first);
    assert_eq!(third[..second.len()], second);
    let mut indices: Vec<u32> = third.iter().map(|t| t.index).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), third.len());
    // Each extension has as many blocks as the plan at first.
    assert_eq!((once.repeats, twice.repeats), (6, 9));
    assert_eq!(
        names(&twice, 8),
        ["response=128KiB", "response=1KiB", "response=256KiB"]
    );
    assert_eq!(order(&twice).len() as u64, twice.trial_count());
    // Blocks of the same load and block have the same arrivals for all meshes.
    for trial in &third {
        let same = |o: &&TrialSpec| {
            (o.block, o.attempt, &o.load.name) == (trial.block, trial.attempt, &trial.load.name)
        };
        assert!(third.iter().filter(same).all(|o| o.seed == trial.seed));
    }
}

#[test]
fn the_other_factors_keep_their_levels() {
    let text = "workload: chain-2\nmeshes: bare\nload: {connections: 8}\n\
                vary: {depth: [1, 3], connections: [8, 32], response_bytes: [2KiB, 4KiB]}";
    let plan = good(text, &[]);
    let alone = extend(&plan, "depth=5").unwrap();
    assert_eq!(names(&alone, 9), ["anchor", "depth=5"]);
    let sizes = |plan: &Plan, load: &str| -> Vec<u32> {
        let load = plan.loads.iter().find(|l| l.name == load).unwrap();
        let services = plan.workload_of(load).graph.services.iter();
        services.map(|s| s.endpoints[0].response_bytes).collect()
    };
    assert_eq!(sizes(&alone, "depth=5"), [2048; 5]);

    // Every other level is there with the anchor and with the new level.
    let full = good(text, &["vary.design=full"]);
    let full = extend(&full, "depth=5").unwrap();
    let new = [
        "depth=1,response=2KiB,connections=32",
        "depth=1,response=2KiB,connections=8",
        "depth=1,response=4KiB,connections=32",
        "depth=1,response=4KiB,connections=8",
        "depth=5,response=2KiB,connections=32",
        "depth=5,response=2KiB,connections=8",
        "depth=5,response=4KiB,connections=32",
        "depth=5,response=4KiB,connections=8",
    ];
    assert_eq!(names(&full, 9), new);
    assert_eq!(sizes(&full, new[6]), [4096; 5]);
    let last = full.loads.iter().find(|l| l.name == new[6]).unwrap();
    assert_eq!(last.connections, 32);
    let levels = &full.sweep.as_ref().unwrap().loads[new[6]];
    assert_eq!(levels[&FactorKind::Depth], "5");
    assert_eq!(levels[&FactorKind::ResponseBytes], "4KiB");
    full.check_names().unwrap();
    // As if the level had been there from the start.
    let planned = good(&text.replace("[1, 3]", "[1, 5]"), &["vary.design=full"]);
    let same = planned.loads.iter().find(|l| l.name == new[6]).unwrap();
    assert_eq!(same, last);
    assert_eq!(planned.workload_of(same), full.workload_of(last));
    assert_eq!(builtin("chain-5").unwrap().services.len(), 5);
}

#[test]
fn what_cannot_be_added_is_an_error() {
    let sweep = payload();
    let no_sweep = good("workload: echo\nmeshes: bare", &[]);
    let text =
        "workload: echo\nmeshes: envoy\nvary: {rate: [100, 200], mesh: {mtls: [off, strict]}}";
    let of_meshes = good(text, &[]);
    let threads = "workload: echo\nmeshes: bare\nload: {threads: 4, connections: 8}\n\
                   vary: {connections: [8, 16]}";
    let threads = good(threads, &[]);
    for (plan, vary, expected) in [
        (&no_sweep, "rate=300", "the plan `plan` is not a sweep"),
        (
            &sweep,
            "rate=300",
            "the sweep does not have the factor `rate`",
        ),
        (&sweep, "rate=300", "expected `response_bytes`"),
        (
            &sweep,
            "response_bytes=4KiB,16384",
            "the sweep has the level 16KiB of `response_bytes`",
        ),
        (
            &sweep,
            "response_bytes=4KiB,4096",
            "found the level 4KiB of `response_bytes` twice",
        ),
        (
            &sweep,
            "response_bytes=1GiB",
            "expected at most 16777216 bytes",
        ),
        (&sweep, "response=1KiB", "unknown key `response`"),
        (
            &sweep,
            "response_bytes",
            "like `response_bytes=512KiB,1MiB`",
        ),
        (&sweep, "response_bytes=", "found nothing after `=`"),
        (&sweep, "design=full", "found 0 factors"),
        (
            &of_meshes,
            "mesh.mtls=server",
            "`mesh.mtls` is a setting of meshes",
        ),
        (&threads, "connections=2", "4 threads with 2 connections"),
    ] {
        let error = extend(plan, vary).unwrap_err().to_string();
        assert!(error.contains(expected), "{vary}: {error}");
        assert!(error.contains(&format!("| --vary {vary}")), "{error}");
    }
    let mut many = sweep;
    many.repeats = 1000;
    many.meshes = vec![many.meshes[0].clone(); 2];
    let error = extend(&many, "response_bytes=1,2,3,4")
        .unwrap_err()
        .to_string();
    assert!(error.contains("16000 trials"), "{error}");
}

#[test]
fn groups_of_blocks_that_do_not_fit_the_plan_are_an_error() {
    let extended = extend(&payload(), "response_bytes=64KiB").unwrap();
    let mut changed = extended.clone();
    changed.repeats = 7;
    let error = changed.check_names().unwrap_err();
    assert_eq!(error, "found 6 blocks in `block_groups`, expected 7");
    let mut changed = extended;
    let groups = &mut changed.block_groups;
    groups[1].loads.push("other".to_owned());
    let error = changed.check_names().unwrap_err();
    assert!(error.contains("found `other` in `block_groups`"), "{error}");
}
