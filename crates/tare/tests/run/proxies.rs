//! Proxies that a mesh file describes: HAProxy and nginx, one of the user, and configurations that are rigged or wrong.
#![allow(
    clippy::disallowed_methods,
    reason = "notes about skipped tests pass the capture of the test harness"
)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use tare_records::summary::Summary;
use tare_records::trial::{Proof, TrialResult};

use crate::judged;
use crate::programs::{assert_weighed, left_behind, tare};

/// Few requests, because only the proofs are of interest.
const SHORT: [&str; 12] = [
    "--set",
    "load.rate=40",
    "--set",
    "load.connections=4",
    "--set",
    "load.duration=1s",
    "--set",
    "load.warmup=300ms",
    "--set",
    "load.timeout=60s",
    "--set",
    "repeats=1",
];

fn run(dir: &Path, plan: &str, sets: &[&str]) -> Output {
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let mut command = tare(dir);
    command.args(["run", plan, "--out", "out", "--set", "reruns=0"]);
    command.args(SHORT).args(sets).output().unwrap()
}

/// The proofs of the trials of a mesh.
fn proofs(dir: &Path, mesh: &str) -> Vec<Proof> {
    let trials = std::fs::read_dir(dir.join("out/trials")).unwrap();
    let files = trials.map(|t| t.unwrap().path().join("result.json"));
    let results = files.map(|file| judged::read::<TrialResult>(&file));
    let of_mesh = results.filter(|r| r.trial.mesh.name == mesh);
    of_mesh.flat_map(|r| r.proofs).collect()
}

/// The proof with these words in its claim.
fn proof<'a>(proofs: &'a [Proof], words: &str) -> &'a Proof {
    let mut found = proofs.iter().filter(|p| p.claim.contains(words));
    found
        .next()
        .unwrap_or_else(|| panic!("no {words:?} in {proofs:?}"))
}

/// Copies the example for users into `dir`.
fn copy_example(dir: &Path) {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/proxy");
    for file in ["forwarder.py", "mesh.yaml", "plan.yaml"] {
        std::fs::copy(Path::new(example).join(file), dir.join(file)).unwrap();
    }
}

/// Changes a file.
fn change(file: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from:?} in {text}");
    std::fs::write(file, text.replace(from, to)).unwrap();
}

/// Runs the forwarder alone, and checks that its trial is invalid.
fn run_invalid(dir: &Path) -> Output {
    let output = run(
        dir,
        "plan.yaml",
        &["meshes=forwarder", "baseline=forwarder"],
    );
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    output
}

#[test]
fn the_example_of_a_proxy_is_proven_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    copy_example(dir.path());
    let output = run(dir.path(), "plan.yaml", &["meshes=bare,forwarder"]);
    assert_weighed(dir.path(), &output, 2);
    let proofs = proofs(dir.path(), "forwarder");
    let stopped = proof(&proofs, "while a sidecar on its way is stopped");
    // Those of the generator and of two services.
    assert!(stopped.seen.starts_with("3 of 3"), "{stopped:?}");
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

#[test]
fn a_proxy_that_passes_plain_text_on_in_place_of_mutual_tls_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    copy_example(dir.path());
    change(
        &dir.path().join("mesh.yaml"),
        "data_plane: proxy\n",
        "data_plane: proxy\nsettings: {mtls: strict}\n",
    );
    run_invalid(dir.path());
    let proofs = proofs(dir.path(), "forwarder");
    assert!(!proof(&proofs, "refuses plain text").holds, "{proofs:?}");
}

#[test]
fn a_proxy_that_is_left_out_on_one_side_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    copy_example(dir.path());
    // The proxy of the caller connects to the called application, past its proxy.
    let past = "{{ to.servers[0] | replace(':15006', ':15080') }}";
    change(&dir.path().join("mesh.yaml"), "{{ to.servers[0] }}", past);
    run_invalid(dir.path());
    let proofs = proofs(dir.path(), "forwarder");
    let stopped = proof(&proofs, "while a sidecar on its way is stopped");
    let found = "got a response although the sidecar was stopped";
    assert!(
        !stopped.holds && stopped.seen.contains(found),
        "{stopped:?}"
    );
}

#[test]
fn mistakes_in_a_mesh_file_are_named_with_their_place() {
    let dir = tempfile::tempdir().unwrap();
    let errors = |from: &str, to: &str| {
        copy_example(dir.path());
        change(&dir.path().join("mesh.yaml"), from, to);
        let mut command = tare(dir.path());
        let output = command
            .args(["run", "plan.yaml", "--out", "never"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let found = errors("{{ inbound.listen }}", "{{ inbound.listn }}");
    assert!(
        found.contains("`inbound.listn` in the file `routes.txt`, line 2, column 4"),
        "{found}"
    );
    let found = errors("{% endfor %}", "");
    assert!(found.contains("in the file `routes.txt`, line"), "{found}");
    let found = errors("./forwarder.py", "./missing.py");
    assert!(
        found.contains("found no program") || found.contains("./missing.py"),
        "{found}"
    );
    assert!(!dir.path().join("never/trials").exists());
}

#[test]
fn a_proxy_that_ends_at_its_start_is_named_with_its_log() {
    let dir = tempfile::tempdir().unwrap();
    copy_example(dir.path());
    change(
        &dir.path().join("forwarder.py"),
        "asyncio.run(main())",
        "sys.exit('no such setting: burst')",
    );
    let output = run_invalid(dir.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("no such setting: burst"), "{errors}");
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

/// Whether HAProxy and nginx can be had. If not, writes that their test is skipped, which the test harness does not capture.
fn has_debian() -> bool {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let has = runs("apt-get") || (runs("haproxy") && runs("nginx"));
    if !has {
        let words = "proxies: skipped what needs HAProxy and nginx, or apt-get\n";
        std::io::stderr().write_all(words.as_bytes()).unwrap();
    }
    has
}

const COMPARED: &str = "
name: compared
workload: {graph: emojivoto, instances: 1}
mesh_files: [repeats.yaml]
meshes: [haproxy/mtls, nginx/mtls, envoy/mtls, repeats]
baseline: haproxy/mtls
load: {rate: 40}
";

#[test]
fn haproxy_and_nginx_are_proven_with_mutual_tls_and_one_that_repeats_requests_is_refused() {
    if !has_debian() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../meshes/haproxy.yaml");
    let shipped = std::fs::read_to_string(shipped).unwrap();
    let own = shipped.split("# A variant").next().unwrap();
    let own = own.replace("name: haproxy", "name: repeats");
    let own = own.replace("retries 0", "retries 3\n          retry-on 503");
    std::fs::write(dir.path().join("repeats.yaml"), own).unwrap();
    std::fs::write(dir.path().join("plan.yaml"), COMPARED).unwrap();
    let output = run(dir.path(), "plan.yaml", &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let summary: Summary = judged::read(&dir.path().join("out/summary.json"));
    for mesh in ["haproxy/mtls", "nginx/mtls", "envoy/mtls"] {
        let proofs = proofs(dir.path(), mesh);
        let broken = proofs.iter().filter(|p| !p.holds);
        assert_eq!(broken.collect::<Vec<_>>(), Vec::<&Proof>::new(), "{mesh}");
        for claim in [
            "through the sidecars of the caller and of the called service",
            "carries the identity of the caller's certificate",
            "TLS without a certificate is refused",
            "another identity is refused",
            "answered with 503 is not repeated",
            "the sidecars of the called services carried the load",
        ] {
            proof(&proofs, claim);
        }
        let mesh = summary.mesh_trials.iter().find(|m| m.mesh == mesh).unwrap();
        assert!(
            mesh.terms["TLS between pods"].starts_with("TLSv1_3, "),
            "{mesh:?}"
        );
        assert_eq!(mesh.terms["TLS sessions"], "resumed", "{mesh:?}");
    }
    let repeats = proofs(dir.path(), "repeats");
    // Four times on each of two sides.
    let found = proof(&repeats, "answered with 503 is not repeated");
    assert!(
        !found.holds && found.seen.contains("it arrived 16 times"),
        "{found:?}"
    );
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}
