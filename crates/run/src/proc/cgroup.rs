//! Control groups, versions 1 and 2: the groups whose CPU quota can throttle a process, and the
//! time for which they throttled it. Source: the kernel's cgroup documentation.

use std::path::{Path, PathBuf};

/// Returns the time for which the quota has throttled the group, in nanoseconds summed over cores,
/// from its `cpu.stat` of either version. `None` without the line, when the controller is not
/// active.
pub(super) fn throttled_ns(text: &str) -> Option<u64> {
    stat_value(text, "throttled_usec")
        .map(|us| us.saturating_mul(1000))
        .or_else(|| stat_value(text, "throttled_time"))
}

/// Returns the number in the line `name NUMBER` of a `cpu.stat` or `memory.stat`.
pub(super) fn stat_value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| value.trim().parse().ok())?
    })
}

/// Returns the directories of all groups whose CPU quota applies to a process: its own group, then
/// its visible ancestors, from `/proc/PID/cgroup` and `/proc/self/mountinfo`. Empty without a CPU
/// controller.
pub(super) fn cpu_dirs(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
    let Some((mount, own)) = cpu_dir(cgroup, mountinfo) else {
        return Vec::new();
    };
    own.ancestors()
        .take_while(|dir| dir.starts_with(mount))
        .map(Path::to_owned)
        .collect()
}

/// Returns the mount point of the hierarchy with the CPU controller, and the directory of the
/// group.
fn cpu_dir<'a>(cgroup: &str, mountinfo: &'a str) -> Option<(&'a str, PathBuf)> {
    v1_dir(cgroup, mountinfo).or_else(|| {
        let path = cgroup.lines().find_map(|l| l.strip_prefix("0::"))?;
        let mount = mounts(mountinfo).find(|m| m.kind == "cgroup2")?;
        Some((mount.point, below(&mount, path)))
    })
}

fn v1_dir<'a>(cgroup: &str, mountinfo: &'a str) -> Option<(&'a str, PathBuf)> {
    let path = cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        names.split(',').any(|n| n == "cpu").then_some(path)
    })?;
    let mount = mounts(mountinfo)
        .find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == "cpu"))?;
    Some((mount.point, below(&mount, path)))
}

fn below(mount: &Mount<'_>, path: &str) -> PathBuf {
    // In a container, the mount contains only a part of the hierarchy.
    let inside = path
        .strip_prefix(mount.root.trim_end_matches('/'))
        .unwrap_or("");
    PathBuf::from(mount.point).join(inside.trim_start_matches('/'))
}

struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Mount {
            root: before.next()?,
            point: before.next()?,
            kind: after.next()?,
            options: after.nth(1)?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! golden {
        ($name:literal) => {
            include_str!(concat!("../../tests/golden/cgroup/", $name))
        };
    }

    #[test]
    fn throttling_in_both_versions() {
        assert_eq!(throttled_ns(golden!("v2_cpu_stat.txt")), Some(412_355_000));
        assert_eq!(throttled_ns(golden!("v1_cpu_stat.txt")), Some(412_355_123));
        // The root group of version 2 has no quota, so the lines are missing.
        let root = "usage_usec 5\nuser_usec 5\nsystem_usec 0\n";
        assert_eq!(throttled_ns(root), None);
    }

    #[test]
    fn the_directories_of_groups_are_found() {
        let dirs = |cgroup, mountinfo| -> Vec<String> {
            cpu_dirs(cgroup, mountinfo)
                .iter()
                .map(|dir| dir.display().to_string())
                .collect()
        };
        assert_eq!(
            dirs(golden!("self_v2.txt"), golden!("mountinfo_v2.txt")),
            [
                "/sys/fs/cgroup/system.slice/tare.scope",
                "/sys/fs/cgroup/system.slice",
                "/sys/fs/cgroup"
            ]
        );
        assert_eq!(
            dirs(golden!("self_v1.txt"), golden!("mountinfo_v1.txt")),
            [
                "/sys/fs/cgroup/cpu,cpuacct/kubepods/burstable/pod12/abc",
                "/sys/fs/cgroup/cpu,cpuacct/kubepods/burstable/pod12",
                "/sys/fs/cgroup/cpu,cpuacct/kubepods/burstable",
                "/sys/fs/cgroup/cpu,cpuacct/kubepods",
                "/sys/fs/cgroup/cpu,cpuacct"
            ]
        );
        // In a container: the mount's root is the group itself.
        let inside = golden!("mountinfo_v1.txt")
            .replace("0:29 / /sys", "0:29 /kubepods/burstable/pod12/abc /sys");
        assert_eq!(
            dirs(golden!("self_v1.txt"), &inside),
            ["/sys/fs/cgroup/cpu,cpuacct/"]
        );
        assert!(dirs("", golden!("mountinfo_v2.txt")).is_empty());
    }
}
