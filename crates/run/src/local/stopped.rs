//! Proofs for sidecars of which tare knows nothing but their process: while the process is stopped, no call
//! that passes it gets a response, and after that the same call does.

use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::{Pid, Signal, kill_process_group};
use tare_model::trial::Proof;
use tokio::time::Instant;

use super::LocalDeployment;
use super::child::Process;
use super::echo;
use super::prove::{Check, all_pass, wrong_arrival};
use super::topology::Sides;
use crate::proc::parse;

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

/// A process group that is stopped until this is dropped.
struct Stopped(Pid);

impl Stopped {
    /// Stops the process and those that it has started, and waits until no thread of the process runs.
    async fn new(process: &Process) -> Result<Self, String> {
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or("it has no process id")?;
        kill_process_group(pid, Signal::STOP).map_err(|e| format!("failed to stop it: {e}"))?;
        let stopped = Self(pid);
        let deadline = Instant::now() + STOPPED_WITHIN;
        while !is_stopped(process.pid) {
            if Instant::now() > deadline {
                return Err(format!(
                    "it did not stop within {} s",
                    STOPPED_WITHIN.as_secs()
                ));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(stopped)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::CONT);
    }
}

/// Proves for each pod that the calls to it pass its sidecar. Each pod takes [`WAIT`].
pub(super) async fn prove(deployment: &LocalDeployment) -> Vec<Proof> {
    let mut checks = Vec::new();
    for (i, pod) in deployment.topology.pods.iter().enumerate() {
        let name = format!("{}/sidecar", pod.name);
        let sidecar = deployment.processes.iter().find(|p| p.name == name);
        if let Some(sidecar) = sidecar {
            let check = calls_pass(deployment, i, sidecar).await;
            checks.push((name, check));
        }
    }
    let claim = "no call gets a response while the sidecar of the called service is stopped, and the same \
                 calls get one after that";
    vec![all_pass(claim, checks)]
}

/// Checks that no call to this pod gets a response while its sidecar is stopped.
async fn calls_pass(deployment: &LocalDeployment, pod: usize, sidecar: &Process) -> Check {
    let topology = &deployment.topology;
    let sides = Sides::of(&deployment.mesh);
    let paths = echo::paths_to(topology, sides, pod).into_iter();
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
