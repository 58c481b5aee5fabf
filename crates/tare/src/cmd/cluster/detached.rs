//! `tare detached`: what the pods of a detached run do. Hidden, because only tare's Job and `tare fetch` start it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Subcommand;
use tare_cluster::detached::{DetachedRun, Inside, write_kubeconfig};
use tare_cluster::transfer;
use tare_records::layout;
use tokio::sync::watch;

use crate::cmd::exit;
use crate::cmd::output::{Output, say};
use crate::cmd::run::ended::{analyse, conclude};
use crate::cmd::run::one::RunStart;
use crate::cmd::run::{Conditions, STOPPING, conduct, stop_on_signal};

/// Pause between two attempts to lock the volume.
const PAUSE: Duration = Duration::from_secs(1);

/// What the pods of a detached run do.
#[derive(Subcommand)]
pub(crate) enum Action {
    /// Begin or continue the run.
    Run {
        /// File with the specification of the run.
        #[arg(long)]
        spec: PathBuf,
        /// Directory where the volume is mounted.
        #[arg(long)]
        data: PathBuf,
        /// Directory with the token of the service account.
        #[arg(long, default_value = "/var/run/secrets/kubernetes.io/serviceaccount")]
        account: PathBuf,
    },
    /// Send the run directory.
    Send {
        /// The run directory.
        #[arg(long)]
        dir: PathBuf,
    },
}

pub(crate) fn run(action: &Action) -> anyhow::Result<ExitCode> {
    match action {
        Action::Run {
            spec,
            data,
            account,
        } => orchestrate(spec, data, account),
        Action::Send { dir } => {
            transfer::serve(dir, transfer::PORT)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Begins the run, or continues it if another pod has begun it. Returns success if the run has ended, whatever its result,
/// so that the Job starts no other pod. After an error or SIGTERM, the Job starts another pod, which continues.
fn orchestrate(spec: &Path, data: &Path, account: &Path) -> anyhow::Result<ExitCode> {
    let run: DetachedRun = serde_json::from_slice(&crate::cmd::input::read(spec)?)
        .with_context(|| format!("invalid {}", spec.display()))?;
    ensure!(
        run.schema_version == tare_plan::SCHEMA_VERSION,
        "found a run of schema version {}, expected {}: the image needs the version of tare that started the run",
        run.schema_version,
        tare_plan::SCHEMA_VERSION
    );
    let stop = stop_on_signal(STOPPING)?;
    find_cluster(account)?;
    let runtime = crate::cmd::runtime()?;
    let inside = runtime.block_on(Inside::connect(&run))?;
    // The volume may have files of others, and other runs.
    let file = data.join(format!("{}.lock", run.id));
    let Some(_lock) = runtime.block_on(lock(&file, stop.asked.clone()))? else {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    if let Some(code) = runtime.block_on(inside.end())? {
        say(format_args!(
            "the run has ended already, with exit code {code}"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let dir = data.join(&run.id);
    let start = start(run, &dir)?;
    let done = conduct(
        &runtime,
        start,
        &Conditions::default(),
        stop.asked.clone(),
        None,
    )?;
    stop.children_have_ended();
    let Some(mut done) = done else {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    };
    done.resume = "Another pod of the Job continues the run.".to_owned();
    let analysed = analyse(&done, Some(Output::Text));
    let code = conclude(&done, analysed, "")?;
    if !done.is_complete() {
        return Ok(ExitCode::from(code));
    }
    runtime.block_on(inside.record_end(code))?;
    say(format_args!("the run has ended with exit code {code}"));
    Ok(ExitCode::SUCCESS)
}

/// Writes the kubeconfig of the pod's service account to the path in TARE_KUBECONFIG, unless a file is there.
fn find_cluster(account: &Path) -> anyhow::Result<()> {
    let variable = |name: &str| {
        std::env::var(name).with_context(|| format!("{name} is not set: this is not a pod of tare"))
    };
    let path = PathBuf::from(variable("TARE_KUBECONFIG")?);
    if path.exists() {
        return Ok(());
    }
    let (host, port) = (
        variable("KUBERNETES_SERVICE_HOST")?,
        variable("KUBERNETES_SERVICE_PORT")?,
    );
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host,
    };
    write_kubeconfig(account, &format!("https://{host}:{port}"), &path)
        .context("failed to use the service account of the pod")
}

/// Locks the volume, so that a pod that is still ending and the pod that replaces it do not run at the same time. The
/// kernel releases the lock of a killed process. Returns `None` after SIGTERM.
async fn lock(path: &Path, mut stop: watch::Receiver<bool>) -> anyhow::Result<Option<File>> {
    let failed = || format!("failed to lock {}", path.display());
    let file = File::create(path).with_context(failed)?;
    let mut waiting = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error).with_context(failed),
        }
        if !std::mem::replace(&mut waiting, true) {
            say("waiting for the end of another pod of this run");
        }
        tokio::select! {
            _ = stop.wait_for(|s| *s) => return Ok(None),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

fn start(run: DetachedRun, dir: &Path) -> anyhow::Result<RunStart> {
    if dir.join(layout::RUN).exists() {
        return RunStart::resume(dir);
    }
    if dir.exists() {
        // A pod was killed before it had written the manifest, which is before the first trial.
        std::fs::remove_dir_all(dir)
            .with_context(|| format!("failed to remove {}", dir.display()))?;
    }
    Ok(RunStart {
        id: run.id,
        started_unix_ns: run.started_unix_ns,
        plan: run.plan,
        text: run.plan_text,
        dir: dir.to_owned(),
        resumed: None,
        added: None,
        note: None,
        profile: run.profile,
    })
}
