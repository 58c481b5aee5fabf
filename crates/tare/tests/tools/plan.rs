//! `tare plan` as a command.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn tare(args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The write fails for a command that does not read its input, which is allowed.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn good(args: &[&str], input: &str) -> String {
    let output = tare(args, input);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {errors}");
    assert_eq!(errors, "", "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn bad(args: &[&str], input: &str) -> String {
    let output = tare(args, input);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn every_listed_plan_can_be_shown_and_is_valid() {
    let list = good(&["plan", "list"], "");
    let names: Vec<&str> = list
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert!(names.contains(&"quick") && names.is_sorted(), "{names:?}");
    for name in names {
        let shown = good(&["plan", "show", name], "");
        assert!(shown.starts_with('#'), "{name} must begin with a comment");
        let checked = good(&["plan", "check", "-", "--output", "json"], &shown);
        assert_eq!(
            checked,
            good(&["plan", "check", name, "--output", "json"], ""),
            "{name}"
        );
    }
}

#[test]
fn a_checked_plan_is_summarised() {
    let text = good(
        &[
            "plan",
            "check",
            "quick",
            "--set",
            "load.rate=0.5krps",
            "--set",
            "repeats=1",
        ],
        "",
    );
    for part in [
        "ok: quick\n",
        "emojivoto x 2, mix default",
        "bare, envoy, envoy/mtls (baseline bare)",
        "500rps: 500 rps for 4.00 s after 1.00 s, 16 connections",
        "3 in 1 block, in slices, about ",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
}

#[test]
fn a_resolved_plan_is_one_json_document() {
    let text = good(
        &[
            "plan", "check", "smoke", "--output", "json", "--set", "seed=7",
        ],
        "",
    );
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(plan["schema_version"], 1);
    assert_eq!(plan["seed"], 7);
    assert_eq!(plan["loads"][0]["duration_ns"], 1_000_000_000);
}

#[test]
fn the_schema_is_the_published_one() {
    let published = include_str!("../../../../docs/plan.schema.json");
    assert_eq!(good(&["plan", "schema"], ""), published);
}

#[test]
fn paths_in_a_plan_are_relative_to_the_plan() {
    let folder = folder("relative-to-the-plan");
    let plan = folder.join("my.yaml");
    std::fs::write(&plan, "mesh_files: mine.yaml\nmeshes: [bare, mine]\n").unwrap();
    std::fs::write(
        folder.join("mine.yaml"),
        "name: mine\ndata_plane: envoy-sidecar\n",
    )
    .unwrap();
    let text = good(&["plan", "check", plan.to_str().unwrap()], "");
    assert!(text.starts_with("ok: my\n"), "{text}");
    assert!(text.contains("bare, mine"), "{text}");
}

#[test]
fn mistakes_exit_with_2_and_name_their_place() {
    let message = bad(&["plan", "check", "-"], "load:\n  duratoin: 5s\n");
    for part in [
        "<stdin>:2:3",
        "  duratoin: 5s",
        "^^^^^^^^ expected",
        "did you mean `duration`?",
    ] {
        assert!(message.contains(part), "{part:?} is missing in:\n{message}");
    }
    assert!(bad(&["plan", "show", "quik"], "").contains("did you mean `quick`?"));
    assert!(
        bad(&["plan", "check", "no/such.yaml"], "").contains("cannot read the plan no/such.yaml")
    );
}

#[test]
fn a_plan_that_is_not_text_or_too_large_is_rejected() {
    let folder = folder("not-text");
    let binary = folder.join("binary.yaml");
    std::fs::write(&binary, b"name: \xff\xfe\n").unwrap();
    assert!(
        bad(&["plan", "check", binary.to_str().unwrap()], "").contains("byte 7 is not valid UTF-8")
    );
    let long = folder.join("long.yaml");
    std::fs::write(&long, "#".repeat(300_000)).unwrap();
    assert!(bad(&["plan", "check", long.to_str().unwrap()], "").contains("larger than 256 KiB"));
    assert!(bad(&["plan", "check", folder.to_str().unwrap()], "").contains("cannot read the plan"));
}

#[test]
fn request_bodies_too_large_with_the_cluster_file_are_rejected_before_any_request() {
    let folder = folder("bodies");
    let (plan, cluster) = (folder.join("plan.yaml"), folder.join("cluster.yaml"));
    let text = "environment: kubernetes\nworkload: {graph: {name: g, \
        services: [{name: a, protocol: grpc, endpoints: [{path: Get}]}], \
        mixes: [{name: default, endpoints: [{name: get, service: a, path: Get, request_bytes: 300000}]}]}}\n\
        meshes: [bare]\n";
    std::fs::write(&plan, text).unwrap();
    std::fs::write(&cluster, "generators: 2\n").unwrap();
    let (plan, cluster) = (plan.to_str().unwrap(), cluster.to_str().unwrap());
    let role = ["doctor", "--rbac", "--plan", plan, "--cluster", cluster];
    assert!(good(&role, "").contains("ClusterRole"));
    std::fs::write(cluster, "generators: 8\n").unwrap();
    let message = bad(&role, "");
    assert!(
        message.contains("request bodies take 2400000 bytes"),
        "{message}"
    );
}

#[test]
fn the_role_of_the_deep_checks_is_printed_only_with_them() {
    let deep = good(&["doctor", "--rbac", "--deep"], "");
    assert!(
        deep.contains("name: tare-deep") && deep.contains("endpointslices"),
        "{deep}"
    );
    assert!(!good(&["doctor", "--rbac"], "").contains("endpointslices"));
}
