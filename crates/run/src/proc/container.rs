//! CPU and memory of containers, from their control groups, versions 1 and 2. The groups are found
//! by the ids of the containers, independent of the container runtime and the cgroup driver.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::cgroup::stat_value;
use super::read::Usage;
use super::run_queue::RunQueue;

/// Length of a container id: 64 hexadecimal digits.
const ID_LEN: usize = 64;
/// Maximum depth of groups.
const DEPTH_MAX: u32 = 12;
/// Memory and run-queue delay are read once in this many samples, because reading their files costs
/// far more CPU time than reading those of CPU.
const COSTLY_EVERY: u64 = 5;
/// Maximum number of bytes read of a `cpu.stat` or `memory.stat`.
const STAT_BYTES_MAX: usize = 8192;

/// The control groups of all containers of a machine.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    cpu: BTreeMap<String, PathBuf>,
    memory: BTreeMap<String, PathBuf>,
    unified: bool,
}

impl Groups {
    /// Finds the groups below the mount point of the control groups: `TARE_CGROUP_ROOT`, if it is
    /// set (in a container), or the usual one.
    pub(crate) fn find() -> Self {
        let root = std::env::var_os("TARE_CGROUP_ROOT");
        Self::below(&root.map_or_else(|| PathBuf::from("/sys/fs/cgroup"), PathBuf::from))
    }

    fn below(root: &Path) -> Self {
        let mut groups = Self {
            unified: root.join("cgroup.controllers").exists(),
            ..Self::default()
        };
        if groups.unified {
            walk(root, 0, &mut groups.cpu);
            groups.memory = groups.cpu.clone();
            return groups;
        }
        let cpu = ["cpuacct", "cpu,cpuacct"].map(|name| root.join(name));
        if let Some(cpu) = cpu.iter().find(|p| p.is_dir()) {
            walk(cpu, 0, &mut groups.cpu);
        }
        walk(&root.join("memory"), 0, &mut groups.memory);
        groups
    }

    /// Returns the container with that id; `None` when it has no group here.
    pub(crate) fn container(&self, id: &str) -> Option<Container> {
        let cpu = self.cpu.get(id)?;
        let file = if self.unified {
            "cpu.stat"
        } else {
            "cpuacct.usage"
        };
        Some(Container {
            cpu: File::open(cpu.join(file)).ok()?,
            procs: cpu.join("cgroup.procs"),
            memory: self.memory.get(id).cloned(),
            unified: self.unified,
            samples: 0,
            last: (0, None),
            run_queue: RunQueue::default(),
        })
    }
}

/// Returns the container id in the name of a group: `cri-containerd-ID.scope`, `crio-ID.scope`,
/// `ID`.
fn id_of(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let id = name.rsplit(['-', ':']).next()?;
    (id.len() == ID_LEN && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}

fn walk(dir: &Path, depth: u32, found: &mut BTreeMap<String, PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        if !entry.file_type().is_ok_and(|t| t.is_dir()) {
            continue;
        }
        let (name, path) = (entry.file_name(), entry.path());
        if let Some(id) = name.to_str().and_then(id_of) {
            found.insert(id.to_owned(), path);
        } else if depth < DEPTH_MAX {
            walk(&path, depth + 1, found);
        }
    }
}

/// One container.
#[derive(Debug)]
pub(crate) struct Container {
    cpu: File,
    procs: PathBuf,
    memory: Option<PathBuf>,
    unified: bool,
    samples: u64,
    /// Resident set and working set, when they were last read.
    last: (u64, Option<u64>),
    run_queue: RunQueue,
}

impl Container {
    /// Returns the current CPU, memory that is at most a few seconds old, and the run-queue delay
    /// if it was read now; `None` when the container has ended. `place` spreads the costly readings
    /// of many containers over the samples.
    pub(crate) fn usage(&mut self, place: usize, now: bool) -> Option<(Usage, Option<u64>)> {
        let text = text_of(&self.cpu)?;
        let cpu_ns = if self.unified {
            stat_value(&text, "usage_usec")?.saturating_mul(1000)
        } else {
            text.trim().parse().ok()?
        };
        let due = self.samples == 0 || (self.samples + place as u64).is_multiple_of(COSTLY_EVERY);
        self.samples += 1;
        let mut run_queue_delay_ns = None;
        if due || now {
            let pids = fs::read_to_string(&self.procs).ok()?;
            run_queue_delay_ns = self.run_queue.read(pids.lines());
            self.last = (rss_bytes(&pids)?, self.working_set_bytes());
        }
        let usage = Usage {
            cpu_ns,
            run_queue_delay_ns,
            rss_bytes: self.last.0,
        };
        Some((usage, self.last.1))
    }

    fn working_set_bytes(&self) -> Option<u64> {
        let dir = self.memory.as_ref()?;
        let (current, inactive) = if self.unified {
            ("memory.current", "inactive_file")
        } else {
            ("memory.usage_in_bytes", "total_inactive_file")
        };
        let charged = fs::read_to_string(dir.join(current)).ok()?;
        let charged: u64 = charged.trim().parse().ok()?;
        let stat = fs::read_to_string(dir.join("memory.stat")).ok()?;
        Some(charged.saturating_sub(stat_value(&stat, inactive)?))
    }
}

/// Returns the sum over the processes of a container, one id a line; `None` without processes, when
/// the container has ended.
fn rss_bytes(pids: &str) -> Option<u64> {
    let page = rustix::param::page_size() as u64;
    let resident = |pid: &str| -> Option<u64> {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
        statm.split(' ').nth(1)?.parse().ok()
    };
    if pids.trim().is_empty() {
        return None;
    }
    Some(pids.lines().filter_map(resident).sum::<u64>() * page)
}

fn text_of(file: &File) -> Option<String> {
    let mut bytes = vec![0; STAT_BYTES_MAX];
    let n = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(n);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(c: char) -> String {
        c.to_string().repeat(ID_LEN)
    }

    #[test]
    fn ids_are_found_in_the_names_of_all_runtimes() {
        let a = id('a');
        for name in [
            a.clone(),
            format!("cri-containerd-{a}.scope"),
            format!("crio-{a}.scope"),
            format!("pod-x:cri:{a}"),
        ] {
            assert_eq!(id_of(&name), Some(a.as_str()), "{name}");
        }
        assert_eq!(id_of("kubepods-burstable.slice"), None);
    }

    #[test]
    fn version_2_gives_cpu_and_working_set() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("kubepods.slice/pod1").join(id('b'));
        fs::create_dir_all(&dir).unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu memory\n").unwrap();
        fs::write(dir.join("cpu.stat"), "usage_usec 2500\nuser_usec 1\n").unwrap();
        fs::write(dir.join("memory.current"), "1000\n").unwrap();
        fs::write(dir.join("memory.stat"), "anon 1\ninactive_file 300\n").unwrap();
        fs::write(
            dir.join("cgroup.procs"),
            format!("{}\n", std::process::id()),
        )
        .unwrap();
        let groups = Groups::below(root.path());
        let mut container = groups.container(&id('b')).unwrap();
        let (usage, working_set) = container.usage(0, true).unwrap();
        assert_eq!((usage.cpu_ns, working_set), (2_500_000, Some(700)));
        assert!(usage.rss_bytes > 100_000);
        let (usage, _) = container.usage(0, false).unwrap();
        assert_eq!(usage.run_queue_delay_ns, None, "not read in this sample");
        assert!(groups.container(&id('c')).is_none());
        fs::write(dir.join("cgroup.procs"), "").unwrap();
        assert!(
            container.usage(0, true).is_none(),
            "a container without processes has ended"
        );
    }

    #[test]
    fn version_1_gives_cpu_and_working_set() {
        let root = tempfile::tempdir().unwrap();
        let below = |controller: &str| {
            let dir = root
                .path()
                .join(controller)
                .join("kubepods/burstable/pod1")
                .join(id('d'));
            fs::create_dir_all(&dir).unwrap();
            dir
        };
        let (cpu, memory) = (below("cpuacct"), below("memory"));
        fs::write(cpu.join("cpuacct.usage"), "123456789\n").unwrap();
        fs::write(
            cpu.join("cgroup.procs"),
            format!("{}\n", std::process::id()),
        )
        .unwrap();
        fs::write(memory.join("memory.usage_in_bytes"), "5000\n").unwrap();
        fs::write(
            memory.join("memory.stat"),
            "inactive_file 1\ntotal_inactive_file 1000\n",
        )
        .unwrap();
        let mut container = Groups::below(root.path()).container(&id('d')).unwrap();
        let (usage, working_set) = container.usage(3, true).unwrap();
        assert_eq!((usage.cpu_ns, working_set), (123_456_789, Some(4000)));
    }
}
