//! The generators of a trial: an indexed job whose pods start their load at the same instant.

use std::time::Duration;

use tare_analysis::proxy_config::{ASKS_AFTER, ASKS_WITHIN};
use tare_plan::KubernetesSettings;
use tare_plan::load::{LoadSpec, Shard};
use tare_records::trial::EventKind;
use tokio::time::Instant;

use super::deployment::Deployment;
use super::generator_records;
use crate::api::ApiClient;
use crate::api::kinds::{CONFIG_MAP, JOB, POD};
use crate::objects::Pod;
use crate::objects::manifests;
use crate::objects::names::{CONTAINER, ROLE, TrialNames};
use crate::wait::wait;
use tare_files::unix_ns;
use tare_run::environment::{EnvironmentError, Worker};

const DELAY_MIN: Duration = Duration::from_secs(6);
/// Longest delay of the first trial: an application may take minutes for reasons that generators do not have.
const DELAY_FIRST_MAX: Duration = Duration::from_secs(30);
const DELAY_MAX: Duration = Duration::from_secs(120);
/// Time that a running pod needs to resolve names and open its connections.
const CONNECTING: Duration = Duration::from_secs(2);
/// From the last running pod to the load.
const AFTER_START: Duration = Duration::from_secs(3);
/// Maximum number of jobs that are created before the trial fails to start.
const ATTEMPTS_MAX: u32 = 3;
const POLL: Duration = Duration::from_millis(200);
/// How long after their planned end the last records of generators may arrive.
const LAST_RECORDS_WITHIN: Duration = Duration::from_secs(8);

/// Time from the creation of the job to the first request, adapted to the start-up time of the
/// pods in the previous trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartDelay(Duration);

impl Default for StartDelay {
    fn default() -> Self {
        Self(DELAY_FIRST_MAX)
    }
}

impl StartDelay {
    /// The delay of the first trial, from the time that its application took to be ready.
    pub(crate) fn first(ready_after: Duration) -> Self {
        let needed = ready_after + AFTER_START;
        Self(needed.clamp(DELAY_MIN, DELAY_FIRST_MAX))
    }

    /// What generators need that are started one after the other.
    pub(crate) fn of_all(self, count: u32) -> Duration {
        self.0 * count
    }

    fn adapt(&mut self, pods_took: Duration) {
        let needed = pods_took.mul_f64(1.5) + AFTER_START;
        self.0 = needed.clamp(DELAY_MIN, DELAY_MAX);
    }

    /// Adapts the delay for the slowest of several generators.
    fn adapt_upwards(&mut self, pods_took: Duration) {
        let before = self.0;
        self.adapt(pods_took);
        self.0 = self.0.max(before);
    }

    fn double(&mut self) {
        self.0 = (self.0 * 2).min(DELAY_MAX);
    }
}

/// Returns the time from the first request to the last record of a generator.
fn duration(spec: &LoadSpec, with_proxy_config: bool) -> Duration {
    let drain_ns = spec.drain_ns.unwrap_or(spec.timeout_ns);
    let load = Duration::from_nanos(spec.warmup_ns + spec.duration_ns + drain_ns);
    match with_proxy_config {
        true => load + ASKS_AFTER + ASKS_WITHIN,
        false => load,
    }
}

/// Creates the job, waits until all of its pods run, and starts to read their records. If the specification has no instant
/// for the start of the load, it follows from the delay, and pods that are late are created again.
pub(crate) async fn start(
    api: &ApiClient,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
    delay: &mut StartDelay,
    spec: &LoadSpec,
) -> Result<Worker, EnvironmentError> {
    let previous = deployment.runs.next();
    if let Some(job) = &previous.job {
        api.delete(JOB, Some(&deployment.names.load()), job).await?;
    }
    for agent in &previous.agents {
        api.delete(POD, Some(&deployment.names.agents()), agent)
            .await?;
    }
    let proxy_config = deployment.proxy_config();
    // Others begin at a given instant as well, and do not wait.
    let attempts = match spec.start_unix_ns {
        Some(_) => 1,
        None => ATTEMPTS_MAX,
    };
    for attempt in 0..attempts {
        let begin = Instant::now();
        let soon_unix_ns = unix_ns() + delay.0.as_nanos() as u64;
        let start_unix_ns = spec.start_unix_ns.unwrap_or(soon_unix_ns);
        let shared = LoadSpec {
            shard: Shard {
                index: 0,
                count: settings.generators,
            },
            start_unix_ns: Some(start_unix_ns),
            proxy_config: proxy_config.clone(),
            ..spec.clone()
        };
        let job = format!("{}-{attempt}", deployment.runs.name("generator"));
        create(api, settings, deployment, &job, &shared).await?;
        let pods = wait_running(api, settings, &deployment.names, &job).await?;
        let took = begin.elapsed();
        match spec.start_unix_ns {
            Some(_) => delay.adapt_upwards(took),
            None => delay.adapt(took),
        }
        if unix_ns() + (CONNECTING.as_nanos() as u64) < start_unix_ns {
            let sidecar = deployment.sidecar();
            let watched = pods.iter().flat_map(|pod| pod.watched(sidecar));
            let watched = watched.collect();
            let to_start = Duration::from_nanos(start_unix_ns.saturating_sub(unix_ns()));
            let load = duration(spec, !proxy_config.is_empty());
            let until = Instant::now() + to_start + load + LAST_RECORDS_WITHIN;
            deployment.runs.job = Some(job);
            deployment.runs.start_unix_ns = start_unix_ns;
            let (stop, _) = tokio::sync::mpsc::channel(1);
            return Ok(Worker {
                watched,
                armed_within: DELAY_MAX,
                lines: generator_records::read(api, deployment, &pods, until),
                stop,
            });
        }
        let found = format!(
            "started after {:.1} s, too late for the planned start of the load",
            took.as_secs_f64()
        );
        let events = &deployment.events;
        events.push(EventKind::LateStart, "generators", found);
        delay.double();
        let namespace = deployment.names.load();
        api.delete(JOB, Some(&namespace), &job).await?;
    }
    let found = match attempts {
        1 => "their pods did not run in time".to_owned(),
        n => format!("their pods did not run in time in {n} attempts"),
    };
    Err(EnvironmentError::start("generators", found))
}

async fn create(
    api: &ApiClient,
    settings: &KubernetesSettings,
    deployment: &Deployment,
    job: &str,
    shared: &LoadSpec,
) -> Result<(), EnvironmentError> {
    let names = &deployment.names;
    let text = serde_json::to_string(shared).unwrap_or_default();
    let files = [("load.json".to_owned(), text)];
    let map = manifests::config_map(names, &names.load(), job, &files);
    api.apply(CONFIG_MAP, &map).await?;
    let reserved = !deployment.generator_nodes.is_empty();
    let job = manifests::generators(names, settings, deployment.join(), reserved, job);
    api.apply(JOB, &job).await?;
    Ok(())
}

/// Waits until all pods of a job run and returns them in the order of their index.
async fn wait_running(
    api: &ApiClient,
    settings: &KubernetesSettings,
    names: &TrialNames,
    job: &str,
) -> Result<Vec<Pod>, EnvironmentError> {
    let within = Duration::from_secs(u64::from(settings.ready_within_s));
    let selector = format!("{ROLE}=generator,batch.kubernetes.io/job-name={job}");
    wait("the generators run", POLL, within, async || {
        let mut pods: Vec<Pod> = api.list(POD, Some(&names.load()), &selector).await?;
        pods.sort_by_key(Pod::completion_index);
        let runs = |p: &Pod| p.status_of(CONTAINER).is_some_and(|c| c.id().is_some());
        if pods.len() == settings.generators as usize && pods.iter().all(runs) {
            return Ok(Ok(pods));
        }
        let failed = pods.iter().find(|p| p.phase() == "Failed");
        let pod = failed.or_else(|| pods.iter().find(|p| !runs(p)));
        let name = pod.map_or_else(|| "generators".to_owned(), Pod::title);
        let found = pod.map_or_else(|| "no pod exists".to_owned(), Pod::not_ready_reason);
        let error = EnvironmentError::start(name, found);
        match failed {
            Some(_) => Err(error),
            None => Ok(Err(error)),
        }
    })
    .await?
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::load::Mode;

    #[test]
    fn the_start_delay_follows_the_start_up_time_of_pods() {
        let mut delay = StartDelay::first(Duration::from_secs(7));
        assert_eq!(delay.0, Duration::from_secs(10));
        let of_slow = StartDelay::first(Duration::from_secs(170));
        assert_eq!(of_slow.0, DELAY_FIRST_MAX);
        delay.adapt(Duration::from_secs(1));
        assert_eq!(delay.0, DELAY_MIN);
        delay.adapt(Duration::from_secs(20));
        assert_eq!(delay.0, Duration::from_secs(33));
        assert_eq!(delay.of_all(1), delay.0);
        assert_eq!(delay.of_all(3), Duration::from_secs(99));
        delay.adapt_upwards(Duration::from_secs(1));
        assert_eq!(delay.0, Duration::from_secs(33));
        delay.adapt(Duration::from_secs(900));
        assert_eq!(delay.0, DELAY_MAX);
    }

    #[test]
    fn a_generator_with_proxy_config_runs_longer() {
        let spec = LoadSpec {
            warmup_ns: 1_000_000_000,
            drain_ns: Some(2_000_000_000),
            ..LoadSpec::new(Vec::new(), Mode::Saturate, 10_000_000_000)
        };
        assert_eq!(duration(&spec, false), Duration::from_secs(13));
        assert_eq!(duration(&spec, true), Duration::from_millis(16_500));
    }
}
