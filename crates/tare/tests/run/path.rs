//! The built-in plan `path` in a short form, with real processes: its proofs, and what it finds. Nothing
//! here depends on how fast the machine is.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::judged::why_and_answers;

/// Trials of each mesh.
const BLOCKS: f64 = 2.0;
/// Connections of the plan's load.
const CONNECTIONS: f64 = 16.0;

fn array<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no {key}"))
}

#[test]
fn the_plan_path_finds_where_the_proxies_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command
        .env("TARE_LOCK_DIR", dir.path().join("lock"))
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .args([
            "run",
            "path",
            "--out",
            "out",
            "--set",
            "repeats=2",
            "--set",
            "reruns=0",
        ])
        // The services must hear of the window before it starts, on a busy machine too.
        .args(["--set", "load.duration=1s", "--set", "load.warmup=2s"])
        .args(["--set", "load.rate=40"]);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let summary = std::fs::read_to_string(dir.path().join("out/summary.json"));
    let summary = summary.unwrap_or_else(|e| panic!("{e}: {printed}{errors}"));
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let trials = array(&summary, "trials");
    assert_eq!(trials.len(), 12);
    for trial in trials {
        let broken = array(trial, "proofs").iter().filter(|p| p["holds"] != true);
        assert_eq!(broken.collect::<Vec<_>>(), Vec::<&Value>::new());
        let calls = dir
            .path()
            .join("out/trials")
            .join(trial["dir"].as_str().unwrap());
        assert!(
            calls.join("calls.json").exists(),
            "{}: {errors}",
            trial["dir"]
        );
    }
    let path = &summary["path"];
    parts_add_up(&array(path, "decompositions")[0]);
    assert!(printed.contains("interaction of both"), "{printed}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    // The path comes first on the page. Without an answer, the reason comes first instead.
    let (none, _) = why_and_answers(&printed);
    let path_is_first = page.find("id=\"path\"").unwrap() < page.find("id=\"answers\"").unwrap();
    assert_eq!(path_is_first, none.is_none(), "{none:?}");
    edges_are_those_of_the_graph(array(path, "edges"));
    sidecars_are_where_they_were_placed(array(path, "services"));
}

fn parts_add_up(decomposition: &Value) {
    let mean = |wanted: &str| {
        let parts = array(decomposition, "parts").iter();
        let mut found = parts.filter(|p| p["part"] == wanted);
        found.next().unwrap()["mean_ns"]["value"].as_f64().unwrap()
    };
    let sum = mean("client") + mean("server") + mean("interaction");
    assert!((sum - mean("whole")).abs() < 1.0, "{decomposition}");
}

/// The caller's view contains the callee's view of the same calls.
fn edges_are_those_of_the_graph(edges: &[Value]) {
    assert_eq!(edges.len(), 6 * 3, "6 meshes with 3 edges");
    for edge in edges {
        let p50 = |side: &str| edge[side]["p50"].as_f64().unwrap();
        assert!(p50("caller") > p50("callee"), "{edge}");
        let counted = |side: &str| edge[side]["count"].as_f64().unwrap();
        // A call on its way as the window starts or ends is in one view only: at each of these times
        // at most one for each connection of the generator.
        let apart = (counted("callee") - counted("caller")).abs();
        assert!(apart <= BLOCKS * CONNECTIONS, "{edge}");
        assert_eq!(edge["added_ns"].is_null(), edge["mesh"] == "bare", "{edge}");
    }
}

fn sidecars_are_where_they_were_placed(services: &[Value]) {
    for service in services {
        let name = service["service"].as_str();
        let expected = match service["mesh"].as_str().unwrap() {
            "bare" => false,
            // The other services make no calls.
            "envoy/client" | "envoy/entry" => [None, Some("web")].contains(&name),
            _ => true,
        };
        assert_eq!(service["sidecar_cores"].is_object(), expected, "{service}");
        let cpu = service["application_cores"]["value"].as_f64().unwrap();
        assert!(cpu > 0.0 && service["application_bytes"]["value"].as_f64() > Some(0.0));
    }
}
