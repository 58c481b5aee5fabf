//! Containers that the kernel ends for their memory, and pods that are evicted.

use std::collections::BTreeMap;

use tare_model::trial::{Event, EventKind, ProcessUse, TrialResult};
use tare_model::verdict::{Grade, Reason};

use crate::kubectl::kubectl;
use crate::site::{Site, has, pods, said, testbed, wait};

/// The trial is invalid; what vanished in mid-window has what it used until then, and
/// everything else is still there.
fn stay_in_the_figures(result: &TrialResult, vanished: &[&str]) {
    assert_eq!(result.verdict.grade, Grade::Invalid);
    assert!(has(result, Reason::Restart), "{:#?}", result.verdict);
    let resources = result.resources.as_ref().expect("CPU and memory");
    let all: BTreeMap<&str, &ProcessUse> = resources
        .processes
        .iter()
        .map(|p| (p.name.as_str(), p))
        .collect();
    for name in vanished {
        let gone = all[name];
        let at_ns = gone.gone_at_ns.expect("an instant");
        assert!(at_ns > 0 && at_ns.unsigned_abs() < resources.window_ns);
        assert!(
            gone.cpu_cores > 0.0 && gone.memory_mean_bytes > 0.0,
            "{gone:?}"
        );
    }
    let others = || {
        all.values()
            .filter(|p| !vanished.contains(&p.name.as_str()))
    };
    assert!(others().count() > 0);
    assert!(others().all(|p| p.gone_at_ns.is_none()), "{all:#?}");
    let load = result.load.as_ref().expect("a load");
    assert!(load.counts.identity_holds(), "{:?}", load.counts);
}

/// How a container of a pod has ended, as the cluster says, once it has: id, reason, exit code.
fn last_end(namespace: &str, pod: &str, container: &str) -> Option<(String, String, String)> {
    let last = format!("[?(@.name=='{container}')].lastState.terminated");
    let mut form = String::from("jsonpath=");
    for list in ["initContainerStatuses", "containerStatuses"] {
        let of = format!(".status.{list}{last}");
        form += &format!("{{{of}.containerID}} {{{of}.reason}} {{{of}.exitCode}} ");
    }
    let text = kubectl(&["get", "pod", "-n", namespace, pod, "--output", &form])?;
    let mut words = text.split_whitespace().map(str::to_owned);
    Some((words.next()?, words.next()?, words.next()?))
}

/// The id of a container that runs, without the runtime's name.
fn id(namespace: &str, pod: &str, container: &str) -> String {
    let of = |list| format!("{{.status.{list}[?(@.name=='{container}')].containerID}}");
    let form = format!(
        "jsonpath={}{}",
        of("initContainerStatuses"),
        of("containerStatuses")
    );
    let text = kubectl(&["get", "pod", "-n", namespace, pod, "--output", &form]).unwrap();
    text.rsplit('/').next().unwrap().to_owned()
}

/// Fills what a container's limit leaves with a file in memory, which the kernel cannot take
/// back: it ends the greatest process in the container. The writer belongs to the
/// container's control group only, and the file is gone with its mount namespace.
const FILL: &str = r#"set -eu
for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
  group=$(find $root -type d -name "*$1*" 2>/dev/null | head -n 1)
  [ -z "$group" ] || break
done
limit=$(cat $group/memory.limit_in_bytes 2>/dev/null || cat $group/memory.max)
[ "$limit" -le 1073741824 ] || { echo "found the limit $limit, expected the plan's" >&2; exit 1; }
unshare --mount sh -c "mount -t tmpfs tmpfs /mnt && echo \$\$ >$group/cgroup.procs && exec head -c $limit /dev/zero >/mnt/ballast" || true
"#;

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_sidecar_that_runs_out_of_memory_is_named_with_the_kernels_verdict_and_stays_in_the_figures() {
    let limited = "{name: istio/limited, mesh: istio/minimal, kubernetes: {join: {pod_annotations: \
        {sidecar.istio.io/proxyMemoryLimit: 128Mi}}}}";
    let site = Site::new("memory", &format!("[{limited}]"), 1, 1);
    let child = site.tare();
    site.measured(3);
    let (namespace, pod, node) = pods("tare.run/role=application,app=emoji").remove(0);
    let was = id(&namespace, &pod, "istio-proxy");
    testbed(&["exec", &node, "sh", "-c", FILL, "fill", &was]);
    let (ended, reason, code) = wait("the container's end", || {
        last_end(&namespace, &pod, "istio-proxy")
    });
    assert!(ended.ends_with(&was), "{ended} ended, not {was}");
    assert_eq!(reason, "OOMKilled");
    let (result, events) = site.only_trial(child);
    let how = format!("emojivoto-0/emoji/sidecar: ended: OOMKilled, exit code {code}");
    let told = said(&events, EventKind::Exited, &how);
    assert!(told.found.contains(&pod), "{told:?}");
    assert!(told.found.contains("istio-proxy"), "{told:?}");
    stay_in_the_figures(&result, &["emojivoto-0/emoji/sidecar"]);
    site.cluster_is_as_before();
}

/// Evicts a pod as `kubectl drain` does.
fn evict(site: &Site, namespace: &str, pod: &str) {
    let file = site.dir.with_file_name("eviction.json");
    let text = format!(
        r#"{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{pod}", "namespace": "{namespace}"}}}}"#
    );
    std::fs::write(&file, text).unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
    let file = file.to_str().unwrap();
    kubectl(&["create", "--raw", &path, "-f", file]).expect("the pod is evicted");
}

const EVICTED: &str = "; its pod was evicted (EvictionByEvictionAPI: ";

fn is_evicted(events: &[Event], name: &str, pod: &str) {
    let told = said(events, EventKind::Exited, &format!("{name}: "));
    assert!(told.found.contains(EVICTED), "{told:?}");
    assert!(told.found.contains(pod), "{told:?}");
}

/// A service's pod is evicted in mid-trial; these are what goes with it.
fn evicted_in_mid_trial(name: &str, mesh: &str, gone: &[&str]) {
    let site = Site::new(name, &format!("[{mesh}]"), 1, 1);
    let child = site.tare();
    site.measured(3);
    let (namespace, pod, _) = pods("tare.run/role=application,app=emoji").remove(0);
    evict(&site, &namespace, &pod);
    let (result, events) = site.only_trial(child);
    for name in gone {
        is_evicted(&events, name, &pod);
    }
    stay_in_the_figures(&result, gone);
    site.cluster_is_as_before();
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_pod_that_is_evicted_is_named_and_its_containers_stay_in_the_figures() {
    evicted_in_mid_trial("evicted", "bare", &["emojivoto-0/emoji"]);
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_pod_that_is_evicted_with_its_sidecar_is_named_and_both_stay_in_the_figures() {
    let gone = ["emojivoto-0/emoji", "emojivoto-0/emoji/sidecar"];
    evicted_in_mid_trial("evicted-sidecar", "istio/minimal", &gone);
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn a_generator_that_is_evicted_is_named_and_its_trial_is_invalid() {
    let site = Site::new("evicted-generator", "[bare]", 1, 1);
    let child = site.tare();
    site.measured(3);
    let (namespace, pod, _) = pods("tare.run/role=generator").remove(0);
    evict(&site, &namespace, &pod);
    let (result, events) = site.only_trial(child);
    let told = said(&events, EventKind::Exited, "generator-");
    assert!(told.found.contains(EVICTED), "{told:?}");
    assert_eq!(result.verdict.grade, Grade::Invalid);
    assert!(has(&result, Reason::Restart), "{:#?}", result.verdict);
    site.cluster_is_as_before();
}
