//! The private directory of a run (keys, sockets) and its addresses.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::proc::parse;

/// Maximum length of the path of a Unix socket (108 bytes with the final zero).
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// A directory that only this user can enter. Its name contains the id of the process, so that
/// [`dead`] can find the directory of a killed one. Dropping it removes the directory.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    /// Creates a directory below `parent`. Its name starts with `prefix`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(crate) fn new(parent: &Path, prefix: &str) -> io::Result<Self> {
        let pid = std::process::id();
        let start = start_ticks(pid).ok_or_else(|| {
            io::Error::other("/proc/self/stat could not be read; is /proc mounted?")
        })?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{prefix}-{pid}-{start}-{count}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// Creates a private directory inside.
    ///
    /// # Errors
    /// When it cannot be created.
    pub(super) fn dir(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories that [`dead`] finds.
pub(crate) fn sweep(parent: &Path, prefix: &str) {
    for dir in dead(parent, prefix) {
        let _ = fs::remove_dir_all(dir);
    }
}

/// The directories with this prefix whose processes have ended, and that belong to this user.
pub(super) fn dead(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let me = rustix::process::getuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some((pid, start)) = name.to_str().and_then(|n| owner(n, prefix)) else {
            continue;
        };
        // Never follows a link, and never touches files of other users.
        let mine = fs::symlink_metadata(entry.path()).is_ok_and(|m| m.is_dir() && m.uid() == me);
        if mine && start_ticks(pid) != Some(start) {
            found.push(entry.path());
        }
    }
    found
}

/// The process of a directory: its id and start.
fn owner(name: &str, prefix: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-');
    let pid = parts.next()?.parse().ok()?;
    let start = parts.next()?.parse().ok()?;
    parts.next()?.parse::<u32>().ok()?;
    parts.next().is_none().then_some((pid, start))
}

fn start_ticks(pid: u32) -> Option<u64> {
    parse::stat_start_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// A part of the loopback network, `127.N.0.0/16`, reserved for this run. A listener on its last
/// address is the lock: the kernel releases it even when tare is killed.
#[derive(Debug)]
pub(super) struct Network {
    second: u8,
    _held: TcpListener,
}

impl Network {
    const LOWEST: u8 = 64;
    const HIGHEST: u8 = 127;
    /// Below the range of ports that the kernel uses for outgoing connections.
    const LOCK_PORT: u16 = 15999;

    /// Reserves the first free network. The search starts at a network that depends on the process
    /// id.
    ///
    /// # Errors
    /// When all are in use.
    pub(super) fn take() -> io::Result<Self> {
        let span = u32::from(Self::HIGHEST - Self::LOWEST) + 1;
        let mut last = io::Error::other("no free network");
        for i in 0..span {
            let second = Self::LOWEST + ((std::process::id() + i) % span) as u8;
            let lock = SocketAddrV4::new(Ipv4Addr::new(127, second, 255, 254), Self::LOCK_PORT);
            match TcpListener::bind(lock) {
                Ok(held) => {
                    return Ok(Self {
                        second,
                        _held: held,
                    });
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Second octet.
    pub(super) fn second(&self) -> u8 {
        self.second
    }

    /// Returns the first of `ports` that is not free in this network, and the reason. The network
    /// is reserved for this run, so such a port is held by a socket that listens on all addresses.
    pub(super) fn taken(&self, ports: &[u16]) -> Option<(u16, io::Error)> {
        ports.iter().find_map(|&port| {
            let pod = SocketAddrV4::new(Ipv4Addr::new(127, self.second, 0, 1), port);
            TcpListener::bind(pod).err().map(|error| (port, error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_private_and_removed_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path(), "tare-run").unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::write(path.join("key"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn only_directories_of_killed_runs_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let alive = Scratch::new(parent.path(), "tare-run").unwrap();
        let my_pid_before = make(&format!("tare-run-{}-1-0", std::process::id()));
        let dead = make("tare-run-4194305-12-0");
        let foreign = [make("tare-run-x-1-0"), make("tare-runs"), make("other")];
        std::os::unix::fs::symlink(&foreign[2], parent.path().join("tare-run-4194306-1-0"))
            .unwrap();
        let mut found = super::dead(parent.path(), "tare-run");
        found.sort();
        let mut expected = [dead.clone(), my_pid_before.clone()];
        expected.sort();
        assert_eq!(found, expected);
        sweep(parent.path(), "tare-run");
        assert!(!dead.exists() && !my_pid_before.exists());
        assert!(alive.path().exists() && foreign.iter().all(|p| p.exists()));
    }

    #[test]
    fn two_runs_have_two_networks() {
        let (a, b) = (Network::take().unwrap(), Network::take().unwrap());
        assert_ne!(a.second(), b.second());
    }

    #[test]
    fn a_listener_on_all_addresses_occupies_the_port_of_every_pod() {
        let network = Network::take().unwrap();
        let everywhere = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = everywhere.local_addr().unwrap().port();
        let (found, error) = network.taken(&[port]).unwrap();
        assert_eq!((found, error.kind()), (port, io::ErrorKind::AddrInUse));
        drop(everywhere);
        assert!(network.taken(&[port]).is_none());
    }
}
