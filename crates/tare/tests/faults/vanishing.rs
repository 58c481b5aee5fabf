//! Containers that the kernel kills for their memory use, and pods that are evicted.

use std::collections::BTreeMap;

use tare_records::trial::{Event, EventKind, ProcessUse, TrialResult};
use tare_records::verdict::{Grade, Reason};

use crate::kubectl::kubectl;
use crate::site::{Site, expect_event, has, pods, testbed, wait};

/// Checks that the trial is invalid, that the results contain what the vanished processes used
/// until their end in the window, and that all others are complete.
fn assert_kept_in_results(result: &TrialResult, vanished: &[&str]) {
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
        let at_ns = gone.gone_at_ns.expect("the instant of its end");
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
    let load = result.load.as_ref().expect("a load result");
    assert!(load.counts.identity_holds(), "{:?}", load.counts);
}

/// Returns how a container of a pod ended, by the cluster's record: id, reason, exit code. `None`
/// if it has not ended.
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

/// Returns the id of a running container, without the name of the runtime.
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

/// Script that fills a container's memory up to its limit with a file in memory. The kernel cannot
/// reclaim this memory, so it kills the largest process in the container. The writer is only in the
/// container's control group, and the file is deleted with its mount namespace.
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
fn a_sidecar_out_of_memory_is_reported_as_oom_killed_and_kept_in_the_results() {
    let limited = "{name: istio/limited, mesh: istio/minimal, kubernetes: {join: {pod_annotations: \
        {sidecar.istio.io/proxyMemoryLimit: 128Mi}}}}";
    let site = Site::new("memory", &format!("[{limited}]"), 1, 1);
    let child = site.tare();
    site.wait_for_records(3);
    let (namespace, pod, node) = pods("tare.run/role=application,app=emoji").remove(0);
    let was = id(&namespace, &pod, "istio-proxy");
    testbed(&["exec", &node, "sh", "-c", FILL, "fill", &was]);
    let (ended, reason, code) = wait("the container to end", || {
        last_end(&namespace, &pod, "istio-proxy")
    });
    assert!(ended.ends_with(&was), "{ended} ended, expected {was}");
    assert_eq!(reason, "OOMKilled");
    let (result, events) = site.only_trial(child);
    let how = format!("emojivoto-0/emoji/sidecar: ended: OOMKilled, exit code {code}");
    let event = expect_event(&events, EventKind::Exited, &how);
    assert!(event.found.contains(&pod), "{event:?}");
    assert!(event.found.contains("istio-proxy"), "{event:?}");
    assert_kept_in_results(&result, &["emojivoto-0/emoji/sidecar"]);
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

fn assert_evicted(events: &[Event], name: &str, pod: &str) {
    let event = expect_event(events, EventKind::Exited, &format!("{name}: "));
    assert!(event.found.contains(EVICTED), "{event:?}");
    assert!(event.found.contains(pod), "{event:?}");
}

/// Runs a trial in which a service's pod is evicted, and checks that these processes end with it.
fn evict_during_trial(name: &str, mesh: &str, gone: &[&str]) {
    let site = Site::new(name, &format!("[{mesh}]"), 1, 1);
    let child = site.tare();
    site.wait_for_records(3);
    let (namespace, pod, _) = pods("tare.run/role=application,app=emoji").remove(0);
    evict(&site, &namespace, &pod);
    let (result, events) = site.only_trial(child);
    for name in gone {
        assert_evicted(&events, name, &pod);
    }
    assert_kept_in_results(&result, gone);
    site.cluster_is_as_before();
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn an_evicted_pod_is_reported_and_its_container_is_kept_in_the_results() {
    evict_during_trial("evicted", "bare", &["emojivoto-0/emoji"]);
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn an_evicted_pod_with_a_sidecar_is_reported_and_both_containers_are_kept_in_the_results() {
    let gone = ["emojivoto-0/emoji", "emojivoto-0/emoji/sidecar"];
    evict_during_trial("evicted-sidecar", "istio/minimal", &gone);
}

#[test]
#[ignore = "needs the testbed: make cluster-faults"]
fn an_evicted_generator_is_reported_and_its_trial_is_invalid() {
    let site = Site::new("evicted-generator", "[bare]", 1, 1);
    let child = site.tare();
    site.wait_for_records(3);
    let (namespace, pod, _) = pods("tare.run/role=generator").remove(0);
    evict(&site, &namespace, &pod);
    let (result, events) = site.only_trial(child);
    let event = expect_event(&events, EventKind::Exited, "generator-");
    assert!(event.found.contains(EVICTED), "{event:?}");
    assert_eq!(result.verdict.grade, Grade::Invalid);
    assert!(has(&result, Reason::Restart), "{:#?}", result.verdict);
    site.cluster_is_as_before();
}
