//! Pins each event loop to its own core.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that this process may run on, in order.
///
/// # Errors
/// Errors of the kernel.
pub(crate) fn allowed() -> std::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect())
}

/// Pins the calling thread to `core`.
///
/// # Errors
/// Errors of the kernel.
pub(crate) fn pin_to(core: usize) -> std::io::Result<()> {
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
            pin_to(core).unwrap();
            allowed().unwrap()
        });
        assert_eq!(seen.join().unwrap(), [core]);
    }
}
