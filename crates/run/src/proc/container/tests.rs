//! Trees of control groups as container runtimes make them.

use super::*;

fn id(c: char) -> String {
    c.to_string().repeat(ID_LEN)
}

/// A group with this process in it, which has used 2.5 ms of CPU time and is charged 1,000 bytes of which 300 are
/// inactive, in a tree of version 2.
fn v2_group(root: &Path, group: &str) -> PathBuf {
    let dir = root.join(group);
    fs::create_dir_all(&dir).unwrap();
    fs::write(root.join("cgroup.controllers"), "cpu memory\n").unwrap();
    let stat = "usage_usec 2500\nuser_usec 1\nnr_throttled 3\nthrottled_usec 40\n";
    fs::write(dir.join("cpu.stat"), stat).unwrap();
    fs::write(dir.join("memory.current"), "1000\n").unwrap();
    fs::write(dir.join("memory.stat"), "anon 1\ninactive_file 300\n").unwrap();
    fs::write(
        dir.join("cgroup.procs"),
        format!("{}\n", std::process::id()),
    )
    .unwrap();
    dir
}

/// The same in a tree of version 1.
fn v1_group(root: &Path, group: &str) {
    let below = |controller: &str| {
        let dir = root.join(controller).join(group);
        fs::create_dir_all(&dir).unwrap();
        dir
    };
    let (cpu, memory) = (below("cpu,cpuacct"), below("memory"));
    fs::write(cpu.join("cpuacct.usage"), "2500000\n").unwrap();
    let stat = "nr_periods 9\nnr_throttled 3\nthrottled_time 40000\n";
    fs::write(cpu.join("cpu.stat"), stat).unwrap();
    fs::write(
        cpu.join("cgroup.procs"),
        format!("{}\n", std::process::id()),
    )
    .unwrap();
    fs::write(memory.join("memory.usage_in_bytes"), "1000\n").unwrap();
    let stat = "inactive_file 1\ntotal_inactive_file 300\n";
    fs::write(memory.join("memory.stat"), stat).unwrap();
}

#[test]
fn containers_are_found_with_every_runtime_and_driver() {
    let a = id('a');
    // With systemd, and with cgroupfs: containerd (also of k3s), CRI-O, and a node that is a container itself (kind).
    let groups = [
        format!(
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-{a}.scope"
        ),
        format!("kubepods/burstable/pod1/{a}"),
        format!("kubepods.slice/kubepods-besteffort.slice/crio-{a}.scope"),
        format!("kubepods/besteffort/pod1/crio-{a}"),
        format!("system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{a}"),
        format!(
            "system.slice/docker-{}.scope/kubelet.slice/kubelet-kubepods.slice/cri-containerd-{a}.scope",
            id('e')
        ),
        format!("docker/{}/kubelet/kubepods/burstable/pod1/{a}", id('e')),
    ];
    for group in &groups {
        for version in [1, 2] {
            let root = tempfile::tempdir().unwrap();
            match version {
                1 => v1_group(root.path(), group),
                _ => drop(v2_group(root.path(), group)),
            }
            let found = Groups::below(root.path()).container(&a);
            let mut container = found.unwrap_or_else(|| panic!("{version}: {group}"));
            let (usage, working_set) = container.usage(3, true).unwrap();
            assert_eq!(
                (usage.cpu_ns, working_set),
                (2_500_000, Some(700)),
                "{version}: {group}"
            );
            assert!(usage.rss_bytes > Some(100_000), "{version}: {group}");
            assert_eq!(usage.throttled_ns, Some(40_000), "{version}: {group}");
            let (usage, _) = container.usage(3, false).unwrap();
            assert_eq!(usage.run_queue_delay_ns, None, "not read in this sample");
        }
    }
}

#[test]
fn the_monitor_of_a_container_does_not_stand_for_it() {
    let (a, root) = (id('a'), tempfile::tempdir().unwrap());
    let pod = "kubepods.slice/kubepods-pod1.slice";
    for monitor in [
        format!("{pod}/crio-conmon-{a}.scope"),
        format!("machine.slice/libpod-conmon-{a}.scope"),
    ] {
        v2_group(root.path(), &monitor);
    }
    assert!(Groups::below(root.path()).container(&a).is_none());
    let own = v2_group(root.path(), &format!("{pod}/crio-{a}.scope"));
    fs::write(own.join("cpu.stat"), "usage_usec 7\n").unwrap();
    let mut container = Groups::below(root.path()).container(&a).unwrap();
    assert_eq!(container.usage(0, true).unwrap().0.cpu_ns, 7_000);
}

#[test]
fn processes_are_found_in_the_group_that_crun_makes_inside() {
    let (a, root) = (id('a'), tempfile::tempdir().unwrap());
    let outer = v2_group(root.path(), &format!("kubepods.slice/crio-{a}.scope"));
    let inner = outer.join("container");
    fs::create_dir_all(&inner).unwrap();
    fs::rename(outer.join("cgroup.procs"), inner.join("cgroup.procs")).unwrap();
    fs::write(outer.join("cgroup.procs"), "").unwrap();
    let mut container = Groups::below(root.path()).container(&a).unwrap();
    let (usage, working_set) = container.usage(0, true).unwrap();
    assert!(usage.rss_bytes > Some(100_000));
    assert_eq!(working_set, Some(700));
    fs::write(inner.join("cgroup.procs"), "").unwrap();
    assert!(
        container.usage(0, true).is_none(),
        "a container without processes has ended"
    );
}

#[test]
fn memory_that_cannot_be_read_is_unknown() {
    let (a, root) = (id('a'), tempfile::tempdir().unwrap());
    let group = v2_group(root.path(), &format!("kubepods/pod1/{a}"));
    // What the kernel lists for a process outside of the namespace of process ids.
    fs::write(group.join("cgroup.procs"), "0\n").unwrap();
    fs::remove_file(group.join("memory.current")).unwrap();
    let mut container = Groups::below(root.path()).container(&a).unwrap();
    let (usage, working_set) = container.usage(0, true).unwrap();
    assert_eq!((usage.rss_bytes, working_set), (None, None));
    assert_eq!(usage.cpu_ns, 2_500_000);
    assert!(Groups::below(root.path()).container(&id('c')).is_none());
}

#[test]
fn the_quota_of_the_pod_stops_its_containers() {
    let (a, root) = (id('a'), tempfile::tempdir().unwrap());
    let own = v2_group(root.path(), &format!("kubepods/pod1/{a}"));
    let pod = own.parent().unwrap();
    fs::write(pod.join("cpu.stat"), "usage_usec 9\nthrottled_usec 52\n").unwrap();
    fs::write(root.path().join("cpu.stat"), "throttled_usec 1000\n").unwrap();
    let mut container = Groups::below(root.path()).container(&a).unwrap();
    let (usage, _) = container.usage(0, true).unwrap();
    assert_eq!(
        usage.throttled_ns,
        Some(52_000),
        "of the pod, not of the machine"
    );
}
