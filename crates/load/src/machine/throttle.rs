//! How long a CPU quota has stopped this process, from its cgroups.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Throttled time so far in nanoseconds, summed over the cgroup of this process and its
/// ancestors, because the quota of each of them stops it. `None` if no file contains it.
pub(crate) fn throttled_ns() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    sum(&own, Path::new("/sys/fs/cgroup"))
}

fn sum(own: &str, mount: &Path) -> Option<u64> {
    // A group with two paths counts once.
    let files: BTreeSet<PathBuf> = candidates(own, mount)
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    files
        .iter()
        .filter_map(|path| parse(&std::fs::read_to_string(path).ok()?))
        .reduce(u64::saturating_add)
}

/// Where `cpu.stat` may be: in the group of this process (cgroup v1 or v2), in each of its
/// ancestors, and in the root of the mount, which in a container is its own group.
fn candidates(own: &str, mount: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let roots = if controllers.is_empty() {
            vec![mount.to_owned(), mount.join("unified")]
        } else if controllers.split(',').any(|c| c == "cpu") {
            vec![mount.join("cpu"), mount.join(controllers)]
        } else {
            continue;
        };
        let group = Path::new(group.trim_start_matches('/'));
        for root in roots {
            paths.extend(group.ancestors().map(|g| root.join(g).join("cpu.stat")));
        }
    }
    paths.push(mount.join("cpu.stat"));
    paths.push(mount.join("cpu/cpu.stat"));
    paths
}

/// Version 2 has `throttled_usec`, version 1 `throttled_time` in nanoseconds.
fn parse(text: &str) -> Option<u64> {
    text.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", n) => Some(n.trim().parse::<u64>().ok()?.saturating_mul(1000)),
        ("throttled_time", n) => n.trim().parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cgroup_versions_are_parsed() {
        let v2 = "usage_usec 5\nnr_periods 10\nnr_throttled 2\nthrottled_usec 1500\nnr_bursts 0\n";
        assert_eq!(parse(v2), Some(1_500_000));
        assert_eq!(
            parse("nr_periods 0\nnr_throttled 3\nthrottled_time 77\n"),
            Some(77)
        );
        assert_eq!(parse("usage_usec 5\n"), None, "a root group of version 2");
    }

    fn write(root: &Path, group: &str, text: &str) {
        let dir = root.join(group);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("cpu.stat"), text).unwrap();
    }

    #[test]
    fn the_quota_of_an_ancestor_counts() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "", "usage_usec 9\n");
        write(root.path(), "pod/box", "throttled_usec 0\n");
        write(root.path(), "pod", "throttled_usec 30\n");
        write(root.path(), "other", "throttled_usec 500\n");
        assert_eq!(sum("0::/pod/box\n", root.path()), Some(30_000));
        assert_eq!(sum("0::/pod/box/in\n", root.path()), Some(30_000));
        assert_eq!(sum("0::/\n", root.path()), None);
    }

    #[test]
    fn version_1_counts_a_group_with_two_paths_once() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "cpu,cpuacct/a", "throttled_time 5\n");
        write(root.path(), "cpu,cpuacct/a/b", "throttled_time 2\n");
        std::os::unix::fs::symlink("cpu,cpuacct", root.path().join("cpu")).unwrap();
        let own = "4:cpu,cpuacct:/a/b\n3:memory:/a/b\n0::/c\n";
        assert_eq!(sum(own, root.path()), Some(7));
    }
}
