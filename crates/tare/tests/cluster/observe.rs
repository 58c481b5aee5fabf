//! `tare observe` on a real cluster, with the rights that it prints, while a run has a mesh on the cluster. A role that
//! somebody else creates in the meantime survives the removal of the mesh.

use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::Duration;

use tare_model::observation::{Observation, Part, Usage};

use crate::account::Account;
use serde_json::Value;

use crate::judged::judged;
use crate::kubectl::kubectl;
use crate::{cluster, command, program};

const ROLE: &str = "istio-of-a-colleague";

/// Observes again until it succeeds, because sidecars exist only during the trial, or the run has ended.
fn observe(run: &mut Child, account: &Account) -> Output {
    loop {
        let mut observe = Command::new(program());
        observe.env("TARE_KUBECONFIG", account.kubeconfig());
        observe.args(["observe", "--requests", "--duration", "45s"]);
        observe.args(["--output", "json"]);
        let output = observe.output().unwrap();
        if output.status.success() || run.try_wait().unwrap().is_some() {
            return output;
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Returns what a user wrote, from the audit log of the API server: verb, resource, and namespace or name.
fn writes(user: &str) -> Vec<String> {
    let kubeconfig = std::env::var("KUBECONFIG").expect("KUBECONFIG must name that of the testbed");
    let log = std::fs::read_to_string(Path::new(&kubeconfig).with_file_name("audit.log")).unwrap();
    let events = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_user = events.filter(|event| event["user"]["username"] == user);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let write = |event: Value| {
        let object = &event["objectRef"];
        let place = match object["namespace"].as_str() {
            Some(namespace) => namespace.to_owned(),
            None => text(&object["name"]),
        };
        format!(
            "{} {} {place}",
            text(&event["verb"]),
            text(&object["resource"])
        )
    };
    of_user.map(write).collect()
}

/// Whether a write concerns only the observation's own namespaces, or asks for the user's own rights.
fn is_of_observation(write: &str) -> bool {
    let mut words = write.split(' ').skip(1);
    let (resource, place) = (words.next().unwrap(), words.next().unwrap());
    place.starts_with("tare-") || resource == "selfsubjectaccessreviews"
}

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn a_mesh_is_observed_and_a_role_of_somebody_else_survives_it() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-observe");
    let _ = kubectl(&["delete", "--ignore-not-found", "clusterrole", ROLE]);
    let before = cluster();
    let account = Account::observer(&program(), &tmp.join("cluster-observer"));
    let sets = [
        "meshes=istio/minimal",
        "baseline=istio/minimal",
        "repeats=1",
        "reruns=0",
        "load.rate=60",
        "load.duration=90s",
        "load.warmup=1s",
    ];
    let run = command("cluster-quick", &dir, &sets).spawn();
    let mut run = run.unwrap();
    let output = observe(&mut run, &account);
    let create = [
        "create",
        "clusterrole",
        ROLE,
        "--verb=get",
        "--resource=pods",
    ];
    let created = kubectl(&create).is_some() && run.try_wait().unwrap().is_none();
    run.wait().unwrap();
    let writes = writes(&account.user());
    drop(account);
    let removed = kubectl(&["delete", "clusterrole", ROLE]).is_some();
    assert!(created, "the run ended before the role was created");
    assert!(removed, "the run removed the role");
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    judged(&dir);
    assert!(
        writes.iter().any(|w| w.starts_with("patch pods tare-")),
        "{writes:#?}"
    );
    let foreign = writes.iter().filter(|w| !is_of_observation(w));
    assert_eq!(foreign.collect::<Vec<_>>(), Vec::<&String>::new());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let observed: Observation = serde_json::from_slice(&output.stdout).unwrap();
    let usage = |part: Part| -> &Usage {
        let found = observed.parts.iter().find(|p| p.part == part);
        &found.unwrap_or_else(|| panic!("{observed:#?}")).total
    };
    for part in [Part::Sidecars, Part::ControlPlane, Part::Applications] {
        let usage = usage(part);
        assert!(usage.pods > 0 && usage.memory_bytes > 0.0, "{observed:#?}");
    }
    assert!(usage(Part::Sidecars).cpu_cores.value > 0.0, "{observed:#?}");
    let requests = usage(Part::Sidecars).requests.as_ref();
    let requests = requests.unwrap_or_else(|| panic!("{observed:#?}"));
    assert!(requests.per_second.value > 0.0, "{observed:#?}");
    assert!(requests.cpu_cores_per_krps.is_some(), "{observed:#?}");
}
