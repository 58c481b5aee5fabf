//! A process with its children, as one: a server that starts a process for each connection.

use std::collections::BTreeMap;
use std::fs;

use super::parse;
use super::read::{Process, Usage, tick_ns};
use super::run_queue::RunQueue;

/// A watched process and its children, also those that it starts later; not the children of those.
#[derive(Debug)]
pub(crate) struct Tree {
    pid: u32,
    main: Process,
    children: BTreeMap<u32, Process>,
    run_queue: RunQueue,
    /// The last reading.
    cpu_ns: u64,
}

impl Tree {
    /// Starts to watch a process.
    pub(crate) fn new(pid: u32) -> Self {
        Self {
            pid,
            main: Process::new(pid),
            children: BTreeMap::new(),
            run_queue: RunQueue::default(),
            cpu_ns: 0,
        }
    }

    /// The sums of CPU, run-queue delay and memory; `None` when the process has ended.
    ///
    /// CPU contains that of children which have ended, from the process that waited for them, in ticks of
    /// 10 ms. Resident memory counts what the processes share several times.
    pub(crate) fn usage(&mut self) -> Option<Usage> {
        let (cpu_ns, rss_bytes) = self.main.cpu_and_rss()?;
        let mut sum = Usage {
            cpu_ns,
            run_queue_delay_ns: None,
            rss_bytes: Some(rss_bytes),
            throttled_ns: None,
        };
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        sum.cpu_ns += parse::stat_children_cpu_ticks(&stat)? * tick_ns();
        let now = children(self.pid);
        self.children.retain(|pid, _| now.contains(pid));
        for &pid in &now {
            let child = self.children.entry(pid);
            let child = child.or_insert_with(|| Process::new(pid));
            if let Some((cpu_ns, rss_bytes)) = child.cpu_and_rss() {
                sum.cpu_ns += cpu_ns;
                sum.rss_bytes = sum.rss_bytes.map(|sum| sum + rss_bytes);
            }
        }
        let pids = now.iter().chain([&self.pid]).map(ToString::to_string);
        let pids: Vec<String> = pids.collect();
        sum.run_queue_delay_ns = self.run_queue.read(pids.iter().map(String::as_str));
        // A child that has ended and was not waited for is in neither sum.
        self.cpu_ns = self.cpu_ns.max(sum.cpu_ns);
        sum.cpu_ns = self.cpu_ns;
        Some(sum)
    }

    /// Whether the process still runs.
    pub(crate) fn is_same(&self) -> bool {
        self.main.is_same()
    }

    /// The sum of the proportional set sizes in bytes; `None` without permission. It counts shared memory once.
    pub(crate) fn pss_bytes(&self) -> Option<u64> {
        let children = self.children.values().filter(|child| child.is_same());
        let children: Option<u64> = children.map(Process::pss_bytes).sum();
        Some(self.main.pss_bytes()? + children?)
    }
}

/// The children of a process, their children, and so on.
pub(crate) fn descendants(pid: u32) -> Vec<u32> {
    let mut all = children(pid);
    let mut at = 0;
    while let Some(pid) = all.get(at).copied() {
        let more = children(pid);
        all.extend(
            more.into_iter()
                .filter(|pid| !all.contains(pid))
                .collect::<Vec<_>>(),
        );
        at += 1;
    }
    all
}

/// The children of a process, whichever of its threads has started them.
pub(super) fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let lists: Vec<String> = lists.filter_map(Result::ok).collect();
    if !lists.is_empty() {
        let pids = lists.iter().flat_map(|list| list.split_ascii_whitespace());
        return pids.filter_map(|pid| pid.parse().ok()).collect();
    }
    // A kernel without CONFIG_PROC_CHILDREN.
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |of: &u32| {
        let stat = fs::read_to_string(format!("/proc/{of}/stat")).unwrap_or_default();
        parse::stat_parent(&stat) == Some(pid)
    };
    pids.filter(is_child).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    /// A shell, which ends with its children when this is dropped.
    struct Shell(std::process::Child);

    impl Drop for Shell {
        fn drop(&mut self) {
            for child in children(self.0.id()) {
                let _ = Command::new("kill").arg(child.to_string()).status();
            }
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A shell whose child burns CPU and ends, and whose next child runs until it is killed.
    #[test]
    fn children_are_part_of_it_while_they_run_and_after_they_have_ended() {
        let script = "read x; sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; echo done; read x; \
                      sleep 600 & wait";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard = Shell(pipes.spawn().unwrap());
        let shell = &mut guard.0;
        let pid = shell.id();
        let mut tree = Tree::new(pid);
        let mut alone = Process::new(pid);
        let before = tree.usage().unwrap();
        let mut stdin = shell.stdin.take().unwrap();
        stdin.write_all(b"\n").unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "done");
        let own = alone.usage().unwrap().cpu_ns;
        let after = tree.usage().unwrap();
        // A loop of 100,000 rounds takes longer than a tick.
        assert!(after.cpu_ns >= own + 10_000_000, "{own} of {after:?}");
        assert!(after.cpu_ns > before.cpu_ns);
        stdin.write_all(b"\n").unwrap();
        // Before it has become another program, the child shares the memory of the shell.
        let is_sleep = |child: u32| {
            let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            line.starts_with(b"sleep")
        };
        // A program that has just begun may still have no memory of its own.
        let mut has_memory = || {
            let (all, own) = (tree.usage().unwrap(), alone.usage().unwrap());
            let pss = tree.pss_bytes();
            all.rss_bytes > own.rss_bytes && pss.is_none_or(|b| b > alone.pss_bytes().unwrap_or(0))
        };
        let begin = Instant::now();
        while !(children(pid).into_iter().any(is_sleep) && has_memory()) {
            assert!(shell.try_wait().unwrap().is_none(), "the shell has ended");
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "no memory of a child"
            );
            std::thread::yield_now();
        }
        assert!(tree.is_same());
        drop(guard);
        assert_eq!(tree.usage(), None);
    }
}
