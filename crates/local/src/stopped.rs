//! Proofs for sidecars for which tare has no counters: while these are stopped, no call
//! that passes them gets a response, and after that the same call does.

use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::Signal;
use tare_records::process::sidecar_of;
use tare_records::trial::Proof;
use tokio::time::Instant;

use super::LocalDeployment;
use super::child::Process;
use super::echo;
use super::prove::{Check, all_pass, wrong_arrival};
use super::sockets;
use super::topology::Sides;
use tare_run::proc::{parse, tree};

/// How long a call must stay without a response. A call past the sidecar takes a few milliseconds.
const WAIT: Duration = Duration::from_millis(250);

/// How long the threads of a sidecar may take to stop on a busy machine.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// Whether all threads of a process are stopped.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        parse::stat_state(&stat) == Some('T')
    })
}

/// The processes below a keeper, stopped until this is dropped.
struct Stopped(Vec<u32>);

impl Stopped {
    /// Stops all processes of a sidecar, also those that start meanwhile, and waits until no thread of them runs.
    async fn new(sidecar: &Process) -> Result<Self, String> {
        let mut stopped = Self(Vec::new());
        let deadline = Instant::now() + STOPPED_WITHIN;
        loop {
            let all = tree::descendants(sidecar.pid).into_iter();
            let all: Vec<u32> = all.filter(|pid| tree::is_living(*pid)).collect();
            if all.is_empty() {
                return Err("it has ended".to_owned());
            }
            if all
                .iter()
                .all(|pid| stopped.0.contains(pid) && is_stopped(*pid))
            {
                return Ok(stopped);
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "it did not stop within {} s",
                    STOPPED_WITHIN.as_secs()
                ));
            }
            for pid in all.into_iter().filter(|pid| !is_stopped(*pid)) {
                sockets::signal(pid, Signal::STOP);
                stopped.0.push(pid);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0
            .iter()
            .for_each(|pid| sockets::signal(*pid, Signal::CONT));
    }
}

/// Proves for each pod that the calls to it, and those of it on the side of the caller, pass its sidecar. Each pod takes
/// [`WAIT`].
pub(super) async fn prove(deployment: &LocalDeployment) -> Vec<Proof> {
    let mut checks = Vec::new();
    for (i, pod) in deployment.topology.pods.iter().enumerate() {
        let name = sidecar_of(&pod.name);
        let sidecar = deployment.processes.iter().find(|p| p.name == name);
        if let Some(sidecar) = sidecar {
            let check = calls_pass(deployment, i, sidecar).await;
            checks.push((name, check));
        }
    }
    let claim = "no call gets a response while a sidecar on its way is stopped, and the same calls get one \
                 after that";
    vec![all_pass(claim, checks)]
}

/// Checks that no call through the sidecar of this pod gets a response while its sidecar is stopped.
async fn calls_pass(deployment: &LocalDeployment, pod: usize, sidecar: &Process) -> Check {
    let topology = &deployment.topology;
    let sides = Sides::of(&deployment.mesh);
    let paths = echo::paths_through(topology, sides, pod).into_iter();
    let calls = paths.map(|path| Box::pin(echo::last_edges(topology, sides, path)));
    let mut calls: Vec<_> = calls.collect();
    if calls.is_empty() {
        return Ok(Some("it is not called".to_owned()));
    }
    let stopped = Stopped::new(sidecar).await?;
    let early = calls.iter_mut().map(|c| tokio::time::timeout(WAIT, c));
    let early = join_all(early).await;
    drop(stopped);
    if let Some(ended) = early.into_iter().flatten().flatten().next() {
        let from = &topology.pods[ended.from].name;
        return Err(match ended.received {
            Ok(_) => format!("a call of {from} got a response although the sidecar was stopped"),
            Err(error) => format!("a call of {from}: {error}"),
        });
    }
    for edge in join_all(calls).await.into_iter().flatten() {
        wrong_arrival(&topology.pods[edge.to], &edge, |_| None)?;
    }
    Ok(None)
}
