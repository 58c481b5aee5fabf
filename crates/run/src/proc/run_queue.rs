//! Run-queue delay: the time for which threads were runnable and waited for a core.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use nix::errno::Errno;

use super::parse;

/// The run-queue delay of one process or container so far.
///
/// The kernel counts it by thread, and forgets it when the thread ends. So the last reading of each
/// thread is kept. What a thread waits between its last reading and its end is not counted: with many
/// threads of short life, the sum is too small.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    /// The last reading of each running thread, in nanoseconds.
    threads: BTreeMap<u32, u64>,
    /// The sum of the last readings of threads that have ended.
    ended_ns: u64,
}

impl RunQueue {
    /// Reads all threads of these processes. Returns the sum since their start in nanoseconds,
    /// including threads that ended since the first call; `None` if the kernel does not report it, or
    /// if a thread that may still run cannot be read, which would count twice later.
    pub(crate) fn read<'a>(&mut self, pids: impl Iterator<Item = &'a str>) -> Option<u64> {
        self.read_below(Path::new("/proc"), pids)
    }

    fn read_below<'a>(&mut self, proc: &Path, pids: impl Iterator<Item = &'a str>) -> Option<u64> {
        let mut now = BTreeMap::new();
        for pid in pids {
            let Some(tasks) = unless_ended(fs::read_dir(proc.join(pid).join("task"))).ok()? else {
                continue;
            };
            for task in tasks {
                let Some(task) = unless_ended(task).ok()? else {
                    continue;
                };
                let id = task.file_name().to_str().and_then(|id| id.parse().ok());
                let text = unless_ended(fs::read_to_string(task.path().join("schedstat"))).ok()?;
                let delay_ns = text.as_deref().and_then(parse::schedstat_delay_ns);
                if let Some((id, delay_ns)) = id.zip(delay_ns) {
                    now.insert(id, delay_ns);
                }
            }
        }
        for (id, last_ns) in &self.threads {
            // A smaller value is that of a new thread with the same id.
            if now.get(id).is_none_or(|ns| ns < last_ns) {
                self.ended_ns += last_ns;
            }
        }
        self.threads = now;
        let running: u64 = self.threads.values().sum();
        (!self.threads.is_empty()).then_some(self.ended_ns + running)
    }
}

/// `None` if the process or thread has ended, which can happen between two readings.
pub(super) fn unless_ended<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.raw_os_error() == Some(Errno::ESRCH as i32) => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the `schedstat` of these threads of process 7, and removes all others.
    fn write(proc: &Path, threads: &[(u32, &str)]) {
        let tasks = proc.join("7/task");
        let _ = fs::remove_dir_all(&tasks);
        for (id, text) in threads {
            let dir = tasks.join(id.to_string());
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("schedstat"), text).unwrap();
        }
    }

    #[test]
    fn threads_that_come_and_go_are_counted_until_their_last_reading() {
        let dir = tempfile::tempdir().unwrap();
        let mut queue = RunQueue::default();
        let mut read = |threads: &[(u32, &str)]| {
            write(dir.path(), threads);
            queue.read_below(dir.path(), ["7"].into_iter())
        };
        assert_eq!(read(&[(7, "50 100 3"), (8, "50 1000 3")]), Some(1100));
        assert_eq!(
            read(&[(7, "60 150 4"), (9, "5 20 1")]),
            Some(1170),
            "8 ended"
        );
        assert_eq!(read(&[(7, "60 150 5"), (9, "1 3 1")]), Some(1173), "9 anew");
        assert_eq!(
            read(&[(7, "61 160 6"), (9, "0 0 0")]),
            Some(1183),
            "not run"
        );
    }

    #[test]
    fn a_thread_that_cannot_be_read_is_not_taken_for_one_that_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let mut queue = RunQueue::default();
        let mut read = || queue.read_below(dir.path(), ["7"].into_iter());
        write(dir.path(), &[(7, "50 100 3")]);
        assert_eq!(read(), Some(100));
        let file = dir.path().join("7/task/7/schedstat");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(read(), None);
        write(dir.path(), &[(7, "60 110 4")]);
        assert_eq!(read(), Some(110));
    }

    #[test]
    fn a_kernel_without_the_counter_gives_no_figure() {
        let dir = tempfile::tempdir().unwrap();
        let mut queue = RunQueue::default();
        write(dir.path(), &[(7, "0 0 0\n")]);
        assert_eq!(queue.read_below(dir.path(), ["7"].into_iter()), None);
        assert_eq!(queue.read_below(dir.path(), ["8"].into_iter()), None);
    }
}
