//! Faults during runs on a real cluster. Each must cause an event and the right verdict, and the
//! cluster must be restored. `make cluster-faults` provides the cluster; `make test` does not run
//! these tests.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod gates;
#[path = "../support/kubectl.rs"]
mod kubectl;
mod site;
mod vanishing;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use kubectl::kubectl;
use site::{
    Site, events, expect_event, has, kill, pods, program, read, testbed, wait, wait_for_end,
};
use tare_records::summary::Summary;
use tare_records::trial::{EventKind, ProcessUse, TrialResult};
use tare_records::verdict::{Grade, Reason};

/// Number of planned requests: 10 s at 40 rps.
const PLANNED: u64 = 400;

/// Checks that the records of a trial are complete, and that nothing disturbed it.
fn assert_complete(result: &TrialResult) {
    let load = result.load.as_ref().expect("a load result");
    assert!(load.counts.identity_holds(), "{:?}", load.counts);
    assert_eq!(load.counts.planned, PLANNED);
    let broken = [
        Reason::Restart,
        Reason::Incomplete,
        Reason::Interrupted,
        Reason::Accounting,
        Reason::NotStarted,
    ];
    for reason in broken {
        assert!(!has(result, reason), "{:#?}", result.verdict);
    }
    let resources = result.resources.as_ref().expect("CPU and memory");
    let gone = |p: &&ProcessUse| p.gone_at_ns.is_some();
    let gone: Vec<&ProcessUse> = resources.processes.iter().filter(gone).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

/// Returns a seed with which Istio's trial comes first.
fn istio_first() -> u64 {
    let plan = |seed| {
        let text = format!(
            "name: x\nenvironment: kubernetes\nworkload: {{graph: emojivoto}}\n\
             meshes: [bare, istio/minimal]\nload: {{rate: 1, connections: 1, duration: 1s}}\nrepeats: 1\nseed: {seed}\n"
        );
        let none = |_: &str| Err("no file".to_owned());
        tare_plan::resolve("x", &text, &[], &none).unwrap_or_else(|e| panic!("{e}"))
    };
    (1..100)
        .find(|seed| tare_plan::trial::order(&plan(*seed))[0].mesh.name != "bare")
        .unwrap()
}

/// Waits for a phase of the current trial.
fn wait_for_phase(site: &Site, phase: &str) -> Option<HeldNamespaces> {
    match phase {
        "installing" => wait("istiod's deployment", || {
            kubectl(&["get", "deployment", "istiod", "-n", "istio-system"]).map(drop)
        }),
        "deploying" => wait("the application's deployments", || {
            let found = kubectl(&[
                "get",
                "deployments",
                "-A",
                "--selector",
                "tare.run/id",
                "-o",
                "name",
            ])?;
            found.contains("deployment").then_some(())
        }),
        "proving" => wait("the file that the proof saves", || {
            site.partial()?
                .join("config/cluster.json")
                .exists()
                .then_some(())
        }),
        "measuring" => site.wait_for_records(3),
        _ => {
            // Wait for new records, instead of those of the part that was killed before.
            wait("the trial to begin again", || {
                (site.intervals() == 0).then_some(())
            });
            site.wait_for_records(3);
            let held = HeldNamespaces::hold();
            wait(
                "a terminating namespace after a complete measurement",
                || {
                    let phases = "jsonpath={.items[*].status.phase}";
                    let found = kubectl(&[&OF_TRIALS[..], &["-o", phases]].concat())?;
                    (site.is_measured() && found.contains("Terminating")).then_some(())
                },
            );
            return Some(held);
        }
    }
    None
}

const OF_TRIALS: [&str; 4] = ["get", "namespaces", "--selector", "tare.run/trial"];

/// Namespaces of a trial that a finalizer holds, because they would be deleted within two seconds.
/// Dropping this removes the finalizer.
struct HeldNamespaces(Vec<String>);

impl HeldNamespaces {
    fn hold() -> Self {
        let found = wait("the trial's namespaces", || {
            let found = kubectl(&[&OF_TRIALS[..], &["-o", "name"]].concat())?;
            found.contains("namespace/").then_some(found)
        });
        let held = Self(found.lines().map(str::to_owned).collect());
        assert!(held.set(r#"["tare.run/test"]"#), "{:?}", held.0);
        held
    }

    /// Sets the finalizers. Returns whether this succeeded for all namespaces.
    fn set(&self, finalizers: &str) -> bool {
        let patch = format!(r#"{{"metadata": {{"finalizers": {finalizers}}}}}"#);
        let set = |n: &String| kubectl(&["patch", n, "--type=merge", "--patch", &patch]);
        self.0.iter().filter_map(set).count() == self.0.len()
    }
}

impl Drop for HeldNamespaces {
    fn drop(&mut self) {
        self.set("null");
    }
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_run_killed_in_each_phase_and_resumed_neither_repeats_nor_loses_trials() {
    let site = Site::new("killed", "[bare, istio/minimal]", 1, istio_first());
    for phase in [
        "installing",
        "deploying",
        "proving",
        "measuring",
        "cleaning",
    ] {
        let mut child = site.tare();
        let held = wait_for_phase(&site, phase);
        kill(&mut child);
        assert!(site.trials().is_empty(), "killed while {phase}");
        let left = Command::new(program()).arg("clean").output().unwrap();
        let left = String::from_utf8(left.stderr).unwrap();
        assert!(left.contains("Runs with objects"), "{phase}: {left}");
        drop(held);
    }
    let mut child = site.tare();
    let first = wait("the first trial", || site.trials().first().cloned());
    site.wait_for_records(2);
    kill(&mut child);
    let written = std::fs::metadata(first.join("result.json")).unwrap();
    let mut child = site.tare();
    wait_for_end(&mut child);
    let now = std::fs::metadata(first.join("result.json")).unwrap();
    let stamp = |m: &std::fs::Metadata| (m.ino(), m.mtime(), m.mtime_nsec());
    assert_eq!(stamp(&now), stamp(&written), "the first trial was repeated");
    assert_eq!(site.trials().len(), 2);
    assert!(site.partial().is_none(), "a partial trial is left");
    let summary: Summary = read(&site.dir.join("summary.json"));
    assert_eq!((summary.trials_done, summary.trials_planned), (2, 2));
    for trial in site.trials() {
        assert_complete(&read(&trial.join("result.json")));
    }
    let begun = events(&site.dir);
    expect_event(&begun, EventKind::Resumed, "1 of 2");
    site.cluster_is_as_before();
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_restart_of_the_api_server_does_not_affect_the_trial() {
    let site = Site::new("api", "[bare]", 1, 1);
    let child = site.tare();
    site.wait_for_records(2);
    testbed(&["kill", "kube-apiserver"]);
    let (result, events) = site.only_trial(child);
    assert_complete(&result);
    expect_event(&events, EventKind::ApiServerUnavailable, "sent again");
    site.cluster_is_as_before();
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_log_that_is_cut_off_is_read_again_without_a_loss() {
    let site = Site::new("log", "[bare]", 1, 1);
    let child = site.tare();
    site.wait_for_records(2);
    let (_, _, node) = pods("tare.run/role=generator").remove(0);
    testbed(&["kill", &format!("kubelet@{node}")]);
    let (result, events) = site.only_trial(child);
    assert_complete(&result);
    expect_event(&events, EventKind::LogReread, "generator-");
    site.cluster_is_as_before();
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_killed_generator_is_reported_and_its_trial_is_invalid() {
    let site = Site::new("generator", "[bare]", 1, 1);
    let child = site.tare();
    site.wait_for_records(3);
    let (namespace, pod, _) = pods("tare.run/role=generator").remove(0);
    kubectl(&[
        "delete",
        "pod",
        "-n",
        &namespace,
        &pod,
        "--grace-period=0",
        "--force",
    ])
    .unwrap();
    let (result, events) = site.only_trial(child);
    expect_event(&events, EventKind::Exited, "generator-");
    assert_eq!(result.verdict.grade, Grade::Invalid);
    assert!(has(&result, Reason::Restart), "{:#?}", result.verdict);
    site.cluster_is_as_before();
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_killed_sidecar_is_reported_and_kept_in_the_results() {
    let site = Site::new("sidecar", "[istio/minimal]", 1, 1);
    let child = site.tare();
    site.wait_for_records(3);
    let (namespace, pod, _) = pods("tare.run/role=application,app=emoji").remove(0);
    let in_sidecar = ["exec", "-n", &namespace, &pod, "-c", "istio-proxy", "--"];
    let quit = ["pilot-agent", "request", "POST", "quitquitquit"];
    kubectl(&[&in_sidecar[..], &quit].concat()).expect("Envoy ends");
    let (result, events) = site.only_trial(child);
    expect_event(
        &events,
        EventKind::Exited,
        "emojivoto-0/emoji/sidecar: ended: ",
    );
    assert_eq!(result.verdict.grade, Grade::Invalid);
    assert!(has(&result, Reason::Restart), "{:#?}", result.verdict);
    let resources = result.resources.as_ref().unwrap();
    let all: BTreeMap<&str, _> = resources
        .processes
        .iter()
        .map(|p| (p.name.as_str(), p))
        .collect();
    let gone = all["emojivoto-0/emoji/sidecar"];
    assert!(gone.gone_at_ns.is_some_and(|t| t > 0), "{gone:?}");
    assert!(
        gone.cpu_cores > 0.0 && gone.memory_mean_bytes > 0.0,
        "{gone:?}"
    );
    assert!(all["emojivoto-0/web/sidecar"].gone_at_ns.is_none());
    site.cluster_is_as_before();
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_lost_node_is_reported_and_its_containers_are_kept_in_the_results() {
    let site = Site::new("node", "[bare]", 1, 1);
    let child = site.tare();
    site.wait_for_records(3);
    let (_, _, node) = pods("tare.run/role=application,app=web").remove(0);
    testbed(&["node", "kill", &node]);
    let checked = std::panic::catch_unwind(|| {
        let (result, events) = site.only_trial(child);
        expect_event(&events, EventKind::Exited, &node);
        expect_event(&events, EventKind::RemovedByForce, &node);
        assert_eq!(result.verdict.grade, Grade::Invalid);
        assert!(has(&result, Reason::Restart), "{:#?}", result.verdict);
        let load = result
            .load
            .as_ref()
            .expect("a load result, because the generators are on another node");
        assert!(load.counts.identity_holds() && load.counts.ok > 0);
        let processes = &result.resources.as_ref().unwrap().processes;
        let web = processes
            .iter()
            .find(|p| p.name == "emojivoto-0/web")
            .unwrap();
        assert!(
            web.gone_at_ns.is_some() && web.memory_mean_bytes > 0.0,
            "{web:?}"
        );
    });
    testbed(&["node", "start", &node]);
    if let Err(panic) = checked {
        std::panic::resume_unwind(panic);
    }
    wait("the node to be ready", || {
        let path = "jsonpath={.status.conditions[?(@.type=='Ready')].status} {.spec.taints}";
        let status = kubectl(&["get", "node", &node, "-o", path])?;
        (status.trim() == "True").then_some(())
    });
    site.cluster_is_as_before();
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_full_disk_ends_the_run_with_the_reason_and_the_run_can_be_resumed() {
    let site = Site::new("disk", "[bare]", 2, 1);
    let home = site.dir.parent().unwrap();
    let script = home.join("script.sh");
    // The disk is in a mount namespace of its own, so it is removed when the script ends.
    let text = format!(
        "set -u\ntare={tare} home={home}\nmkdir $home/disk && mount -t tmpfs -o size=32m tmpfs $home/disk || exit 9\n\
         head -c 33500000 /dev/zero >$home/disk/ballast\n\
         $tare run {plan} --out $home/disk/run 2>$home/first.txt >&2\necho $? >$home/first.code\n\
         rm $home/disk/ballast\n\
         $tare run --resume $home/disk/run >&2\n\
         echo $? >$home/second.code\ncp -r $home/disk/run $home/run\n",
        tare = program().display(),
        home = home.display(),
        plan = site.plan_path().display(),
    );
    std::fs::write(&script, text).unwrap();
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh"]).arg(&script);
    assert!(shell.status().unwrap().success());
    let file = |name: &str| std::fs::read_to_string(home.join(name)).unwrap();
    let errors = file("first.txt");
    assert!(errors.contains("No space left on device"), "{errors}");
    assert_eq!(file("first.code").trim(), "3", "{errors}");
    assert_eq!(site.trials().len(), 2);
    for trial in site.trials() {
        assert_complete(&read(&trial.join("result.json")));
    }
    site.cluster_is_as_before();
}
