//! A short price list of features as a command, with a feature of the user's own.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::process::Command;

use serde_json::Value;

use crate::judged::why_and_answers;

/// 4,000 rules cost a proxy several times the CPU time of a request, on any machine.
const MESH: &str = "
name: mine
data_plane: envoy-sidecar
variants:
  many-rules:
    title: 4,000 rules of my own
    feature:
      inbound:
        filters:
          - name: envoy.filters.http.rbac
            typed_config:
              '@type': type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC
              rules:
                action: ALLOW
                policies:
                  zz-load: {permissions: [not_rule: {url_path: {path: {exact: /denied}}}], principals: [any: true]}
                  repeat:
                    count: 3999
                    key: rule-{i}
                    value: {permissions: [url_path: {path: {prefix: '/service-{i}/'}}], principals: [any: true]}
      proofs:
        - counter: {name: http.inbound.rbac.allowed, grows: per_inbound_request}
        - request: {path: /denied, status: 403}
";

const PLAN: &str = "
name: short
workload: chain-2
mesh_files: [mine.yaml]
meshes: [envoy, mine/many-rules, features/ext-authz, features/access-log-json]
load: {rate: 100, connections: 4, arrivals: constant, duration: 1s, warmup: 300ms}
repeats: 2
reruns: 0
";

#[test]
fn a_short_price_list_has_the_direction_and_the_proof_of_each_feature() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.yaml"), MESH).unwrap();
    std::fs::write(dir.path().join("short.yaml"), PLAN).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(["run", "short.yaml", "--out", "out"])
        .env("TARE_LOCK_DIR", dir.path().join("lock"))
        .current_dir(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, answers) = why_and_answers(&text);
    assert!(
        answers.starts_with("What each feature adds to envoy at 100 rps"),
        "{text}{errors}"
    );
    let summary = std::fs::read_to_string(dir.path().join("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let list = summary["price_list"]["features"].as_array().unwrap();
    let of = |mesh: &str| list.iter().find(|f| f["mesh"] == mesh).unwrap();

    let rules = of("mine/many-rules");
    assert_eq!(
        list[0]["mesh"], "mine/many-rules",
        "the most expensive is first"
    );
    let cpu = &rules["cpu"];
    assert!(cpu["ratio"].as_f64().unwrap() > 1.5, "{cpu}");
    assert!(cpu["added"]["value"].as_f64().unwrap() > 0.0, "{cpu}");
    for (mesh, on, off) in [
        (
            "mine/many-rules",
            "GET /denied is answered with 403: 403, 403",
            "GET /denied: 404, 404; http.inbound.rbac.allowed is 0",
        ),
        (
            "features/ext-authz",
            "the service authorizer is called: ",
            "cluster.*.ext_authz.ok is 0",
        ),
        (
            "features/access-log-json",
            "filesystem.write_buffered grows with each request: ",
            "filesystem.write_buffered is 0",
        ),
    ] {
        let feature = of(mesh);
        let proofs = feature["proofs"].as_array().unwrap();
        let shown = |p: &Value| p.as_str().unwrap().starts_with(on);
        assert!(proofs.iter().any(shown), "{on:?} not in {proofs:?}");
        assert_eq!(feature["off"], off);
    }

    let trials = std::fs::read_dir(dir.path().join("out/trials")).unwrap();
    let results = trials.map(|t| std::fs::read_to_string(t.unwrap().path().join("result.json")));
    let mut checked = 0;
    for result in results {
        let result: Value = serde_json::from_str(&result.unwrap()).unwrap();
        for proof in result["proofs"].as_array().unwrap() {
            assert_eq!(proof["holds"], true, "{proof}");
            checked += 1;
        }
    }
    assert!(checked > 8 * 6, "{checked} proofs");
}

#[test]
fn a_mistake_in_a_feature_is_reported_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = MESH.replace("rule-{i}", "rule-{number}");
    std::fs::write(dir.path().join("mine.yaml"), mesh).unwrap();
    std::fs::write(dir.path().join("short.yaml"), PLAN).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(["plan", "check", "short.yaml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    let expected = "in `feature`: in `inbound`: unknown template `{number}`";
    assert!(
        errors.contains(expected) && errors.contains("mine.yaml:8:7"),
        "{errors}"
    );
}
