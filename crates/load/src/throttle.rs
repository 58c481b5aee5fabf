//! How long a CPU quota has stopped this process, where cgroups tell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Time throttled so far, in nanoseconds, summed over the cgroup that this process is
/// in and those above it: a quota anywhere on the way stops it. `None` where no file
/// tells.
pub(crate) fn throttled_ns() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    sum(&own, Path::new("/sys/fs/cgroup"))
}

fn sum(own: &str, mount: &Path) -> Option<u64> {
    // The same group under two names counts once.
    let files: BTreeSet<PathBuf> = candidates(own, mount)
        .iter()
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    files
        .iter()
        .filter_map(|path| parse(&std::fs::read_to_string(path).ok()?))
        .reduce(u64::saturating_add)
}

/// Where `cpu.stat` may be: in the process's own group in version 1 or 2, in each one
/// above it, and in the root of the mount, which is what a container sees of its own.
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
            let on_the_way = group.ancestors().map(|g| root.join(g).join("cpu.stat"));
            paths.extend(on_the_way);
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
    fn both_versions_are_understood() {
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
    fn a_quota_above_the_own_group_is_seen() {
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
    fn version_1_counts_each_group_once_under_both_its_names() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "cpu,cpuacct/a", "throttled_time 5\n");
        write(root.path(), "cpu,cpuacct/a/b", "throttled_time 2\n");
        std::os::unix::fs::symlink("cpu,cpuacct", root.path().join("cpu")).unwrap();
        let own = "4:cpu,cpuacct:/a/b\n3:memory:/a/b\n0::/c\n";
        assert_eq!(sum(own, root.path()), Some(7));
    }
}
