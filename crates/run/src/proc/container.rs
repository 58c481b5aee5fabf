//! CPU and memory of containers, from their control groups, versions 1 and 2. The groups are found
//! by the ids of the containers, independent of the container runtime and the cgroup driver.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::cgroup::stat_value;
use super::read::{Throttling, Usage};
use super::run_queue::{RunQueue, unless_ended};

/// Length of a container id: 64 hexadecimal digits.
const ID_LEN: usize = 64;
/// Maximum depth of groups.
const DEPTH_MAX: u32 = 12;
/// Memory, throttling and run-queue delay are read once in this many samples, because reading their files costs
/// far more CPU time than reading those of CPU.
const COSTLY_EVERY: u64 = 5;
/// Maximum number of bytes read of a `cpu.stat` or `memory.stat`.
const STAT_BYTES_MAX: usize = 8192;

/// The control groups of all containers of a machine.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    cpu: BTreeMap<String, PathBuf>,
    memory: BTreeMap<String, PathBuf>,
    /// The mount point of the hierarchy of `cpu`.
    cpu_root: PathBuf,
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
            groups.cpu_root = root.to_owned();
            walk(root, 0, &mut groups.cpu);
            groups.memory = groups.cpu.clone();
            return groups;
        }
        let cpu = ["cpuacct", "cpu,cpuacct"].map(|name| root.join(name));
        if let Some(cpu) = cpu.into_iter().find(|p| p.is_dir()) {
            walk(&cpu, 0, &mut groups.cpu);
            groups.cpu_root = cpu;
        }
        walk(&root.join("memory"), 0, &mut groups.memory);
        groups
    }

    /// Returns the ids of the processes in the container with that id.
    pub(crate) fn processes(&self, id: &str) -> Vec<u32> {
        let ids = self.cpu.get(id).map(|group| processes(group, 0));
        let ids = ids.unwrap_or_default();
        ids.iter()
            .filter_map(|id| id.parse().ok())
            .filter(|id| *id != 0)
            .collect()
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
            group: cpu.clone(),
            throttling: Throttling::of(
                cpu.ancestors()
                    .take_while(|dir| *dir != self.cpu_root)
                    .map(Path::to_owned)
                    .collect(),
            ),
            memory: self.memory.get(id).cloned(),
            unified: self.unified,
            samples: 0,
            last: (None, None),
            run_queue: RunQueue::default(),
        })
    }
}

/// Returns the id of a container in the name of a group: `cri-containerd-ID.scope`, `crio-ID.scope`,
/// `ID`. `None` for the group of a container's monitor, such as `crio-conmon-ID.scope`.
fn id_of(name: &str) -> Option<&str> {
    if name.contains("conmon") {
        return None;
    }
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
        // The node of a cluster can be a container itself, as with kind.
        if depth < DEPTH_MAX {
            walk(&path, depth + 1, found);
        }
        if let Some(id) = name.to_str().and_then(id_of) {
            found.insert(id.to_owned(), path);
        }
    }
}

/// One container.
#[derive(Debug)]
pub(crate) struct Container {
    cpu: File,
    group: PathBuf,
    /// Of its own group, and of those around it, such as that of its pod.
    throttling: Throttling,
    memory: Option<PathBuf>,
    unified: bool,
    samples: u64,
    /// Resident set and working set, when they were last read.
    last: (Option<u64>, Option<u64>),
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
        let (mut run_queue_delay_ns, mut throttled_ns) = (None, None);
        if due || now {
            let pids = processes(&self.group, 0);
            if pids.is_empty() {
                return None;
            }
            run_queue_delay_ns = self.run_queue.read(pids.iter().map(String::as_str));
            throttled_ns = self.throttling.most_ns();
            self.last = (rss_bytes(&pids), self.working_set_bytes());
        }
        let usage = Usage {
            cpu_ns,
            run_queue_delay_ns,
            rss_bytes: self.last.0,
            throttled_ns,
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

/// Ids of the processes in a group and the groups in it: crun starts them in a group `container` of its own.
fn processes(group: &Path, depth: u32) -> Vec<String> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut ids: Vec<String> = text.lines().map(str::to_owned).collect();
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in below.filter(|e| depth < DEPTH_MAX && e.file_type().is_ok_and(|t| t.is_dir())) {
        ids.extend(processes(&entry.path(), depth + 1));
    }
    ids
}

/// Returns the sum over these processes; `None` if one that has not ended cannot be read.
fn rss_bytes(pids: &[String]) -> Option<u64> {
    let page = rustix::param::page_size() as u64;
    let resident = |pid: &String| -> Option<u64> {
        // A process outside of the namespace of this one has the id 0.
        let statm = fs::read_to_string(format!("/proc/{pid}/statm"));
        match unless_ended(statm).ok().filter(|_| pid != "0")? {
            Some(statm) => statm.split(' ').nth(1)?.parse().ok(),
            None => Some(0),
        }
    };
    let pages = pids.iter().map(resident).sum::<Option<u64>>()?;
    Some(pages * page)
}

fn text_of(file: &File) -> Option<String> {
    let mut bytes = vec![0; STAT_BYTES_MAX];
    let n = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(n);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
