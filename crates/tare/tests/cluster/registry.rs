//! The image of tare in a real registry (CNCF Distribution, with TLS and a password): the archive of `tare image` is
//! pushed there, and each node of a run pulls it from there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::judged::{exit_code, judged, read};
use crate::kubectl::kubectl;
use crate::{cluster, program, start_plan, testbed};

const SECRET: &str = "tare-test-registry";
const REPOSITORY: &str = "team/tare";

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} must be set, as `testbed env` prints it"))
}

/// A pull secret in the namespace `default`. Dropping it removes it.
struct PullSecret;

impl PullSecret {
    fn create(login: &Path) -> Self {
        let config = login.join("config.json");
        let config = format!("--from-file=.dockerconfigjson={}", config.display());
        let create = [
            "create",
            "secret",
            "generic",
            SECRET,
            "--namespace",
            "default",
            &config,
        ];
        let kind = "--type=kubernetes.io/dockerconfigjson";
        assert!(kubectl(&[&create[..], &[kind]].concat()).is_some());
        Self
    }
}

impl Drop for PullSecret {
    fn drop(&mut self) {
        let _ = kubectl(&["delete", "secret", SECRET, "--namespace", "default"]);
    }
}

/// Writes a program that no node has yet: tare with the time behind its end, so its layer has a digest of its own.
fn new_program(scratch: &Path) -> PathBuf {
    let copy = scratch.join("cluster-registry-tare");
    let mut bytes = std::fs::read(program()).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    bytes.extend(now.as_nanos().to_string().bytes());
    std::fs::write(&copy, bytes).unwrap();
    copy
}

/// Pushes an image with this program, as the user of a real registry would, and returns its digest.
fn push(scratch: &Path, image: &Path) -> String {
    let archive = scratch.join("cluster-registry.tar");
    let mut write = Command::new(program());
    write.args(["image", "--program"]).arg(image);
    let written = write.arg("--out").arg(&archive).output().unwrap();
    assert!(written.status.success(), "{written:?}");
    let said = String::from_utf8(written.stderr).unwrap();
    let digest = said.split_whitespace().last().expect(&said);
    let name = format!("{REPOSITORY}:test");
    assert!(testbed(&[
        "image",
        "push",
        &archive.display().to_string(),
        &name
    ]));
    digest.to_owned()
}

/// Returns the addresses of the clients with this name that got a layer or a configuration, from the lines of the
/// registry's log.
fn pulls<'a>(lines: impl Iterator<Item = &'a str>, client: &str) -> BTreeSet<&'a str> {
    let get = format!("\"GET /v2/{REPOSITORY}/blobs/sha256:");
    let of_client =
        lines.filter(|l| l.contains(&get) && l.contains("\" 200 ") && l.contains(client));
    of_client
        .filter_map(|line| line.split(' ').next())
        .collect()
}

#[test]
#[ignore = "needs the testbed with tare's image: make cluster-test"]
fn the_image_is_in_a_registry_and_pulled_by_every_node_of_a_run() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-registry");
    let registry = variable("TESTBED_REGISTRY");
    let login = PathBuf::from(variable("TESTBED_REGISTRY_LOGIN"));
    let log = Path::new(&variable("KUBECONFIG")).with_file_name("logs/registry.log");
    let image = new_program(tmp);
    let digest = push(tmp, &image);
    let name = format!("{registry}/{REPOSITORY}@{digest}");

    let (before, seen) = (cluster(), std::fs::read_to_string(&log).unwrap().len());
    let secret = PullSecret::create(&login);
    let image = format!("kubernetes.image={name}");
    let secrets = format!("kubernetes.image_pull_secrets=[{SECRET}]");
    let sets = [
        "meshes=bare",
        "repeats=1",
        "reruns=0",
        "load.rate=60",
        "load.duration=3s",
        "load.warmup=1s",
        "kubernetes.image_pull_policy=Always",
        &image,
        &secrets,
    ];
    let ended = start_plan("cluster-quick", &dir, &sets).status().unwrap();
    drop(secret);
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let summary = judged(&dir);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    let [trial] = summary.trials.as_slice() else {
        panic!("{:#?}", summary.trials);
    };
    assert!(
        !trial.proofs.is_empty() && trial.proofs.iter().all(|p| p.holds),
        "{trial:#?}"
    );
    let record: Value = read(
        &dir.join("trials")
            .join(&trial.dir)
            .join("config/cluster.json"),
    );
    let images = record["images"].to_string();
    assert!(images.contains(&digest), "no {digest} in {images}");
    // The nodes of the applications and that of the generators.
    let log = std::fs::read_to_string(&log).unwrap();
    let nodes = pulls(log[seen..].lines(), "containerd/");
    assert_eq!(nodes.len(), 3, "{nodes:?} in {}", &log[seen..]);
}
