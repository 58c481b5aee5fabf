//! The generators of a trial: an indexed job whose pods start at one instant, and
//! whose records are made one stream.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tare_analysis::config::proxy_config::{ASKS_AFTER, ASKS_WITHIN};
use tare_analysis::streams::generators::GeneratorStreams;
use tare_model::layout;
use tare_model::load::{LoadSpec, Shard};
use tare_model::plan::KubernetesSettings;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::api::Api;
use super::deploy::Deployment;
use super::events::Events;
use super::kinds::{CONFIG_MAP, JOB, POD};
use super::leaving::Leaving;
use super::log::{self, Line};
use super::names::{ROLE, TrialNames};
use super::objects;
use super::pods::Pod;
use crate::environment::{EnvironmentError, Worker};
use crate::experiment::unix_ns;
use crate::sidecar;

/// From the making of the job to the first slot, before it is known how long pods take.
const LEAD_FIRST: Duration = Duration::from_secs(12);
const LEAD_MIN: Duration = Duration::from_secs(6);
const LEAD_MAX: Duration = Duration::from_secs(120);
/// A pod that runs needs so long to resolve, connect and be armed.
const ARMING: Duration = Duration::from_secs(2);
/// Jobs made before a trial counts as not started.
const ATTEMPTS_MAX: u32 = 3;
const POLL: Duration = Duration::from_millis(200);
/// So long after their end generators may need for their last records to come.
const SILENT_MAX: Duration = Duration::from_secs(8);
/// Lines that may wait for the experiment.
const LINES_WAITING_MAX: usize = 4096;

/// How long generators take to run, learnt from trial to trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lead(Duration);

impl Default for Lead {
    fn default() -> Self {
        Self(LEAD_FIRST)
    }
}

impl Lead {
    fn learn(&mut self, took: Duration) {
        let needed = took.mul_f64(1.5) + ARMING + Duration::from_secs(1);
        self.0 = needed.clamp(LEAD_MIN, LEAD_MAX);
    }

    fn double(&mut self) {
        self.0 = (self.0 * 2).min(LEAD_MAX);
    }
}

/// Divides a specification: every generator takes its slots of the one schedule, and
/// its part of the connections. The first one asks its sidecar what it is.
pub(super) fn shards(
    spec: &LoadSpec,
    count: u32,
    start_unix_ns: u64,
    proxy_config: &BTreeMap<String, String>,
) -> Vec<LoadSpec> {
    let each = spec.connections / count;
    let more = spec.connections % count;
    (0..count)
        .map(|index| LoadSpec {
            shard: Shard { index, count },
            connections: each + u32::from(index < more),
            start_unix_ns: Some(start_unix_ns),
            proxy_config: match index {
                0 => proxy_config.clone(),
                _ => BTreeMap::new(),
            },
            ..spec.clone()
        })
        .collect()
}

/// From the first slot until the last generator has told its last, where one of them asks its
/// sidecar, too.
fn life(spec: &LoadSpec, asks: bool) -> Duration {
    let drain_ns = spec.drain_ns.unwrap_or(spec.timeout_ns);
    let load = Duration::from_nanos(spec.warmup_ns + spec.duration_ns + drain_ns);
    match asks {
        true => load + ASKS_AFTER + ASKS_WITHIN,
        false => load,
    }
}

/// Makes the job, waits until all of its pods run, and hears them.
pub(super) async fn start(
    api: &Api,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
    lead: &mut Lead,
    spec_json: &str,
) -> Result<Worker, EnvironmentError> {
    let failed = |found: String| EnvironmentError::Start {
        name: "generators".to_owned(),
        found,
    };
    let spec: LoadSpec = serde_json::from_str(spec_json).map_err(|e| failed(e.to_string()))?;
    for attempt in 0..ATTEMPTS_MAX {
        let begun = Instant::now();
        let start_unix_ns = unix_ns() + lead.0.as_nanos() as u64;
        let asked = deployment.proxy_config();
        let parts = shards(&spec, settings.generators, start_unix_ns, &asked);
        make(api, settings, deployment, attempt, &parts).await?;
        let pods = running(api, settings, &deployment.names, attempt).await?;
        lead.learn(begun.elapsed());
        if unix_ns() + (ARMING.as_nanos() as u64) < start_unix_ns {
            let watched = pods
                .iter()
                .flat_map(|pod| Pod(pod).watched(deployment.sidecar()))
                .collect();
            let to_start = Duration::from_nanos(start_unix_ns.saturating_sub(unix_ns()));
            let until = Instant::now() + to_start + life(&spec, !asked.is_empty()) + SILENT_MAX;
            return Ok(hear(api, deployment, &pods, watched, until));
        }
        deployment.events.say(
            "late_start",
            format!(
                "generators took {:.1} s to run and are started again",
                begun.elapsed().as_secs_f64()
            ),
        );
        lead.double();
        let name = format!("generator-{attempt}");
        api.delete(JOB, Some(&deployment.names.load()), &name)
            .await?;
    }
    Err(failed(format!(
        "{ATTEMPTS_MAX} times their pods were not running in time"
    )))
}

async fn make(
    api: &Api,
    settings: &KubernetesSettings,
    deployment: &Deployment,
    attempt: u32,
    parts: &[LoadSpec],
) -> Result<(), EnvironmentError> {
    let names = &deployment.names;
    let mut files = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let text = serde_json::to_string(part).unwrap_or_default();
        files.push((format!("{index}.json"), text));
    }
    let map = objects::config_map(names, &names.load(), &format!("spec-{attempt}"), &files);
    api.apply(CONFIG_MAP, &map).await?;
    let join = deployment.join();
    let job = objects::generators(
        names,
        settings,
        join,
        deployment.reserved.is_some(),
        attempt,
    );
    api.apply(JOB, &job).await?;
    Ok(())
}

/// The pods of an attempt, in the order of their index, once all run.
async fn running(
    api: &Api,
    settings: &KubernetesSettings,
    names: &TrialNames,
    attempt: u32,
) -> Result<Vec<serde_json::Value>, EnvironmentError> {
    let until = Instant::now() + Duration::from_secs(u64::from(settings.ready_within_s));
    let selector = format!("{ROLE}=generator,batch.kubernetes.io/job-name=generator-{attempt}");
    loop {
        let mut pods = api.list(POD, Some(&names.load()), &selector).await?;
        pods.sort_by_key(|p| Pod(p).completion_index());
        let runs = |p: &serde_json::Value| {
            let own = Pod(p).containers();
            own.iter()
                .any(|c| c.name() == super::names::CONTAINER && c.id().is_some())
        };
        if pods.len() == settings.generators as usize && pods.iter().all(runs) {
            return Ok(pods);
        }
        let broken = pods.iter().find(|p| Pod(p).phase() == "Failed");
        let late = Instant::now() > until;
        if late || broken.is_some() {
            let pod = broken.or_else(|| pods.iter().find(|p| !runs(p)));
            let why = pod.map_or_else(|| "there is no pod".to_owned(), |p| Pod(p).why_not());
            return Err(EnvironmentError::Start {
                name: pod.map_or_else(|| "generators".to_owned(), |p| Pod(p).title()),
                found: why,
            });
        }
        tokio::time::sleep(POLL).await;
    }
}

fn hear(
    api: &Api,
    deployment: &mut Deployment,
    pods: &[serde_json::Value],
    watched: Vec<tare_model::worker::WatchedProcess>,
    until: Instant,
) -> Worker {
    let (raw_sender, raw) = mpsc::channel(LINES_WAITING_MAX);
    for (index, pod) in pods.iter().enumerate() {
        let pod = Pod(pod);
        let source = log::Source {
            index,
            what: pod.title(),
            namespace: pod.namespace().to_owned(),
            pod: pod.name().to_owned(),
        };
        let (raw, events) = (raw_sender.clone(), deployment.events.clone());
        let task = log::follow(api.clone(), source, raw, events);
        deployment.tasks.push(tokio::spawn(task));
    }
    let (sender, lines) = mpsc::channel(LINES_WAITING_MAX);
    let (stop, _) = mpsc::channel(1);
    let asked = deployment.proxy_config().into_keys();
    let merging = Merging {
        streams: GeneratorStreams::new(pods.len()).asked_for(asked),
        behind_ns: vec![None; pods.len()],
        told: Told {
            events: deployment.events.clone(),
            leaving: deployment.leaving.clone(),
            pods: pods.iter().map(|p| Pod(p).key()).collect(),
        },
        config: deployment.dir.join(layout::CONFIG),
    };
    let task = merging.merge(raw, sender, until);
    deployment.tasks.push(tokio::spawn(task));
    Worker {
        watched,
        armed_within: LEAD_MAX,
        lines,
        stop,
    }
}

/// Where what is wrong with a generator is told.
struct Told {
    events: Events,
    leaving: Leaving,
    /// Namespace and name of each generator's pod.
    pods: Vec<String>,
}

impl Told {
    fn exited(&self, index: usize, found: &str) {
        let why = self.leaving.why(&self.pods[index]);
        self.events
            .say("exited", format!("generator-{index}{found}{why}"));
    }
}

/// One stream of many, in the making.
struct Merging {
    streams: GeneratorStreams,
    /// Of each generator, by how much its clock seems to be behind at least.
    behind_ns: Vec<Option<i64>>,
    told: Told,
    /// Where the generator's sidecar's own words are saved.
    config: PathBuf,
}

impl Merging {
    /// What is wrong with one of the streams is an event with its name, and leaves the
    /// merged stream without an end: the trial is then invalid.
    async fn merge(
        mut self,
        mut raw: mpsc::Receiver<Line>,
        out: mpsc::Sender<String>,
        until: Instant,
    ) {
        loop {
            let line = match tokio::time::timeout_at(until, raw.recv()).await {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(_) => {
                    for index in self.streams.unfinished() {
                        self.told
                            .exited(index, " is lost: its last records do not come");
                    }
                    return;
                }
            };
            if let Some(ns) = line.behind_ns {
                let least = &mut self.behind_ns[line.source];
                *least = Some(least.map_or(ns, |l| l.min(ns)));
            }
            match self.streams.line(line.source, &line.text) {
                Ok(lines) => {
                    for line in lines {
                        if out.send(line).await.is_err() {
                            return;
                        }
                    }
                }
                Err(error) => {
                    let found = format!(": its records: {}", error.error);
                    self.told.exited(error.generator, &found);
                    return;
                }
            }
        }
        if let Some(last) = self.end() {
            let _ = out.send(last).await;
        }
    }

    /// The last line, where all streams are whole; what else is known in the end.
    fn end(mut self) -> Option<String> {
        if let Some(skew_ns) = skew_ns(&self.behind_ns) {
            let ms = skew_ns as f64 / 1e6;
            let found = format!("clocks of generators differ by up to {ms:.3} ms");
            self.told.events.say("skew", found);
        }
        self.save_proxy_configs();
        match self.streams.finish() {
            Ok((last, results)) => {
                // Nobody here asks one to stop: its pod was deleted, evicted or its node went.
                for index in (0..results.len()).filter(|&i| results[i].interrupted) {
                    self.told.exited(index, " was stopped before its end");
                }
                Some(last)
            }
            Err(error) => {
                let found = format!(" ended early: {}", error.error);
                self.told.exited(error.generator, &found);
                None
            }
        }
    }

    fn save_proxy_configs(&mut self) {
        for (name, document) in self.streams.take_proxy_configs() {
            let found = document.map_err(|e| e.to_string());
            if let Err(found) = found.and_then(|text| sidecar::save(&self.config, &name, &text)) {
                self.told.events.say(
                    "proxy_config",
                    format!("the generator's sidecar, {name}: {found}"),
                );
            }
        }
    }
}

/// Each clock's least delay holds the way of the log, which all have alike; what is
/// left between them is the clocks'.
fn skew_ns(behind_ns: &[Option<i64>]) -> Option<i64> {
    let known = || behind_ns.iter().flatten();
    if known().count() < 2 {
        return None;
    }
    Some(known().max()? - known().min()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::load::{Arrivals, Mode};

    #[test]
    fn generators_share_connections_and_the_schedule() {
        let mode = Mode::Open {
            rate_rps: 100.0,
            arrivals: Arrivals::Constant,
        };
        let spec = LoadSpec {
            connections: 8,
            ..LoadSpec::new(Vec::new(), mode, 1)
        };
        let asked = BTreeMap::from([("dump".to_owned(), "http://127.0.0.1:1/".to_owned())]);
        let parts = shards(&spec, 3, 7, &asked);
        let connections: Vec<u32> = parts.iter().map(|p| p.connections).collect();
        assert_eq!(connections, [3, 3, 2]);
        assert!(
            parts
                .iter()
                .all(|p| p.mode == spec.mode && p.start_unix_ns == Some(7))
        );
        assert_eq!(parts[2].shard, Shard { index: 2, count: 3 });
        let asking: Vec<bool> = parts.iter().map(|p| p.proxy_config == asked).collect();
        assert_eq!(asking, [true, false, false]);
    }

    #[test]
    fn the_lead_follows_what_pods_need() {
        let mut lead = Lead::default();
        lead.learn(Duration::from_secs(1));
        assert_eq!(lead.0, LEAD_MIN);
        lead.learn(Duration::from_secs(20));
        assert_eq!(lead.0, Duration::from_secs(33));
        lead.learn(Duration::from_secs(900));
        assert_eq!(lead.0, LEAD_MAX);
    }

    #[test]
    fn a_generator_that_asks_its_sidecar_is_waited_for_longer() {
        let spec = LoadSpec {
            warmup_ns: 1_000_000_000,
            drain_ns: Some(2_000_000_000),
            ..LoadSpec::new(Vec::new(), Mode::Saturate, 10_000_000_000)
        };
        assert_eq!(life(&spec, false), Duration::from_secs(13));
        assert_eq!(life(&spec, true), Duration::from_millis(16_500));
    }

    #[test]
    fn skew_is_what_clocks_differ_by_beyond_the_common_delay() {
        assert_eq!(skew_ns(&[Some(5_000_000)]), None);
        assert_eq!(
            skew_ns(&[Some(5_000_000), Some(9_000_000)]),
            Some(4_000_000)
        );
    }
}
