//! A core of its own for each event loop.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this process may run on, in order.
///
/// # Errors
/// The kernel's.
pub(crate) fn allowed() -> std::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect())
}

/// Keeps the calling thread on `core`.
///
/// # Errors
/// The kernel's.
pub(crate) fn stay_on(core: usize) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_has_one_core() {
        let core = *allowed().unwrap().last().unwrap();
        let seen = std::thread::spawn(move || {
            stay_on(core).unwrap();
            allowed().unwrap()
        });
        assert_eq!(seen.join().unwrap(), [core]);
    }
}
