//! Sampling where agents may not run: the kubelets' summaries, asked through the API
//! server every few seconds, made into the stream that agents would have written.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tare_model::record::{AgentRecord, Hello, StreamChecksum};
use tare_model::worker::AgentSpec;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::events::Events;
use super::kinds::{NODE_PROXY, POD};
use super::nodes::Node;
use super::pods::Pod;
use super::summary::{self, NodeTrack, Place, Track};
use crate::experiment::unix_ns;

/// Between two questions to each kubelet.
const EVERY: Duration = Duration::from_secs(2);
/// So long after the window values of its end are waited for.
const LATE_MAX: Duration = Duration::from_secs(8);

/// What is to be sampled, and why by kubelets.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) spec: AgentSpec,
    /// Nodes that hold a part of it; with `true` those that speak for their machine.
    pub(super) nodes: Vec<(String, bool)>,
    pub(super) cores: BTreeMap<String, u32>,
    pub(super) why: String,
}

/// The specification's containers by their pods, as kubelets know them; `None` for one
/// that no pod has.
async fn places(api: &Api, spec: &AgentSpec) -> Result<Vec<Option<Place>>, ApiError> {
    let pods = api.list(POD, None, "").await?;
    let mut known: BTreeMap<&str, Place> = BTreeMap::new();
    for pod in pods.iter().map(Pod) {
        for container in pod.containers() {
            let place = || {
                let of = (pod.namespace(), pod.name(), container.name());
                (of.0.to_owned(), of.1.to_owned(), of.2.to_owned())
            };
            known.extend(container.id().map(|id| (id, place())));
        }
    }
    let id = |w: &tare_model::worker::Watched| {
        let id = w.container.as_deref()?.rsplit('/').next()?;
        known.get(id).cloned()
    };
    Ok(spec.processes.iter().map(id).collect())
}

/// Cores of nodes by their names.
pub(super) fn cores(nodes: &[Node]) -> BTreeMap<String, u32> {
    nodes.iter().map(|n| (n.name.clone(), n.cores)).collect()
}

/// A kubelet's summary.
pub(super) async fn ask(api: &Api, node: &str) -> Result<Value, ApiError> {
    let path = NODE_PROXY.object(None, node);
    let path = format!("{path}/stats/summary?only_cpu_and_memory=true");
    api.document(&path).await
}

/// Samples a window, then sends the whole stream. What goes wrong is an event.
pub(super) async fn sample(api: Api, order: Order, out: mpsc::Sender<String>, events: Events) {
    let places = match places(&api, &order.spec).await {
        Ok(places) => places,
        Err(error) => return events.say("agent", format!("{}; {error}", order.why)),
    };
    let mut watch = Watch::new(&order, &places);
    let start = order.spec.window_start_unix_ns as i64;
    let end = start + order.spec.window_ns as i64;
    let lead = start - unix_ns() as i64 - EVERY.as_nanos() as i64;
    tokio::time::sleep(Duration::from_nanos(u64::try_from(lead).unwrap_or(0))).await;
    let mut due = Instant::now();
    loop {
        watch.round(&api, end).await;
        let now = unix_ns() as i64;
        if now >= end && (watch.covers(end) || now > end + LATE_MAX.as_nanos() as i64) {
            break;
        }
        due = (due + EVERY).max(Instant::now());
        tokio::time::sleep_until(due).await;
    }
    if let Some(error) = watch.error.as_ref().filter(|_| watch.answers == 0) {
        events.say(
            "agent",
            format!(
                "{}; the kubelets cannot be asked either: {error}; `tare doctor --rbac` with `kubernetes.sampling: kubelet` \
                 prints the right that it takes",
                order.why
            ),
        );
        return;
    }
    watch.admit(order.spec.window_ns);
    events.say(
        "sampled",
        format!(
            "{}: CPU and memory are from the kubelets' summaries, asked every {} s; values were up to {:.1} s old",
            order.why,
            EVERY.as_secs(),
            watch.age_ns_max as f64 / 1e9
        ),
    );
    for line in watch.stream((start, end - start)) {
        if out.send(line).await.is_err() {
            return;
        }
    }
}

struct Watch<'a> {
    order: &'a Order,
    places: &'a [Option<Place>],
    tracks: Vec<Track>,
    machines: BTreeMap<&'a str, NodeTrack>,
    age_ns_max: u64,
    answers: u32,
    error: Option<ApiError>,
}

impl<'a> Watch<'a> {
    fn new(order: &'a Order, places: &'a [Option<Place>]) -> Self {
        let speaking = order.nodes.iter().filter(|(_, speaks)| *speaks);
        let machines = speaking
            .map(|(name, _)| {
                let cores = order.cores.get(name).copied().unwrap_or(0);
                let track = NodeTrack {
                    cores,
                    readings: Vec::new(),
                };
                (name.as_str(), track)
            })
            .collect();
        Self {
            order,
            places,
            tracks: vec![Track::default(); places.len()],
            machines,
            age_ns_max: 0,
            answers: 0,
            error: None,
        }
    }

    /// Asks all kubelets at once. One that does not answer says nothing about its containers.
    async fn round(&mut self, api: &Api, end_unix_ns: i64) {
        let mut asked = JoinSet::new();
        for (node, _) in &self.order.nodes {
            let (api, node) = (api.clone(), node.clone());
            asked.spawn(async move {
                let answer = tokio::time::timeout(EVERY * 2, ask(&api, &node)).await;
                (node, answer)
            });
        }
        while let Some(done) = asked.join_next().await {
            match done {
                Ok((node, Ok(Ok(summary)))) => self.answer(&node, &summary, end_unix_ns),
                Ok((_, Ok(Err(error)))) => self.error = Some(error),
                Ok((_, Err(_))) | Err(_) => {}
            }
        }
    }

    fn answer(&mut self, node: &str, summary: &Value, end_unix_ns: i64) {
        self.answers += 1;
        let now = unix_ns() as i64;
        let (machine, containers) = summary::parse(summary);
        if let (Some(track), Some(reading)) = (self.machines.get_mut(node), machine) {
            track.push(reading);
        }
        let processes = self.order.spec.processes.iter();
        let all = processes.zip(self.places).zip(&mut self.tracks);
        for ((watched, place), track) in all {
            let on = watched.container.as_deref().and_then(|c| c.split_once('/'));
            let (Some((on, _)), Some(place)) = (on, place) else {
                continue;
            };
            if on != node {
                continue;
            }
            track.push(containers.get(place).copied(), now);
            // After the window only its own end is waited for.
            if let Some(age) = track.age_ns(now).filter(|_| now <= end_unix_ns) {
                self.age_ns_max = self.age_ns_max.max(age);
            }
        }
    }

    fn covers(&self, end_unix_ns: i64) -> bool {
        let known = self.tracks.iter().zip(self.places);
        let mut known = known.filter(|(_, place)| place.is_some());
        known.all(|(track, _)| track.covers(end_unix_ns))
    }

    /// A container of which only one value came is as if it were a window old.
    fn admit(&mut self, window_ns: u64) {
        let known = self.tracks.iter().zip(self.places);
        let mut known = known.filter(|(_, place)| place.is_some());
        if known.any(|(track, _)| !track.has_cpu()) {
            self.age_ns_max = self.age_ns_max.max(window_ns);
        }
    }

    /// The lines that an agent would have written.
    fn stream(&self, window: (i64, i64)) -> Vec<String> {
        let mut checksum = StreamChecksum::default();
        let mut lines = Vec::new();
        let mut push = |record: &AgentRecord| {
            let line = serde_json::to_string(record).unwrap_or_default();
            checksum.line(&line);
            lines.push(line);
        };
        push(&AgentRecord::Hello(Hello {
            schema_version: tare_model::SCHEMA_VERSION,
            role: "kubelet".to_owned(),
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: 0,
        }));
        let machines: Vec<NodeTrack> = self.machines.values().cloned().collect();
        let step = EVERY.as_nanos() as usize;
        let samples = summary::samples(&self.tracks, &machines, window, step);
        let mut gone = vec![false; self.tracks.len()];
        for sample in samples {
            for (process, gone) in gone.iter_mut().enumerate() {
                if sample.processes[process].is_none() && !std::mem::replace(gone, true) {
                    push(&AgentRecord::Gone {
                        process: process as u32,
                        t_ns: sample.t_ns,
                    });
                }
            }
            push(&AgentRecord::Sample(sample));
        }
        push(&AgentRecord::Kubelet {
            age_ns_max: self.age_ns_max,
        });
        let last = AgentRecord::Final {
            checksum: checksum.hex(),
            own_cpu_ns: 0,
            elapsed_ns: u64::try_from(window.1).unwrap_or(0),
        };
        lines.push(serde_json::to_string(&last).unwrap_or_default());
        lines
    }
}
