//! The processes below one that keeps them, as one: a server that starts a process for each connection, a program behind
//! a script.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tare_records::signals;

use super::parse;
use super::read::{Counts, Process, Usage, tick_ns};
use super::run_queue::RunQueue;

/// How often the processes are read until none ends meanwhile.
const ATTEMPTS: usize = 4;
/// How often, and at which interval, the children of processes that ignore their end are listed
/// after a reading: most of them would not live long enough to be in two readings.
const LISTS: usize = 10;
const LIST_EVERY: Duration = Duration::from_millis(1);

/// All processes below a watched one, which itself is not part of it: also those that start later, and those that end.
///
/// When a process ends, its CPU time goes to the process that waits for it. Processes whose parent ends get the watched
/// one as their parent. So the sum over all living processes contains all CPU time, unless a parent does not wait: then
/// the kernel drops the time of its children.
#[derive(Debug)]
pub struct Tree {
    pid: u32,
    keeper: Process,
    members: BTreeMap<u32, Process>,
    /// The parents of all processes that were seen since the last reading, or were in it.
    parents: BTreeMap<u32, u32>,
    run_queue: RunQueue,
    /// The last reading that no process disturbed by its end.
    last: Reading,
    /// The largest sum so far.
    cpu_ns: u64,
    /// CPU time that was read of processes which nobody waited for.
    dropped_ns: u64,
    /// A process that ignores the end of its children, of which one has ended.
    ignoring: Option<u32>,
    /// `dropped_ns` at the start of the window.
    dropped_before_ns: u64,
}

/// What a reading has found.
#[derive(Debug, Default)]
struct Reading {
    /// CPU time of the ended children of the watched process, in nanoseconds.
    waited_ns: u64,
    members: BTreeMap<u32, Counts>,
}

impl Reading {
    /// Whether it has the process with these counts of another reading.
    fn has(&self, pid: u32, counts: &Counts) -> bool {
        let found = self.members.get(&pid);
        found.is_some_and(|found| found.start_ticks == counts.start_ticks)
    }

    fn cpu_ns(&self) -> u64 {
        let of = |c: &Counts| c.cpu_ns + c.waited_ns;
        self.waited_ns + self.members.values().map(of).sum::<u64>()
    }

    /// The CPU time of processes that have ended since `before` and that is in no sum, in nanoseconds.
    ///
    /// The kernel shows the time of ended children in ticks, cut off, in two parts for each process.
    fn dropped_ns(&self, before: &Self) -> u64 {
        let (same, ended): (Vec<_>, Vec<_>) = before
            .members
            .iter()
            .partition(|(pid, c)| self.has(**pid, c));
        let ended_ns: u64 = ended.iter().map(|(_, c)| c.cpu_ns + c.waited_ns).sum();
        let now_ns = self.members.values().map(|c| c.waited_ns).sum::<u64>() + self.waited_ns;
        let then_ns = same.iter().map(|(_, c)| c.waited_ns).sum::<u64>() + before.waited_ns;
        let tolerance_ns = 2 * tick_ns() * (1 + self.members.len() as u64);
        let missing_ns = ended_ns.saturating_sub(now_ns.saturating_sub(then_ns));
        match missing_ns > tolerance_ns {
            true => missing_ns,
            false => 0,
        }
    }
}

impl Tree {
    /// Starts to watch what runs below a process.
    pub fn new(pid: u32) -> Self {
        let mut tree = Self {
            pid,
            keeper: Process::new(pid),
            members: BTreeMap::new(),
            parents: BTreeMap::new(),
            run_queue: RunQueue::default(),
            last: Reading::default(),
            cpu_ns: 0,
            dropped_ns: 0,
            ignoring: None,
            dropped_before_ns: 0,
        };
        // The kernel may leave out a process from the children while others end.
        for _ in 0..ATTEMPTS {
            tree.usage();
            if tree.members.len() >= descendants(pid).len() {
                break;
            }
        }
        tree
    }

    /// The sums of CPU, run-queue delay and memory; `None` when the watched process has ended. Resident memory counts
    /// what the processes share several times.
    pub fn usage(&mut self) -> Option<Usage> {
        let mut attempt = 1;
        let (reading, is_quiet) = loop {
            let (reading, is_quiet) = self.read()?;
            if is_quiet || attempt == ATTEMPTS {
                break (reading, is_quiet);
            }
            attempt += 1;
        };
        let pids: Vec<String> = self.members.keys().map(ToString::to_string).collect();
        let run_queue_delay_ns = self.run_queue.read(pids.iter().map(String::as_str));
        let rss_bytes = reading.members.values().map(|c| c.rss_bytes).sum();
        let dropped_ns = reading.dropped_ns(&self.last);
        let sum = reading.cpu_ns() + self.dropped_ns;
        if is_quiet {
            self.dropped_ns += dropped_ns;
            self.last = reading;
        }
        // Ticks are cut off, and a process may end between two reads of one reading.
        self.cpu_ns = self.cpu_ns.max(sum + if is_quiet { dropped_ns } else { 0 });
        self.see_short_children();
        Some(Usage {
            cpu_ns: self.cpu_ns,
            run_queue_delay_ns,
            rss_bytes: Some(rss_bytes),
            throttled_ns: None,
        })
    }

    /// Reads parents before their children: the time of a child that ends meanwhile is then missing, but never counted
    /// twice. Also returns whether none ended.
    fn read(&mut self) -> Option<(Reading, bool)> {
        self.members.retain(|_, member| member.counts().is_some());
        let waited_ns = self.keeper.counts().filter(|c| !c.is_zombie)?.waited_ns;
        let mut reading = Reading {
            waited_ns,
            ..Reading::default()
        };
        let mut next: VecDeque<u32> = children(self.pid).into();
        let mut is_quiet = true;
        let mut rest: Vec<u32> = self.members.keys().copied().collect();
        while let Some(pid) = next.pop_front().or_else(|| rest.pop()) {
            if reading.members.contains_key(&pid) {
                continue;
            }
            let member = self.members.entry(pid).or_insert_with(|| Process::new(pid));
            match member.counts() {
                Some(counts) => {
                    reading.members.insert(pid, counts);
                    let children = children(pid);
                    self.parents
                        .extend(children.iter().map(|child| (*child, pid)));
                    next.extend(children);
                }
                None => {
                    self.members.remove(&pid);
                    is_quiet = false;
                }
            }
        }
        let is_member = |pid: &u32| reading.members.contains_key(pid);
        let ended = self.parents.iter().filter(|(pid, _)| !is_member(pid));
        let mut parents = ended.map(|(_, parent)| *parent).filter(is_member);
        self.ignoring = (self.ignoring).or_else(|| parents.find(|pid| ignores_children(*pid)));
        self.parents.retain(|pid, _| is_member(pid));
        Some((reading, is_quiet))
    }

    /// Notes children of processes that ignore their end. The next reading finds that they have
    /// ended.
    fn see_short_children(&mut self) {
        let members = self.members.keys().copied();
        let ignoring: Vec<u32> = members.filter(|pid| ignores_children(*pid)).collect();
        if ignoring.is_empty() || self.ignoring.is_some() {
            return;
        }
        for _ in 0..LISTS {
            thread::sleep(LIST_EVERY);
            for parent in &ignoring {
                let children = children(*parent).into_iter();
                self.parents.extend(children.map(|child| (child, *parent)));
            }
        }
    }

    /// The window begins: what was missing before does not matter.
    pub fn begin(&mut self) {
        self.ignoring = None;
        self.dropped_before_ns = self.dropped_ns;
    }

    /// Why CPU time of the window may be missing in the sums.
    pub fn missing(&self) -> Option<String> {
        if let Some(pid) = self.ignoring {
            return Some(format!(
                "its process {pid} ignores the end of its children (SIGCHLD), so that Linux drops their CPU time"
            ));
        }
        let dropped_ns = self.dropped_ns - self.dropped_before_ns;
        (dropped_ns > 0).then(|| {
            format!(
                "processes have ended for which their parents did not wait, so that Linux dropped their CPU time: at \
                 least {:.2} s was read before",
                dropped_ns as f64 / 1e9
            )
        })
    }

    /// Whether the watched process still runs.
    pub fn is_same(&self) -> bool {
        self.keeper.is_same()
    }

    /// The sum of the proportional set sizes in bytes; `None` without permission. It counts shared memory once.
    pub fn pss_bytes(&self) -> Option<u64> {
        let living = self.members.values().filter(|member| member.is_same());
        living.map(Process::pss_bytes).sum()
    }
}

/// Whether a process ignores SIGCHLD, so that nobody waits for its children.
pub fn ignores_children(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    signals::is_ignored(&status, Signal::CHILD.as_raw())
}

/// Whether a process exists and has not ended.
pub fn is_living(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    parse::stat_state(&stat).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The children of a process, their children, and so on.
pub fn descendants(pid: u32) -> Vec<u32> {
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
fn children(pid: u32) -> Vec<u32> {
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
mod tests;
