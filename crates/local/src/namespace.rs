//! Network namespaces: one of the run, and one of each pod whose program has a network of its own.
//!
//! The namespace of the run takes the place of the machine's network: generator, sidecars and services run there, and
//! so does this thread. A bridge in it connects the namespaces of pods, as on a node of a cluster. No namespace has a
//! name: each exists as long as a process or a file of tare holds it, so `kill -9` of tare leaves none, and the network
//! of the machine does not change.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sched::{CloneFlags, setns, unshare};

use tare_run::environment::EnvironmentError;

/// Program that configures networks.
const IP: &str = "ip";
/// Name of the bridge in the namespace of the run.
const BRIDGE: &str = "pods";
/// Address of the run's namespace, from which it calls pods.
const RUN: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The namespace of the run. Dropping it returns this thread to the network of the machine.
#[derive(Debug)]
pub(super) struct Hub {
    machine: File,
    run: File,
    pods: AtomicU32,
}

impl Hub {
    /// Creates the namespace, and moves this thread and the processes that it starts into it.
    ///
    /// # Errors
    /// When the permission or the program `ip` is missing. This thread is then in the network of the machine.
    pub(super) fn enter() -> Result<Self, EnvironmentError> {
        let missing = |found: io::Error| {
            let what = format!(
                "failed to create a network namespace, which `network: own` of a service needs: {found}"
            );
            let is_forbidden = found.kind() == io::ErrorKind::PermissionDenied
                || found.to_string().contains("not permitted");
            let remedy = match found.kind() {
                io::ErrorKind::NotFound => "install iproute2, which contains the program `ip`",
                _ if is_forbidden => {
                    "run tare as root, or as `unshare --map-root-user tare run ...`; in a container add the \
                     capabilities SYS_ADMIN and NET_ADMIN"
                }
                _ => "use a kernel with network namespaces, veth and bridges",
            };
            EnvironmentError::missing(what, remedy)
        };
        let machine = current().map_err(missing)?;
        // All addresses of pods are local, except those with a route of their own.
        let setup = format!(
            "link set lo up\naddr add {RUN}/32 dev lo\nroute add local 10.0.0.0/8 dev lo table local\nlink add \
             {BRIDGE} type bridge\nlink set {BRIDGE} up\n"
        );
        match created(&setup) {
            Ok(run) => Ok(Self {
                machine,
                run,
                pods: AtomicU32::new(0),
            }),
            Err(found) => {
                let _ = join(&machine);
                Err(missing(found))
            }
        }
    }

    /// Creates the namespace of a pod with this address, and connects it. This thread is in the namespace of the run.
    ///
    /// # Errors
    /// What failed.
    pub(super) fn pod(self: &Arc<Self>, ip: Ipv4Addr) -> Result<Namespace, String> {
        let failed = |e: io::Error| format!("failed to create its network namespace: {e}");
        let link = format!("pod{}", self.pods.fetch_add(1, Ordering::Relaxed));
        let run = format!("/proc/{}/fd/{}", std::process::id(), self.run.as_raw_fd());
        // With a fixed hardware address, what the bridge has learned in an earlier trial stays true.
        let [a, b, c, d] = ip.octets();
        let inside = format!(
            "link set lo up\nlink add eth0 address 02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x} type veth peer name {link} \
             netns {run}\naddr add {ip}/8 dev eth0\nlink set eth0 up\n"
        );
        let own = created(&inside);
        join(&self.run).map_err(failed)?;
        let own = own.map_err(failed)?;
        let namespace = Namespace {
            hub: self.clone(),
            own,
            link,
        };
        let link = &namespace.link;
        let outside = format!(
            "link set {link} master {BRIDGE} up\nroute replace {ip}/32 dev {BRIDGE} table local src {RUN}\n"
        );
        configure(&outside).map_err(failed)?;
        Ok(namespace)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // A user who is root only in a user namespace may not return. Nothing after the run needs the network.
        if let Err(found) = join(&self.machine) {
            tracing::debug!("failed to return to the network of the machine: {found}");
        }
    }
}

/// The namespace of a pod. Dropping it removes its link to the namespace of the run.
#[derive(Debug)]
pub(super) struct Namespace {
    hub: Arc<Hub>,
    own: File,
    link: String,
}

impl Namespace {
    /// Calls `start` with this thread in the namespace: the processes that it starts stay there.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn run<T>(&self, start: impl FnOnce() -> T) -> io::Result<T> {
        join(&self.own)?;
        let started = start();
        join(&self.hub.run)?;
        Ok(started)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The kernel would remove it as well, but only some time after the last process has ended.
        let _ = configure(&format!("link del {}\n", self.link));
    }
}

/// The network namespace of this thread.
fn current() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

fn join(namespace: &File) -> io::Result<()> {
    Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?)
}

/// Creates a namespace and configures it. This thread is then in it, also if that fails.
fn created(setup: &str) -> io::Result<File> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    configure(setup)?;
    current()
}

/// Executes commands of the program `ip`, one a line, in the namespace of this thread.
fn configure(commands: &str) -> io::Result<()> {
    let child = Command::new(IP)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.map_err(|e| io::Error::new(e.kind(), format!("`{IP}`: {e}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(commands.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let errors: Vec<&str> = errors.lines().collect();
            Err(io::Error::other(format!("`{IP}`: {}", errors.join("; "))))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    /// Whether namespaces are permitted here. If not, tare must report it, and the test is skipped.
    pub(in super::super) fn permitted() -> bool {
        let unshare = Command::new("unshare").args(["--net", "true"]).output();
        if unshare.unwrap().status.success() {
            return true;
        }
        let error = Hub::enter().unwrap_err().to_string();
        assert!(error.contains("run tare as root"), "{error}");
        let words = "namespace: skipped what needs the permission to create network namespaces\n";
        io::stderr().write_all(words.as_bytes()).unwrap();
        false
    }

    /// The hub and the namespaces of two pods, in this thread; `None` where they are forbidden.
    fn pods() -> Option<(Arc<Hub>, [Namespace; 2])> {
        if !permitted() {
            return None;
        }
        let hub = Arc::new(Hub::enter().unwrap());
        let pod = |last| hub.pod(Ipv4Addr::new(10, 64, 0, last)).unwrap();
        let pods = [pod(2), pod(3)];
        Some((hub, pods))
    }

    #[test]
    fn pods_reach_each_other_and_have_the_same_port() {
        let Some((hub, [a, b])) = pods() else { return };
        let listen = || TcpListener::bind("0.0.0.0:8080").unwrap();
        let (_at_a, _at_b) = (a.run(listen).unwrap(), b.run(listen).unwrap());
        let _here = TcpListener::bind("10.64.0.1:8080").unwrap();
        let reached = |at: &str| TcpStream::connect(at).map(drop).map_err(|e| e.kind());
        let all = ["10.64.0.1:8080", "10.64.0.2:8080", "10.64.0.3:8080"];
        for at in all {
            assert_eq!(reached(at), Ok(()), "from the run to {at}");
            assert_eq!(a.run(|| reached(at)).unwrap(), Ok(()), "from a to {at}");
        }
        assert_eq!(reached("10.64.0.2:81"), Err(ErrorKind::ConnectionRefused));
        assert_eq!(reached("10.64.0.9:80"), Err(ErrorKind::ConnectionRefused));
        // A pod of a later trial has the same address.
        drop((a, _at_a));
        let again = hub.pod(Ipv4Addr::new(10, 64, 0, 2)).unwrap();
        let _listener = again.run(listen).unwrap();
        assert_eq!(reached("10.64.0.2:8080"), Ok(()));
    }

    #[test]
    fn the_network_of_the_machine_is_as_before() {
        let links = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let names = |text: String| -> Vec<String> {
            let names = text
                .lines()
                .filter_map(|l| Some(l.split_once(':')?.0.to_owned()));
            names.collect()
        };
        let before = names(links());
        let Some((hub, pods)) = pods() else { return };
        assert!(links().contains(BRIDGE));
        drop((pods, hub));
        assert_eq!(names(links()), before);
    }
}
