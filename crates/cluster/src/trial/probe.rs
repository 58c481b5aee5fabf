//! Requests from a probe: a pod of tare outside the mesh, or in the place of the generators. It runs `tare probe`, and is deleted when its results are read.

use std::future::pending;
use std::time::Duration;

use tare_plan::KubernetesSettings;
use tare_plan::mesh::Join;
use tare_records::probe;
use tare_records::probe::{ProbeRequest, ProbeResult, ProbeSpec};
use tare_records::trial::EventKind;
use tokio::sync::mpsc;

use super::events::Events;
use super::pod_log::PodLog;
use crate::api::ApiClient;
use crate::api::kinds::{CONFIG_MAP, POD};
use crate::objects::names::{CONTAINER, TrialNames};
use crate::objects::{Pod, manifests};
use crate::wait::wait;
use tare_run::environment::EnvironmentError;
use tare_run::probe::CONCURRENT_MAX;

const POLL: Duration = Duration::from_millis(250);
/// Maximum number of pods that are created if the records of one are incomplete.
const ATTEMPTS_MAX: u32 = 2;
/// How long after the longest possible end of a probe its records may arrive.
const RECORDS_WITHIN: Duration = Duration::from_secs(30);
const BUFFERED_LINES_MAX: usize = 64;
/// Most bytes of the records of a probe.
const RECORDS_BYTES_MAX: usize = 64 << 20;

/// Returns a GET request that keeps this many bytes of the body.
pub(crate) fn get(
    address: String,
    host: String,
    path: &str,
    within: Duration,
    body_bytes_max: usize,
) -> ProbeRequest {
    ProbeRequest {
        address,
        host,
        path: path.to_owned(),
        timeout_ns: within.as_nanos() as u64,
        retry_ns: 0,
        body_bytes_max,
        counters: None,
        is_sum: false,
    }
}

/// Returns a result in words: `status 503: later`, `connection reset`.
pub(crate) fn words(result: &ProbeResult) -> String {
    match result {
        Ok(answer) if answer.body.trim().is_empty() => format!("status {}", answer.status),
        Ok(answer) => format!("status {}: {}", answer.status, answer.body.trim()),
        Err(failure) => failure.found.clone(),
    }
}

/// Where a probe is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// Outside the mesh, in the namespace of the agents.
    Outside,
    /// In the namespace of the generators, where pods join the mesh like them.
    OfGenerators(Option<&'a Join>),
}

/// Creates probe pods, one after the other.
#[derive(Debug)]
pub(crate) struct Prober {
    names: TrialNames,
    events: Events,
    /// Number of probes so far.
    count: u32,
}

impl Prober {
    /// Probes in the namespace of the agents of `names`.
    pub(crate) fn new(names: TrialNames, events: Events) -> Self {
        Self {
            names,
            events,
            count: 0,
        }
    }

    /// Sends requests from a probe. Returns their results in the same order. The first `first` of them have results before
    /// the others are sent.
    pub(crate) async fn send(
        &mut self,
        api: &ApiClient,
        settings: &KubernetesSettings,
        requests: Vec<ProbeRequest>,
        first: usize,
    ) -> Result<Vec<ProbeResult>, EnvironmentError> {
        self.send_from(api, settings, Place::Outside, requests, first)
            .await
    }

    /// Sends requests from a probe in a place; otherwise like [`Self::send`].
    pub(crate) async fn send_from(
        &mut self,
        api: &ApiClient,
        settings: &KubernetesSettings,
        place: Place<'_>,
        requests: Vec<ProbeRequest>,
        first: usize,
    ) -> Result<Vec<ProbeResult>, EnvironmentError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let spec = ProbeSpec {
            schema_version: tare_plan::SCHEMA_VERSION,
            requests,
            first,
        };
        let namespace = self.namespace(place);
        let mut last = String::new();
        for _ in 0..ATTEMPTS_MAX {
            self.count += 1;
            let name = format!("probe-{}", self.count);
            let results = self.attempt(api, settings, place, &name, &spec).await;
            // If this fails, the pod is deleted with its namespace.
            let _ = api.delete(POD, Some(&namespace), &name).await;
            match results? {
                Ok(results) => return Ok(results),
                Err(found) => last = found,
            }
        }
        let found = format!("no complete records in {ATTEMPTS_MAX} attempts: {last}");
        Err(EnvironmentError::start("the probe pod", found))
    }

    fn namespace(&self, place: Place<'_>) -> String {
        match place {
            Place::Outside => self.names.agents(),
            Place::OfGenerators(_) => self.names.load(),
        }
    }

    /// Creates the pod and reads its results. Fails inside with what is wrong with its records.
    async fn attempt(
        &self,
        api: &ApiClient,
        settings: &KubernetesSettings,
        place: Place<'_>,
        name: &str,
        spec: &ProbeSpec,
    ) -> Result<Result<Vec<ProbeResult>, String>, EnvironmentError> {
        let names = &self.names;
        let namespace = self.namespace(place);
        let files = [(
            "0.json".to_owned(),
            serde_json::to_string(spec).unwrap_or_default(),
        )];
        let map = manifests::config_map(names, &namespace, name, &files);
        api.apply(CONFIG_MAP, &map).await?;
        let pod = match place {
            Place::Outside => manifests::probe(names, settings, name),
            Place::OfGenerators(join) => {
                manifests::probe_of_generators(names, settings, join, name)
            }
        };
        let created: Pod = api.applied(POD, &pod).await?;
        let title = format!("{namespace}/{name}");
        if matches!(place, Place::Outside)
            && let Some(other) = created.injected().first()
        {
            let found = format!(
                "another program added the container {other} to it, so it is not outside the mesh; \
             exclude the namespace of tare's agents from the injection of sidecars"
            );
            return Err(EnvironmentError::start(title, found));
        }
        let within_s = settings.ready_within_s;
        let within = Duration::from_secs(u64::from(within_s));
        let runs = wait("the probe runs", POLL, within, async || {
            let pod: Pod = api.get(POD, &namespace, name).await?;
            let own = pod.status_of(CONTAINER);
            let has_run = own.is_some_and(|c| c.id().is_some() || c.ended().is_some());
            Ok::<_, EnvironmentError>(match has_run || pod.phase() == "Failed" {
                true => Ok(()),
                false => Err(pod.not_ready_reason()),
            })
        });
        if let Err(reason) = runs.await? {
            let found = format!("not running within {within_s} s: {reason}");
            return Err(EnvironmentError::start(title, found));
        }
        let log = PodLog {
            index: 0,
            worker: title,
            namespace,
            pod: name.to_owned(),
        };
        let lines = records(api, self.events.clone(), log, longest(spec)).await;
        Ok(probe::read(&lines, spec.requests.len()))
    }
}

/// Reads the lines of a log until the final record, the end of the log, or the end of the time.
pub(crate) async fn records(
    api: &ApiClient,
    events: Events,
    log: PodLog,
    within: Duration,
) -> Vec<String> {
    let (sender, mut lines) = mpsc::channel(BUFFERED_LINES_MAX);
    let (mut all, mut bytes) = (Vec::new(), 0);
    let (worker, reported) = (log.worker.clone(), events.clone());
    let follow = async {
        log.follow(api.clone(), sender, events).await;
        pending::<()>().await;
    };
    let collect = async {
        while let Some(line) = lines.recv().await {
            let is_last = line.text.starts_with("{\"type\":\"final\"");
            bytes += line.text.len();
            if bytes > RECORDS_BYTES_MAX {
                let found = format!("its log is larger than {} MiB", RECORDS_BYTES_MAX >> 20);
                reported.push(EventKind::Incomplete, &worker, found);
                break;
            }
            all.push(line.text);
            if is_last {
                break;
            }
        }
    };
    tokio::select! {
        () = collect => {}
        () = follow => {}
        () = tokio::time::sleep(within) => {}
    }
    all
}

/// The longest time from the start of a probe to its last record.
fn longest(spec: &ProbeSpec) -> Duration {
    let max = |ns: fn(&ProbeRequest) -> u64| {
        let all = spec.requests.iter().map(ns);
        Duration::from_nanos(all.max().unwrap_or(0))
    };
    let rounds = spec.requests.len().div_ceil(CONCURRENT_MAX) as u32 + 1;
    max(|r| r.retry_ns) + max(|r| r.timeout_ns) * rounds + RECORDS_WITHIN
}
