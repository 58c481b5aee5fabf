//! Starts generators and agents, the workers whose records the experiment reads.

use std::path::Path;
use std::time::Duration;

use tare_records::layout;
use tare_records::worker::{Plane, WatchedProcess};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::child::{Launch, Process};
use tare_run::environment::{EnvironmentError, Worker, WorkerSpec};
use tare_run::lines::Lines;

/// Maximum number of lines that wait for the experiment: those of many generators in a minute.
const LINES_WAITING_MAX: usize = 4096;
/// Time limit for a generator to open its connections.
const ARMED_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn start(
    tare: &Path,
    spec: &WorkerSpec,
    dir: &Path,
    tasks: &mut JoinSet<()>,
) -> Result<Worker, EnvironmentError> {
    let (name, command, json) = match spec {
        WorkerSpec::Generator(spec) => ("generator", "load", serde_json::to_vec(spec)),
        WorkerSpec::Agent(spec) | WorkerSpec::IdleAgent(spec) => {
            ("agent", "agent", serde_json::to_vec(spec))
        }
    };
    let launch = Launch {
        tare,
        name: name.to_owned(),
        log: dir.join(layout::LOGS).join(format!("{name}.log")),
    };
    let mut process = launch
        .worker(&[command, "--spec", "-"])
        .map_err(|e| EnvironmentError::start(name, e))?;
    if let Some(mut stdin) = process.child.stdin.take() {
        // A broken pipe means that the worker ended, which its stream shows.
        let _ = stdin.write_all(&json.unwrap_or_default()).await;
    }
    let watched = vec![
        WatchedProcess::process("generator", Plane::Generator, process.pid),
        WatchedProcess::process("tare", Plane::Tare, std::process::id()),
    ];
    let (lines_sender, lines) = mpsc::channel(LINES_WAITING_MAX);
    let (stop, stop_receiver) = mpsc::channel(1);
    tasks.spawn(supervise(process, lines_sender, stop_receiver));
    Ok(Worker {
        watched,
        armed_within: ARMED_WITHIN,
        lines,
        stop,
    })
}

/// Forwards lines until the worker ends. Returning drops the process, which kills it if it still
/// runs.
async fn supervise(
    mut process: Process,
    lines: mpsc::Sender<String>,
    mut stop: mpsc::Receiver<()>,
) {
    let Some(stdout) = process.child.stdout.take() else {
        return;
    };
    let mut reader = Lines::new(stdout);
    loop {
        tokio::select! {
            line = reader.next() => match line {
                Ok(Some(line)) => if lines.send(line).await.is_err() {
                    return;
                },
                Ok(None) | Err(_) => break,
            },
            asked = stop.recv() => match asked {
                Some(()) => process.terminate(),
                None => return,
            },
        }
    }
    let _ = process.child.wait().await;
}
