//! What all workers have in common.

use anyhow::{Context, bail};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// With `TARE_DIE_WITH_PARENT` in the environment, the kernel ends this process
/// when the thread that started it ends: `kill -9` of tare leaves no orphan. The
/// value is the parent's process id, or 1 for whoever is the parent.
pub(crate) fn die_with_parent() -> anyhow::Result<()> {
    let Some(value) = std::env::var_os("TARE_DIE_WITH_PARENT") else {
        return Ok(());
    };
    let value: i32 = value
        .to_str()
        .and_then(|v| v.parse().ok())
        .with_context(|| format!("found TARE_DIE_WITH_PARENT={value:?}, expected a process id"))?;
    let parent = || getppid().map_or(0, |pid| pid.as_raw_pid());
    let expected = if value == 1 { parent() } else { value };
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot tie this process to its parent")?;
    // The parent may have gone before the kernel knew that it matters.
    if parent() != expected {
        bail!("the parent process ended before this one had started");
    }
    Ok(())
}
