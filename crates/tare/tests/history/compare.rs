//! `tare compare`, `tare report --method` and `tare plan mde` as commands.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;
use std::process::{Command, Output};

const PLAN: &str = "meshes: [bare, envoy]
load: {rate: 100, duration: 1s, warmup: 0s}
repeats: 3
";

fn tare(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(args)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Makes a run in virtual time and returns its directory.
fn run(dir: &Path, name: &str, seed: u64) -> String {
    let out = dir.join(name);
    tare_fake::run_text(&out, PLAN, &[&format!("seed={seed}")]);
    out.to_str().unwrap().to_owned()
}

#[test]
fn two_runs_are_compared_and_thresholds_decide_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (run(dir.path(), "before", 1), run(dir.path(), "after", 2));
    let compare = |more: &[&str]| {
        let mut args = vec!["compare", before.as_str(), after.as_str()];
        args.extend(more);
        tare(&args)
    };
    let plain = compare(&[]);
    assert_eq!(plain.status.code(), Some(0), "{plain:?}");
    assert!(
        text(&plain).contains("envoy at 100rps, 3 and 3 blocks"),
        "{plain:?}"
    );
    assert!(
        !text(&plain).contains('\x1b'),
        "found colours without a terminal"
    );

    let kept = compare(&["--fail-above", "p50:+500%"]);
    assert_eq!(kept.status.code(), Some(0), "{kept:?}");
    let limit = ["--fail-above", "memory:+0%", "--fail-by", "estimate"];
    let found: serde_json::Value =
        serde_json::from_slice(&compare(&[&limit[..], &["--output", "json"]].concat()).stdout)
            .unwrap();
    let result = |t: &serde_json::Value| t["result"].as_str().unwrap().to_owned();
    let rose = found["thresholds"][0]["found"].as_f64().unwrap() > 0.0;
    let expected = if rose { "exceeded" } else { "not_exceeded" };
    assert_eq!(result(&found["thresholds"][0]), expected);
    // Of two runs, one has the higher median, unless they are the same to the nanosecond.
    let by_estimate = |first: &str, second: &str| {
        let limit = ["--fail-above", "p50:+0%", "--fail-by", "estimate"];
        tare(&[&["compare", first, second], &limit[..]].concat())
            .status
            .code()
    };
    let both = [by_estimate(&before, &after), by_estimate(&after, &before)];
    assert!(both.contains(&Some(1)), "{both:?}");

    let markdown = text(&compare(&["--output", "markdown"]));
    assert!(markdown.contains("| envoy | 100rps | p50 |"), "{markdown}");

    // Nobody measured p99.99 in a second at 100 rps.
    let absent = compare(&["--fail-above", "p99.99:+5%"]);
    assert_eq!(absent.status.code(), Some(2), "{absent:?}");
    let error = String::from_utf8_lossy(&absent.stderr);
    let needed =
        "neither run has this figure; p99.99 needs at least 29,956 responses in each trial";
    assert!(error.contains(needed), "{error}");

    let wrong = compare(&["--fail-above", "p98:+5%"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("one of p50, ratio_p50, p90"),
        "{wrong:?}"
    );
}

/// Makes a run with these settings of the plan.
fn run_with(dir: &Path, name: &str, sets: &[&str]) -> String {
    let out = dir.join(name);
    tare_fake::run_text(&out, PLAN, sets);
    out.to_str().unwrap().to_owned()
}

#[test]
fn runs_of_different_workloads_or_with_nothing_in_common_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let before = run_with(dir.path(), "before", &[]);
    let slower = run_with(dir.path(), "slower", &["load.connections=2"]);
    let refused = tare(&["compare", &before, &slower]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        error.contains("the load 100rps: connections: ")
            && error.contains("--allow-different-workload"),
        "{error}"
    );
    let allowed = tare(&["compare", &before, &slower, "--allow-different-workload"]);
    assert_eq!(allowed.status.code(), Some(0), "{allowed:?}");
    assert!(
        text(&allowed).contains("warning: the load 100rps: connections: "),
        "{allowed:?}"
    );

    let faster = run_with(dir.path(), "faster", &["load.rate=200"]);
    for output in ["text", "json", "markdown"] {
        let nothing = tare(&["compare", &before, &faster, "--output", output]);
        assert_eq!(nothing.status.code(), Some(2), "{nothing:?}");
        assert!(nothing.stdout.is_empty(), "{nothing:?}");
        let error = String::from_utf8_lossy(&nothing.stderr);
        assert!(
            error.contains("nothing to compare") && error.contains("envoy at 200rps"),
            "{error}"
        );
    }
}

#[test]
fn a_run_is_summarised_by_a_published_method_and_gives_the_detectable_effect() {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path(), "run", 1);
    let method = tare(&["report", &run, "--method", "kinvolk-2019", "--published"]);
    assert_eq!(method.status.code(), Some(0), "{method:?}");
    let shown = text(&method);
    assert!(
        shown.starts_with("By the method of kinvolk-2019: median"),
        "{shown}"
    );
    assert!(shown.contains("Kinvolk, May 2019"), "{shown}");
    assert_eq!(
        tare(&["report", &run, "--method", "best"]).status.code(),
        Some(2)
    );
    let mde = tare(&["plan", "mde", "--from", &run, "--blocks", "3,12"]);
    assert!(text(&mde).contains("12 blocks"), "{mde:?}");
    assert_eq!(
        tare(&["plan", "mde", "--from", "nowhere"]).status.code(),
        Some(2)
    );
}
