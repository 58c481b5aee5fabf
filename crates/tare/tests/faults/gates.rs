//! Gates on a cluster: of a mesh that tare installs, and in a pod.

use std::path::Path;
use std::process::{Command, Stdio};

use tare_plan::yaml_to_json;
use tare_records::summary::{GateOutcome, Summary, TrialStatus};

use crate::kubectl::kubectl;
use crate::site::{Site, program, read, testbed, wait};

/// The image of the candidate does not exist, so its control plane does not become ready.
#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_candidate_that_cannot_start_is_a_regression_after_two_blocks() {
    let site = Site::new("gate", "[bare]", 1, 1);
    let mut gate = Command::new(program());
    gate.args(["gate", "--reference=istio/minimal"])
        .args(["--candidate=istio/minimal@no-such-tag", "--budget=2h"])
        .args(["--set=kubernetes.ready_within_s=60", "--set=reruns=0"])
        .args(["--set=load.rate=20", "--set=load.duration=3s"])
        .arg(format!("--out={}", site.dir.display()))
        .arg(site.plan_path());
    let ended = gate.stdin(Stdio::null()).status().unwrap();
    let summary: Summary = read(&site.dir.join("summary.json"));
    let found = summary.gate.expect("a gate");
    assert_eq!(found.outcome, Some(GateOutcome::Regressed), "{found:#?}");
    assert_eq!(ended.code(), Some(1));
    for word in ["fails in 2 blocks", "istio-system/istiod"] {
        assert!(found.reason.contains(word), "{}", found.reason);
    }
    assert!(found.questions.iter().all(|q| q.ratio.is_none()));
    let failed = summary.trials.iter();
    let failed = failed.filter(|t| t.status == TrialStatus::Failed);
    assert!(failed.clone().count() >= 2, "{:#?}", summary.trials);
    assert!(failed.clone().all(|t| t.mesh == "candidate"));
    site.cluster_is_as_before();
}

/// The CronJob of docs/gate with images of the testbed's Envoy, the smallest budget with enough responses for p99, and
/// margins that the noise of no machine exceeds. On a busy machine, the gate may end as inconclusive.
#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn the_cron_job_does_not_alarm_for_equal_envoys() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/gate/cronjob.yaml")).unwrap();
    let text = text.replace("REGISTRY/", "localhost/");
    let mut job = yaml_to_json("cronjob.yaml", &text).unwrap_or_else(|e| panic!("{e}"));
    let pod = &mut job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let path = std::env::var_os("PATH").unwrap();
    let mut envoy = std::env::split_paths(&path).map(|dir| dir.join("envoy"));
    let envoy = envoy.find(|file| file.is_file());
    let envoy = envoy.expect("the Envoy of the testbed must be on PATH");
    let envoy = format!("/usr/local/bin/envoy={}", envoy.display());
    let images = [
        &pod["initContainers"][1]["image"],
        &pod["containers"][0]["image"],
    ];
    for image in images {
        let name = format!("docker.io/{}", image.as_str().unwrap());
        testbed(&["image", "programs", &name, &envoy, "/usr/bin/cp=/bin/cp"]);
    }
    let gate = &mut pod["containers"][0];
    // No node of the testbed has two free cores.
    gate["resources"]["requests"]["cpu"] = "1".into();
    let arguments = gate["args"].as_array_mut().unwrap();
    arguments.retain(|a| !a.as_str().unwrap().starts_with("--budget="));
    arguments.extend(["--budget=130s", "--set=load.duration=7s"].map(Into::into));
    arguments.extend(["--set=load.warmup=500ms", "--set=reruns=0"].map(Into::into));
    let figures = ["p50", "p99", "cpu", "memory"];
    arguments.extend(figures.map(|f| format!("--margin={f}=100%").into()));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cronjob.json");
    std::fs::write(&file, job.to_string()).unwrap();
    kubectl(&["apply", "-f", file.to_str().unwrap()]).expect("the CronJob is created");
    kubectl(&["create", "job", "gate-now", "--from=cronjob/mesh-gate"]).expect("its Job");
    let status = "jsonpath={.status.conditions[?(@.status=='True')].type}";
    let ended = wait("the Job to end", || {
        let found = kubectl(&["get", "job", "gate-now", "-o", status])?;
        (found.contains("Complete") || found.ends_with("Failed")).then_some(found)
    });
    let log = kubectl(&["logs", "job/gate-now", "--container=gate"]).unwrap_or_default();
    kubectl(&["delete", "cronjob/mesh-gate", "job/gate-now"]).expect("both are removed");
    let outcome = match ended.contains("Complete") {
        true => "Pass: ",
        false => "Inconclusive: ",
    };
    for words in [outcome, "candidate / reference", "proxy memory"] {
        assert!(log.contains(words), "{ended}: no `{words}` in {log}");
    }
}
