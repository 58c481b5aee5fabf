//! Services that are programs of the user: how they start, when they are ready, and the proof that their calls pass
//! the sidecars. Such a program has none of the endpoints of tare's own servers.

mod prove;

use std::collections::BTreeMap;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use tare_plan::graph;
use tare_plan::graph::{ServiceGraph, ServiceProtocol};
use tare_records::trial::{Event, EventKind};
use tokio::time::Instant;

use super::child::Process;
use super::keeper;
use super::sockets;
use super::topology::{Pod, Sides, Topology};
use tare_run::events::event;
use tare_run::http as probe;

pub(super) use prove::prove;

/// Interval between readiness checks.
const POLL: Duration = Duration::from_millis(100);
/// How long a program may listen only where it should not before it counts as misplaced.
const MISPLACED_AFTER: Duration = Duration::from_secs(2);
/// What permits a program to listen where other programs of the deployment listen.
const PERMITTED: &str = "; `network: own` in its `command` permits it";
/// What programs write when an address is in use.
const IN_USE: [&str; 4] = [
    "already in use",
    "address in use",
    "eaddrinuse",
    "port is in use",
];
/// Environment variable by which the processes of a program are found. They inherit it.
const MARK: &str = "TARE_SERVICE";

/// The environment variables of a program with this mark.
pub(super) fn env(mark: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(MARK.to_owned(), mark.to_owned())])
}

/// Whether a message is about an address that is in use.
pub(super) fn is_in_use(message: &str) -> bool {
    let message = message.to_lowercase();
    IN_USE.iter().any(|words| message.contains(words))
}

/// A program to start.
pub(super) struct Program {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Its environment variables.
    pub env: BTreeMap<String, String>,
    /// Value of the variable [`MARK`], unique on this machine.
    pub mark: String,
    ready: String,
    ready_within: Duration,
    address: SocketAddrV4,
    authority: String,
    /// Whether it has a network of its own.
    has_own_network: bool,
    /// Whether other services use the port of this one, on other addresses of the same network.
    has_neighbours: bool,
    /// Whether the same program runs several times in the same network.
    has_copies: bool,
}

impl Program {
    /// The program of a pod; `None` if tare's own server serves it. `scratch` is a directory of this deployment alone.
    pub(super) fn of(
        topology: &Topology,
        pod: &Pod,
        graph: &ServiceGraph,
        sides: Sides,
        scratch: &Path,
    ) -> Result<Option<Self>, String> {
        let Some((service, command)) = pod.service.as_ref().and_then(|service| {
            let command = graph.service(&service.service)?.command.as_ref();
            Some((service, command?))
        }) else {
            return Ok(None);
        };
        let upstreams = topology.upstreams(pod, sides);
        let value = |name: &str, of: Option<&str>| {
            let address = match of {
                Some(of) => upstreams.get(of)?.connect.clone(),
                None => pod.application().to_string(),
            };
            let (host, port) = address.split_once(':')?;
            Some(match name {
                "url" => format!("http://{address}"),
                "host" => host.to_owned(),
                "port" => port.to_owned(),
                "instance" => service.instance.clone(),
                _ => address,
            })
        };
        let fill = |text: &String| {
            let filled = graph::fill(text, value);
            filled.map_err(|place| format!("found {place}, which has no value"))
        };
        let mark = scratch.join(pod.file_name()).display().to_string();
        let run = command.run.iter().map(fill).collect::<Result<_, _>>()?;
        let filled = command
            .env
            .iter()
            .map(|(name, text)| Ok((name.clone(), fill(text)?)));
        let mut env: BTreeMap<String, String> = filled.collect::<Result<_, String>>()?;
        env.extend(self::env(&mark));
        Ok(Some(Self {
            run,
            env,
            mark,
            ready: command.ready.clone(),
            ready_within: Duration::from_secs(u64::from(command.ready_within_s)),
            address: pod.application(),
            authority: service.authority(),
            has_own_network: service.has_own_network,
            has_neighbours: !service.has_own_network && topology.services().count() > 1,
            has_copies: !service.has_own_network
                && topology
                    .services()
                    .filter(|(_, s)| s.service == service.service)
                    .count()
                    > 1,
        }))
    }

    /// Waits until the program is ready.
    ///
    /// # Errors
    /// How it failed, with the last lines of its output.
    pub(super) async fn ready(&self, process: &mut Process) -> Result<(), String> {
        let start = Instant::now();
        let (mut misplaced_since, mut polls) = (None, 0);
        loop {
            tokio::time::sleep(POLL).await;
            let http = ServiceProtocol::Http;
            let answer =
                probe::get_at(self.address, http, None, &self.authority, &self.ready).await;
            let is_ready = answer
                .as_ref()
                .is_ok_and(|a| (200..400).contains(&a.status));
            if let Some(how) = process.ended_now() {
                let taken = self.port_taken(&how);
                return Err(how + &taken);
            }
            polls += 1;
            // This reads the sockets of all processes.
            let misplaced = match is_ready || polls % 10 == 0 {
                true => self.misplaced(),
                false => continue,
            };
            let since = *misplaced_since.get_or_insert_with(Instant::now);
            match &misplaced {
                Some(found) if is_ready || since.elapsed() > MISPLACED_AFTER => {
                    return Err(format!("{found}{}", process.log_tail()));
                }
                Some(_) => {}
                None => misplaced_since = None,
            }
            if is_ready {
                return Ok(());
            }
            if start.elapsed() > self.ready_within {
                let seen = match answer {
                    Ok(answer) => format!("status {}", answer.status),
                    Err(error) => error.to_string(),
                };
                let within_s = self.ready_within.as_secs();
                let found = format!(
                    "not ready within {within_s} s: GET {} on {}: {seen}{}",
                    self.ready,
                    self.address,
                    process.log_tail()
                );
                let taken = self.port_taken(&found);
                let path = match seen.starts_with("status ") {
                    true => {
                        "; `ready` of its `command` is the path that it answers once it is ready"
                    }
                    false => "",
                };
                return Err(found + &taken + path);
            }
        }
    }

    /// Which other program of the deployment has taken the port of this one, which ended like this; for a message.
    fn port_taken(&self, how: &str) -> String {
        if self.has_own_network {
            return String::new();
        }
        let in_use = is_in_use(how);
        let deployment = Path::new(&self.mark).parent().unwrap_or(Path::new("/"));
        let programs = sockets::with_variable(MARK, &deployment.display().to_string());
        let mut programs = programs
            .into_iter()
            .filter(|(pid, mark)| *mark != self.mark && sockets::shares_network(*pid));
        let taken = programs.find_map(|(pid, mark)| {
            let port = self.address.port();
            let mut found = sockets::listening(&[pid]).into_iter();
            let address = found.find(|a| match a.ip().is_unspecified() {
                true => in_use || a.port() == port,
                false => in_use && a.port() != port,
            })?;
            let name = Path::new(&mark).file_name()?.to_string_lossy().into_owned();
            Some(match address.ip().is_unspecified() {
                true => format!("; {name} listens on all addresses ({address}){PERMITTED}"),
                false => format!("; {name} listens on {address}{PERMITTED}"),
            })
        });
        let elsewhere = || format!("; a port that it uses is in use by another program{PERMITTED}");
        taken.or_else(|| in_use.then(elsewhere)).unwrap_or_default()
    }

    /// What is wrong with the addresses that the program listens on, if it listens.
    fn misplaced(&self) -> Option<String> {
        self.misplaced_among(&sockets::listening(&marked(&self.mark)))
    }

    fn misplaced_among(&self, listening: &[SocketAddr]) -> Option<String> {
        let address = self.address;
        let (expected, or_own) = match self.has_own_network {
            true => (
                format!("expected {address}, which is {{address}}, or all addresses"),
                "",
            ),
            false => (
                format!("expected only {address}, which is {{address}}"),
                PERMITTED,
            ),
        };
        let takes_the_port =
            |a: &&SocketAddr| a.ip().is_unspecified() && a.port() == self.address.port();
        let of_all = listening.iter().find(takes_the_port);
        if let Some(found) = of_all.filter(|_| self.has_neighbours) {
            return Some(format!(
                "it listens on all addresses ({found}), so that no other service can use this port; {expected}{or_own}"
            ));
        }
        let is_planned = |a: &&SocketAddr| **a == self.address.into() || takes_the_port(a);
        let is_there = listening.iter().any(|a| is_planned(&a));
        let others = listening.iter().filter(|a| !is_planned(a));
        let mut fixed = others.filter(|a| a.ip() != *self.address.ip() || !is_there);
        let found = fixed.next().filter(|_| self.has_copies || !is_there)?;
        Some(match is_there {
            true => format!(
                "it listens on {found} as well, which another instance of it cannot; {expected}{or_own}"
            ),
            false => format!("it listens on {found}; {expected}{or_own}"),
        })
    }
}

/// The processes of the programs of a deployment. Dropping it waits a while for their keepers,
/// which end them, and then kills those that are left.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// Names of the pods, with their marks.
    pub marks: Vec<(String, String)>,
}

impl Programs {
    /// Kills the processes that the programs have started and not ended. Returns an event for each.
    pub(super) fn end(&mut self) -> Vec<Event> {
        let marks = std::mem::take(&mut self.marks).into_iter();
        let names: BTreeMap<String, String> = marks.map(|(name, mark)| (mark, name)).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let left = || {
            let found = sockets::with_variable(MARK, "").into_iter();
            found.filter_map(|(pid, mark)| Some((pid, names.get(&mark)?)))
        };
        keeper::end_keepers(left().map(|(pid, _)| pid));
        let killed = left().map(|(pid, name)| {
            let command = sockets::command_line(pid);
            sockets::kill(pid);
            let found = format!("left the process {pid} ({command}) when it ended; tare killed it");
            event(EventKind::RemovedByForce, name, found)
        });
        killed.collect()
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Ends the keepers of all programs of a run, whose marks begin with this directory, and kills the
/// processes of the programs. Returns the ids and command lines of these processes.
pub(super) fn kill_all_of(dir: &str) -> Vec<(u32, String)> {
    let marked = || {
        let found = sockets::with_variable(MARK, &format!("{dir}/")).into_iter();
        found.map(|(pid, _)| pid)
    };
    let (keepers, programs): (Vec<u32>, Vec<u32>) =
        marked().partition(|pid| keeper::is_keeper(*pid));
    let lines = programs.iter().map(|pid| sockets::command_line(*pid));
    let found = programs.iter().copied().zip(lines).collect();
    keeper::end_keepers(keepers);
    keeper::wait_until(|| {
        marked().for_each(sockets::kill);
        marked().next().is_none()
    });
    found
}

/// The processes of a program, its own and those that it has started.
pub(super) fn marked(mark: &str) -> Vec<u32> {
    let found = sockets::with_variable(MARK, mark).into_iter();
    let same = found.filter(|(_, found)| found == mark);
    same.map(|(pid, _)| pid).collect()
}

#[cfg(test)]
mod tests;
