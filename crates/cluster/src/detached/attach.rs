//! Follows a detached run.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{JOB, NAME, ORCHESTRATOR, Place, end, find};
use crate::api::kinds::POD;
use crate::api::{ApiClient, ApiError, kubeconfig};
use crate::objects::names::{CONTAINER, ROLE as POD_ROLE};
use crate::objects::{Object, Pod, timestamp};
use tare_plan::KubernetesSettings;
use tare_run::environment::EnvironmentError;

/// Pause before the log or the state of the run is read again.
const PAUSE: Duration = Duration::from_millis(500);

/// After this time without a line, the log is requested again: a connection that is lost while this machine sleeps does not
/// end by itself.
const SILENT_AFTER: Duration = Duration::from_secs(60);

/// How the following ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attached {
    /// The run has ended with this exit code. The text is its id.
    Ended(String, u8),
    /// The user has stopped following. The run with this id continues.
    Left(String),
}

/// Prints the log of a run until it ends or `stop` is ready: that of the newest pod of its Job, and then that of each
/// pod that replaces it. Lines of the log go to `line`, messages about the pods to `say`.
///
/// # Errors
/// If the run does not exist, its Job has failed, or the cluster does not respond.
pub async fn attach(
    settings: &KubernetesSettings,
    id: Option<&str>,
    stop: impl Future<Output = ()>,
    line: &mut dyn FnMut(&str),
    say: &mut dyn FnMut(&str),
) -> Result<Attached, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    api.version().await?;
    let place = find(&api, id).await?;
    let mut log = FollowedLog::default();
    let follow = async {
        let mut lost = false;
        loop {
            match step(&api, &place, &mut log, line, say).await {
                Ok(Step::Continues) => lost = false,
                Ok(Step::Ended(code)) => return Ok(code),
                Ok(Step::Failed(found)) => return Err(given_up(&place, &found)),
                Err(error) if error.is_transient() => {
                    if !std::mem::replace(&mut lost, true) {
                        say(&format!(
                            "connection to the cluster lost, trying again: {error}"
                        ));
                    }
                }
                Err(error) => return Err(error.into()),
            }
            sleep(PAUSE).await;
        }
    };
    let ended: Option<Result<u8, EnvironmentError>> = tokio::select! {
        ended = follow => Some(ended),
        () = stop => None,
    };
    match ended {
        Some(code) => Ok(Attached::Ended(place.id, code?)),
        None => Ok(Attached::Left(place.id)),
    }
}

/// The state of a run.
enum Step {
    Continues,
    /// With this exit code.
    Ended(u8),
    /// The Job has given up, for this reason.
    Failed(String),
}

/// Prints the new part of the log.
async fn step(
    api: &ApiClient,
    place: &Place,
    log: &mut FollowedLog,
    line: &mut dyn FnMut(&str),
    say: &mut dyn FnMut(&str),
) -> Result<Step, ApiError> {
    // The log is complete if the run had ended before it was read.
    let ended = end(api, place).await?;
    if let Some(pod) = newest_pod(api, place).await? {
        log.follow(api, &pod, line, say).await;
    }
    if let Some(code) = ended {
        return Ok(Step::Ended(code));
    }
    let failed = failure(api, place).await?;
    Ok(failed.map_or(Step::Continues, Step::Failed))
}

fn given_up(place: &Place, found: &str) -> EnvironmentError {
    let id = &place.id;
    EnvironmentError::missing(
        format!("the Job of run {id} has failed: {found}"),
        format!(
            "`tare fetch {id}` fetches the trials that are complete, `tare clean --run {id}` removes the rest"
        ),
    )
}

/// Returns the pod of the Job that was created last.
pub(super) async fn newest_pod(api: &ApiClient, place: &Place) -> Result<Option<Pod>, ApiError> {
    let selector = format!("{},{POD_ROLE}={ORCHESTRATOR}", place.selector());
    let pods: Vec<Pod> = api.list(POD, Some(&place.namespace), &selector).await?;
    let created = |pod: &Pod| {
        let at = pod.metadata.creation_timestamp.clone();
        (at, pod.name().to_owned())
    };
    Ok(pods.into_iter().max_by_key(created))
}

/// Returns why the Job has given up; `None` while it goes on.
async fn failure(api: &ApiClient, place: &Place) -> Result<Option<String>, ApiError> {
    let job = match api.get::<Object>(JOB, &place.namespace, NAME).await {
        Err(error) if error.is_not_found() => {
            let found = "it does not exist: its creation or its removal was interrupted";
            return Ok(Some(found.to_owned()));
        }
        job => job?,
    };
    let mut conditions = job.status.conditions.into_iter();
    let failed = conditions.find(|c| c.is("Failed"));
    Ok(failed.map(|c| c.message.unwrap_or_else(|| "no reason".to_owned())))
}

/// What was printed of the log of a pod.
#[derive(Debug, Default)]
struct FollowedLog {
    pod: String,
    /// Timestamp of the last printed line, in nanoseconds.
    last_ns: i64,
    /// Number of printed lines with this timestamp.
    lines_at_last: usize,
    /// The last message about the pod.
    said: String,
}

impl FollowedLog {
    /// Prints those lines of a pod's log that were not printed yet, until the log or the connection ends.
    async fn follow(
        &mut self,
        api: &ApiClient,
        pod: &Pod,
        line: &mut dyn FnMut(&str),
        say: &mut dyn FnMut(&str),
    ) {
        if self.pod != pod.name() {
            if !self.pod.is_empty() {
                let text = format!("pod {} replaces {}", pod.name(), self.pod);
                say(&text);
            }
            *self = Self {
                pod: pod.name().to_owned(),
                ..Self::default()
            };
        }
        if pod.phase() == "Pending" {
            let found = format!("pod {} waits: {}", pod.name(), pod.not_ready_reason());
            if self.said != found {
                say(&found);
                self.said = found;
            }
        }
        let Ok(mut log) = api.log((pod.namespace(), pod.name()), CONTAINER).await else {
            return;
        };
        // Lines with the last timestamp that are already printed.
        let mut known = self.lines_at_last;
        while let Ok(Some(stamped)) = timeout(SILENT_AFTER, log.next()).await {
            let (stamp, text) = stamped.split_once(' ').unwrap_or((&stamped, ""));
            let Some(ns) = timestamp::unix_ns(stamp) else {
                continue;
            };
            if ns < self.last_ns {
                continue;
            }
            if ns == self.last_ns && known > 0 {
                known -= 1;
                continue;
            }
            if ns > self.last_ns {
                (self.last_ns, self.lines_at_last) = (ns, 0);
                known = 0;
            }
            self.lines_at_last += 1;
            line(text);
        }
    }
}
