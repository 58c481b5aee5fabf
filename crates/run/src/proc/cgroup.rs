//! Control groups, versions 1 and 2: where a process's group lies, how much CPU it
//! used, how often its quota stopped it. Texts as the kernel's cgroup documents
//! describe them.

use std::path::PathBuf;

/// CPU accounting of a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuStat {
    /// CPU used, in nanoseconds; version 1 keeps it in a file of its own.
    pub usage_ns: Option<u64>,
    /// Periods in which the quota stopped it.
    pub throttled_periods: u64,
    /// Time for which it was stopped, in nanoseconds, summed over cores.
    pub throttled_ns: u64,
}

/// `cpu.stat` of either version. `None` where the controller is not in force: the
/// text lacks the throttling lines then.
#[must_use]
pub fn cpu_stat(text: &str) -> Option<CpuStat> {
    let value = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| {
            let (key, value) = line.split_once(' ')?;
            (key == name).then(|| value.trim().parse().ok())?
        })
    };
    Some(CpuStat {
        usage_ns: value("usage_usec").map(|us| us * 1000),
        throttled_periods: value("nr_throttled")?,
        throttled_ns: value("throttled_usec")
            .map(|us| us * 1000)
            .or_else(|| value("throttled_time"))?,
    })
}

/// A file that holds one number: `cpuacct.usage` (ns), `memory.usage_in_bytes`,
/// `memory.current`. `max` is `u64::MAX`.
#[must_use]
pub fn number(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(u64::MAX),
        digits => digits.parse().ok(),
    }
}

/// Which version's layout a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// The directory that accounts for the CPU of a process, from the texts of its
/// `/proc/PID/cgroup` and `/proc/self/mountinfo`.
#[must_use]
pub fn cpu_dir(cgroup: &str, mountinfo: &str) -> Option<(Version, PathBuf)> {
    v1_dir(cgroup, mountinfo, "cpu").or_else(|| {
        let path = cgroup.lines().find_map(|l| l.strip_prefix("0::"))?;
        let (root, mount) = mounts(mountinfo)
            .find(|m| m.kind == "cgroup2")
            .map(|m| (m.root, m.point))?;
        Some((Version::V2, below(mount, root, path)))
    })
}

fn v1_dir(cgroup: &str, mountinfo: &str, controller: &str) -> Option<(Version, PathBuf)> {
    let path = cgroup.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, names, path) = (parts.next()?, parts.next()?, parts.next()?);
        names.split(',').any(|n| n == controller).then_some(path)
    })?;
    let mount = mounts(mountinfo)
        .find(|m| m.kind == "cgroup" && m.options.split(',').any(|o| o == controller))?;
    Some((Version::V1, below(mount.point, mount.root, path)))
}

fn below(mount: &str, root: &str, path: &str) -> PathBuf {
    // In a container the mount shows a part of the hierarchy only.
    let inside = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
    PathBuf::from(mount).join(inside.trim_start_matches('/'))
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
        let v2 = cpu_stat(golden!("v2_cpu_stat.txt")).unwrap();
        assert_eq!(v2.usage_ns, Some(1_839_271_000));
        assert_eq!((v2.throttled_periods, v2.throttled_ns), (17, 412_355_000));
        let v1 = cpu_stat(golden!("v1_cpu_stat.txt")).unwrap();
        assert_eq!(v1.usage_ns, None);
        assert_eq!((v1.throttled_periods, v1.throttled_ns), (17, 412_355_123));
        // The root group of version 2 has no quota, and no such lines.
        assert_eq!(cpu_stat("usage_usec 5\nuser_usec 5\nsystem_usec 0\n"), None);
    }

    #[test]
    fn where_the_group_lies() {
        assert_eq!(
            cpu_dir(golden!("self_v2.txt"), golden!("mountinfo_v2.txt")),
            Some((Version::V2, "/sys/fs/cgroup/system.slice/tare.scope".into()))
        );
        assert_eq!(
            cpu_dir(golden!("self_v1.txt"), golden!("mountinfo_v1.txt")),
            Some((
                Version::V1,
                "/sys/fs/cgroup/cpu,cpuacct/kubepods/burstable/pod12/abc".into()
            ))
        );
        // In a container: the mount's root is the group itself.
        let inside = golden!("mountinfo_v1.txt")
            .replace("0:29 / /sys", "0:29 /kubepods/burstable/pod12/abc /sys");
        assert_eq!(
            cpu_dir(golden!("self_v1.txt"), &inside),
            Some((Version::V1, "/sys/fs/cgroup/cpu,cpuacct/".into()))
        );
        assert_eq!(cpu_dir("", golden!("mountinfo_v2.txt")), None);
    }

    #[test]
    fn single_numbers() {
        assert_eq!(number("17\n"), Some(17));
        assert_eq!(number("max\n"), Some(u64::MAX));
        assert_eq!(number("-1\n"), None);
    }
}
