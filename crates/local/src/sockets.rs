//! Processes of this machine by an environment variable, and the addresses that they listen on.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// The processes with an environment variable whose value begins with `prefix`, and the values; without those that have
/// ended.
pub(super) fn with_variable(name: &str, prefix: &str) -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // The environment of a process that has ended is empty.
    let value = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let text = String::from_utf8_lossy(&environment);
        let mut values = text
            .split('\0')
            .filter_map(|v| v.strip_prefix(name)?.strip_prefix('='));
        let value = values.find(|v| v.starts_with(prefix))?;
        Some((pid, value.to_owned()))
    };
    pids.filter_map(value).collect()
}

/// The processes that work in a directory.
pub(super) fn working_in(dir: &Path) -> Vec<u32> {
    let Ok(dir) = dir.canonicalize() else {
        return Vec::new();
    };
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_there = |pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|d| d == dir);
    pids.filter(is_there).collect()
}

/// The command line of a process, for messages.
pub(super) fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    text.trim().to_owned()
}

/// Sends SIGKILL.
pub(super) fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Sends a signal.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Whether a process is in the network namespace of this thread.
pub(super) fn shares_network(pid: u32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/net")).ok();
    namespace(&pid.to_string()) == namespace("thread-self")
}

/// The addresses on which these processes listen for TCP. All of them are in the same network namespace.
pub(super) fn listening(pids: &[u32]) -> Vec<SocketAddr> {
    let mut inodes = BTreeSet::new();
    for pid in pids {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            continue;
        };
        inodes.extend(files.filter_map(|f| {
            let target = fs::read_link(f.ok()?.path()).ok()?;
            let inode = target
                .to_str()?
                .strip_prefix("socket:[")?
                .strip_suffix(']')?;
            inode.parse::<u64>().ok()
        }));
    }
    let Some(first) = pids.first() else {
        return Vec::new();
    };
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{first}/net/{table}"));
    let tables = tables.into_iter();
    let texts = tables.filter_map(|path| fs::read_to_string(path).ok());
    let sockets = texts.flat_map(|text| parse(&text, LISTEN));
    let own = sockets.filter(|socket| inodes.contains(&socket.inode));
    own.map(|socket| socket.local).collect()
}

/// Where the open connections for TCP over IPv4 lead, in the network namespace of this process: each end is a connection.
pub(super) fn established() -> Vec<SocketAddr> {
    let table = fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
    let sockets = parse(&table, ESTABLISHED).into_iter();
    sockets.map(|socket| socket.remote).collect()
}

/// States of a socket.
const LISTEN: &str = "0A";
const ESTABLISHED: &str = "01";

/// A socket in a table of the kernel.
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    inode: u64,
}

/// The sockets of a table of the kernel in a state.
///
/// Source: Linux, Documentation/networking/proc_net_tcp.rst. Addresses are words of 32 bits in the byte order
/// of the machine, ports are numbers.
fn parse(table: &str, state: &str) -> Vec<Socket> {
    let address = |field: &str| {
        let (ip, port) = field.split_once(':')?;
        let words = ip.as_bytes().chunks(8).map(|word| {
            let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
            Some(word.to_ne_bytes())
        });
        let bytes = words.collect::<Option<Vec<_>>>()?.concat();
        let ip = match <[u8; 4]>::try_from(&bytes[..]) {
            Ok(four) => IpAddr::V4(Ipv4Addr::from(four)),
            Err(_) => {
                IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[..]).ok()?)).to_canonical()
            }
        };
        let port = u16::from_str_radix(port, 16).ok()?;
        Some(SocketAddr::new(ip, port))
    };
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if *fields.get(3)? != state {
            return None;
        }
        Some(Socket {
            local: address(fields.get(1)?)?,
            remote: address(fields.get(2)?)?,
            inode: fields.get(9)?.parse().ok()?,
        })
    };
    table.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_listeners_of_this_process_are_found() {
        let four = TcpListener::bind("127.71.0.9:0").unwrap();
        let all = TcpListener::bind("[::]:0").unwrap();
        let found = listening(&[std::process::id()]);
        assert!(found.contains(&four.local_addr().unwrap()), "{found:?}");
        assert!(found.contains(&all.local_addr().unwrap()), "{found:?}");
        assert_eq!(listening(&[]), []);
        let open = std::net::TcpStream::connect(four.local_addr().unwrap()).unwrap();
        let found = established();
        assert!(found.contains(&open.peer_addr().unwrap()), "{found:?}");
        assert!(found.contains(&open.local_addr().unwrap()), "{found:?}");
        assert!(shares_network(std::process::id()));
    }

    #[test]
    fn a_process_is_found_by_its_variable_and_killed() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .env("TARE_TEST_SOCKETS", "a mark")
            .spawn()
            .unwrap();
        // The new program has its environment once `spawn` returns.
        let found = with_variable("TARE_TEST_SOCKETS", "a m");
        assert_eq!(found, [(child.id(), "a mark".to_owned())]);
        assert_eq!(command_line(child.id()), "sleep 600");
        assert_eq!(with_variable("TARE_TEST_SOCKETS", "b"), []);
        kill(child.id());
        assert!(!child.wait().unwrap().success());
        assert_eq!(with_variable("TARE_TEST_SOCKETS", "a mark"), []);
    }
}
