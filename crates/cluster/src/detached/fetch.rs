//! Fetches the run directory of a detached run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_files::DOCUMENT_BYTES_MAX;
use tare_plan::KubernetesSettings;
use tokio::time::sleep;

use super::attach::newest_pod;
use super::objects::reader;
use super::{DetachedRun, Place, find};
use crate::api::kinds::POD;
use crate::api::{ApiClient, kubeconfig};
use crate::objects::Pod;
use crate::objects::names::CONTAINER;
use crate::transfer;
use crate::transfer::{Failure, Receiver};
use crate::wait::wait;
use tare_files::unix_ns;
use tare_run::environment::EnvironmentError;

const POLL: Duration = Duration::from_millis(500);
/// Pause before a broken connection is opened again.
const PAUSE: Duration = Duration::from_millis(500);
/// How often a connection may break without a further complete file.
const ATTEMPTS_MAX: u32 = 20;
/// File in a fetched directory, with the id of its run. A directory with it is replaced when the run is fetched again.
pub const FETCHED: &str = ".fetched";

/// Fetches the run directory of a run into `out`, or into `runs/ID`, and returns this path; `None` if `stop` was ready
/// first. It works while the run is in progress and after its end, as long as its volume exists.
///
/// # Errors
/// If the run does not exist, `out` exists and is not an earlier fetch of it, or the files cannot be read.
pub async fn fetch(
    settings: &KubernetesSettings,
    id: Option<&str>,
    out: Option<&Path>,
    stop: impl Future<Output = ()>,
    say: &mut dyn FnMut(&str),
) -> Result<Option<PathBuf>, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    api.version().await?;
    let place = find(&api, id).await?;
    let run = DetachedRun::read(&api, &place).await?;
    let default = || Path::new("runs").join(&place.id);
    let out = out.map_or_else(default, Path::to_owned);
    check_target(&out, &place.id)?;
    let name = format!("reader-{:x}", unix_ns());
    // Several fetches at the same time have directories of their own.
    let partial = with_suffix(&out, &format!(".{name}"));
    let create = || {
        std::fs::create_dir_all(partial.parent().unwrap_or(Path::new("")))?;
        std::fs::create_dir(&partial)
    };
    create().map_err(EnvironmentError::io(format!(
        "create {}",
        partial.display()
    )))?;
    let settings = run.settings();
    let receive = receive(&api, &place, &settings, &name, &partial, say);
    let received = tokio::select! {
        received = receive => Some(received),
        () = stop => None,
    };
    if let Err(error) = api.delete(POD, Some(&place.namespace), &name).await {
        say(&format!("pod {name} remains until `tare clean`: {error}"));
    }
    let files = received.transpose().and_then(|files| match files {
        Some(0) => {
            let what = format!("the volume of run {} has no files yet", place.id);
            let remedy = format!("`tare attach {}` shows the state of the run", place.id);
            Err(EnvironmentError::missing(what, remedy))
        }
        Some(files) => {
            check_target(&out, &place.id)?;
            let kept = std::fs::write(partial.join(FETCHED), &place.id);
            let kept = kept.and_then(|()| replace(&partial, &out, &name));
            kept.map_err(EnvironmentError::io(format!("rename to {}", out.display())))?;
            Ok(Some(files))
        }
        None => Ok(None),
    });
    if !matches!(files, Ok(Some(_))) {
        let _ = std::fs::remove_dir_all(&partial);
    }
    Ok(files?.map(|files| {
        say(&format!("{files} files"));
        out
    }))
}

/// Fails unless a directory is new, empty, or an earlier fetch of this run.
fn check_target(out: &Path, id: &str) -> Result<(), EnvironmentError> {
    let is_empty = std::fs::read_dir(out).map(|mut entries| entries.next().is_none());
    match is_empty {
        Ok(true) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        _ => {}
    }
    let fetched = tare_files::read_text(&out.join(FETCHED), DOCUMENT_BYTES_MAX);
    if fetched.is_ok_and(|of| of == id) {
        return Ok(());
    }
    Err(EnvironmentError::missing(
        format!(
            "{} exists and is not an earlier fetch of run {id}",
            out.display()
        ),
        "choose another directory with --out",
    ))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Puts `new` in the place of `out`. `name` is unique.
fn replace(new: &Path, out: &Path, name: &str) -> std::io::Result<()> {
    let old = with_suffix(out, &format!(".old-{name}"));
    if out.exists() {
        std::fs::rename(out, &old)?;
        std::fs::rename(new, out)?;
        return std::fs::remove_dir_all(&old);
    }
    std::fs::rename(new, out)
}

/// Starts a reader pod and receives all files from it. Returns their number.
async fn receive(
    api: &ApiClient,
    place: &Place,
    settings: &KubernetesSettings,
    name: &str,
    to: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<usize, EnvironmentError> {
    let running = newest_pod(api, place).await?;
    let running =
        running.filter(|pod| pod.phase() == "Running" && pod.is_ready() && !pod.is_terminating());
    let node = running.as_ref().map(Pod::node);
    api.apply(POD, &reader(place, settings, name, node)).await?;
    let within = Duration::from_secs(u64::from(settings.ready_within_s));
    let running = wait("the reader runs", POLL, within, async || {
        let pod: Pod = api.get(POD, &place.namespace, name).await?;
        if let Some((_, found)) = pod.failure() {
            return Err(EnvironmentError::start(format!("pod {name}"), found));
        }
        match pod.status_of(CONTAINER).is_some_and(|c| c.is_running()) {
            true => Ok(Ok(())),
            false => Ok(Err(pod.not_ready_reason())),
        }
    });
    if let Err(found) = running.await? {
        return Err(EnvironmentError::start(format!("pod {name}"), found));
    }
    let mut receiver = Receiver::new(to.to_owned());
    let mut attempts = 0;
    loop {
        let before = receiver.files();
        let stream = api.port_forward((&place.namespace, name), transfer::PORT);
        let received = match stream.await {
            Ok(stream) => receiver.receive(stream).await,
            Err(found) => Err(Failure::Broken(found)),
        };
        let found = match received {
            Ok(()) => return Ok(receiver.files()),
            Err(Failure::Refused(found)) => {
                return Err(EnvironmentError::start("the transfer of the files", found));
            }
            Err(Failure::Broken(found)) => found,
        };
        attempts = if receiver.files() > before {
            0
        } else {
            attempts + 1
        };
        if attempts >= ATTEMPTS_MAX {
            return Err(EnvironmentError::start("the transfer of the files", found));
        }
        if receiver.files() > 0 {
            say(&format!(
                "continuing after {} files: {found}",
                receiver.files()
            ));
        }
        sleep(PAUSE).await;
    }
}
