//! How long a CPU quota has stopped this process, where cgroups tell.

use std::path::{Path, PathBuf};

/// Time throttled so far, in nanoseconds, of the cgroup that this process is in;
/// `None` where no file tells.
pub(crate) fn throttled_ns() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    candidates(&own, Path::new("/sys/fs/cgroup"))
        .into_iter()
        .find_map(|path| parse(&std::fs::read_to_string(path).ok()?))
}

/// Where `cpu.stat` may be, nearest first: the process's own group in version 1 or
/// 2, then the root of the mount, which is what a container sees of its own group.
fn candidates(own: &str, mount: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let group = group.trim_start_matches('/');
        if controllers.is_empty() {
            paths.push(mount.join(group).join("cpu.stat"));
            paths.push(mount.join("unified").join(group).join("cpu.stat"));
        } else if controllers.split(',').any(|c| c == "cpu") {
            for name in ["cpu", controllers] {
                paths.push(mount.join(name).join(group).join("cpu.stat"));
            }
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

    #[test]
    fn the_own_group_comes_before_the_root() {
        let paths = candidates("4:cpu,cpuacct:/a/b\n0::/c\n", Path::new("/m"));
        let at = |p: &str| paths.iter().position(|x| x == Path::new(p)).unwrap();
        assert!(at("/m/cpu/a/b/cpu.stat") < at("/m/cpu/cpu.stat"));
        assert!(at("/m/c/cpu.stat") < at("/m/cpu.stat"));
        assert!(at("/m/cpu,cpuacct/a/b/cpu.stat") > 0);
    }
}
