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
/// Between two samples of a window.
const STEP_NS: usize = EVERY.as_nanos() as usize;
/// So long an answer is waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
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
    let id = |w: &tare_model::worker::WatchedProcess| {
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
    if let Some(error) = watch.error.as_ref().filter(|_| watch.answered.is_empty()) {
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
    watch.admit((start, end - start));
    if let Some(found) = watch.unanswered() {
        events.say("agent", found);
    }
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
    /// Questions by the nodes whose kubelets answered them,
    answered: BTreeMap<String, u32>,
    /// and by those whose did not, with why the last was not.
    missed: BTreeMap<String, (u32, String)>,
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
            answered: BTreeMap::new(),
            missed: BTreeMap::new(),
            error: None,
        }
    }

    /// Asks all kubelets at once. One that does not answer says nothing about its containers.
    async fn round(&mut self, api: &Api, end_unix_ns: i64) {
        let mut asked = JoinSet::new();
        for (node, _) in &self.order.nodes {
            let (api, node) = (api.clone(), node.clone());
            asked.spawn(async move {
                let answer = tokio::time::timeout(ANSWER_WITHIN, ask(&api, &node)).await;
                (node, answer)
            });
        }
        while let Some(done) = asked.join_next().await {
            match done {
                Ok((node, Ok(Ok(summary)))) => {
                    self.answer(&node, &summary, (unix_ns() as i64, end_unix_ns));
                }
                Ok((node, Ok(Err(error)))) => {
                    self.miss(node, error.to_string());
                    self.error = Some(error);
                }
                Ok((node, Err(_))) => {
                    let found = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
                    self.miss(node, found);
                }
                Err(_) => {}
            }
        }
    }

    fn miss(&mut self, node: String, found: String) {
        let missed = self.missed.entry(node).or_default();
        *missed = (missed.0 + 1, found);
    }

    /// The nodes whose kubelets left questions without an answer.
    fn unanswered(&self) -> Option<String> {
        let nodes = self.missed.iter().map(|(node, (count, found))| {
            let asked = count + self.answered.get(node).copied().unwrap_or(0);
            format!("{node} ({count} of {asked} questions; {found})")
        });
        let nodes: Vec<String> = nodes.collect();
        (!nodes.is_empty()).then(|| format!("kubelets did not answer: {}", nodes.join(", ")))
    }

    /// Takes an answer that came `now`.
    fn answer(&mut self, node: &str, summary: &Value, (now, end_unix_ns): (i64, i64)) {
        *self.answered.entry(node.to_owned()).or_default() += 1;
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

    fn placed(&self) -> impl Iterator<Item = &Track> {
        let all = self.tracks.iter().zip(self.places);
        all.filter(|(_, place)| place.is_some()).map(|(t, _)| t)
    }

    fn covers(&self, end_unix_ns: i64) -> bool {
        let mut machines = self.machines.values();
        machines.all(|m| m.covers(end_unix_ns)) && self.placed().all(|t| t.covers(end_unix_ns))
    }

    /// What no answer told during the window is as old as it is carried far: an age that is
    /// taken with answers alone stays small when they cease.
    fn admit(&mut self, window: (i64, i64)) {
        let containers = self.placed().map(|t| t.carried_ns(window, STEP_NS));
        let machines = self.machines.values().map(|m| m.carried_ns(window));
        self.age_ns_max = containers.chain(machines).fold(self.age_ns_max, u64::max);
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
        let samples = summary::samples(&self.tracks, &machines, window, STEP_NS);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tare_analysis::judge::{KUBELET_AGE_INVALID, KUBELET_AGE_SUSPECT};
    use tare_model::trial::Resources;
    use tare_model::worker::{Plane, WatchedProcess};

    const S: f64 = 1e9;
    /// When windows begin, in seconds.
    const START: f64 = 1000.0;

    fn order(window_s: u64) -> Order {
        let watched = |node: &str| WatchedProcess {
            name: node.to_owned(),
            plane: Plane::DataPlane,
            pid: 0,
            container: Some(format!("{node}/id-{node}")),
        };
        let nodes = ["n1", "n2"];
        Order {
            spec: AgentSpec {
                schema_version: tare_model::SCHEMA_VERSION,
                processes: nodes.map(watched).into(),
                window_start_unix_ns: (START * S) as u64,
                window_ns: window_s * S as u64,
            },
            nodes: nodes.map(|n| (n.to_owned(), true)).into(),
            cores: nodes.map(|n| (n.to_owned(), 2)).into(),
            why: String::new(),
        }
    }

    fn places() -> Vec<Option<Place>> {
        let place = |node: &str| Some(("n".to_owned(), node.to_owned(), "c".to_owned()));
        ["n1", "n2"].map(place).into()
    }

    /// Of values at so many seconds since 1970: half a core for the container, one for the
    /// node, if it is told.
    fn summary(node: &str, t: f64, with_node: bool) -> Value {
        let time = tare_analysis::formats::rfc3339((t * S) as u64);
        let cpu =
            |cores: f64| json!({"time": time, "usageCoreNanoSeconds": (t * cores * S) as u64});
        let mut summary = json!({"pods": [{"podRef": {"name": node, "namespace": "n"},
            "containers": [{"name": "c", "startTime": "1970-01-01T00:00:01Z", "cpu": cpu(0.5)}]}]});
        if with_node {
            summary["node"] = json!({"cpu": cpu(1.0)});
        }
        summary
    }

    /// A window in which the kubelet of `n1` tells values of all two seconds, that of `n2`
    /// those of `heard`; all half a second old. What comes of it, with the age's share.
    fn sampled(window_s: u32, heard: &[f64], with_node: bool) -> (Resources, f64) {
        let (order, places) = (order(window_s.into()), places());
        let end = START + f64::from(window_s);
        let mut watch = Watch::new(&order, &places);
        let mut tell = |node: &str, t: f64, with_node: bool| {
            let summary = summary(node, START + t, with_node);
            let now = ((START + t + 0.5) * S) as i64;
            watch.answer(node, &summary, (now, (end * S) as i64));
        };
        for i in 0..=window_s / 2 + 1 {
            tell("n1", 2.0 * f64::from(i) - 2.0, true);
        }
        heard.iter().for_each(|t| tell("n2", *t, with_node));
        let window = ((START * S) as i64, i64::from(window_s) * S as i64);
        watch.admit(window);
        let mut stream = tare_analysis::AgentStream::new();
        for line in watch.stream(window) {
            stream.line(&line).unwrap();
        }
        let (records, _) = stream.finish();
        let resources = tare_analysis::resources::summarise(&order.spec, &records, 4).unwrap();
        let age = resources.kubelet_age_ns_max.unwrap();
        let share = age as f64 / resources.window_ns as f64;
        (resources, share)
    }

    #[test]
    fn kubelets_that_answer_tell_new_values() {
        let all: Vec<f64> = (-1..=30).map(|i| 2.0 * f64::from(i)).collect();
        let (resources, share) = sampled(60, &all, true);
        assert!(share < KUBELET_AGE_SUSPECT, "{share}");
        assert!((resources.processes[1].cpu_cores - 0.5).abs() < 1e-6);
        assert!((resources.machine.busy_cores - 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_kubelet_silent_before_the_window_makes_it_invalid() {
        let (resources, share) = sampled(60, &[-2.0, -0.5], true);
        assert_eq!(resources.processes[1].cpu_cores, 0.0);
        assert!(share > KUBELET_AGE_INVALID, "{share}");
        assert!(sampled(60, &[], true).1 > KUBELET_AGE_INVALID);
    }

    #[test]
    fn a_kubelet_silent_for_a_part_of_the_window_makes_it_suspect() {
        let half: Vec<f64> = (-1..=30).map(|i| 2.0 * f64::from(i)).collect();
        let (_, share) = sampled(120, &half, true);
        assert!((share - 0.5).abs() < 1e-6, "{share}");
        let (_, share) = sampled(60, &[50.0, 52.0, 54.0, 60.0], true);
        assert!((share - 50.0 / 60.0).abs() < 1e-6, "{share}");
        assert!(share > KUBELET_AGE_SUSPECT);
    }

    #[test]
    fn a_machine_that_no_kubelet_tells_of_makes_it_invalid() {
        let all: Vec<f64> = (-1..=30).map(|i| 2.0 * f64::from(i)).collect();
        let (resources, share) = sampled(60, &all, false);
        assert!((resources.processes[1].cpu_cores - 0.5).abs() < 1e-6);
        assert!(share > KUBELET_AGE_INVALID, "{share}");
    }

    #[test]
    fn nodes_whose_kubelets_did_not_answer_are_named() {
        let (order, places) = (order(60), places());
        let mut watch = Watch::new(&order, &places);
        watch.answer("n1", &summary("n1", START, true), (0, 0));
        assert_eq!(watch.unanswered(), None);
        watch.miss("n2".to_owned(), "refused".to_owned());
        watch.miss("n2".to_owned(), "no answer within 4 s".to_owned());
        watch.miss("n1".to_owned(), "refused".to_owned());
        let said = watch.unanswered().unwrap();
        assert!(said.contains("n1 (1 of 2 questions; refused)"), "{said}");
        assert!(said.contains("n2 (2 of 2 questions; no answer"), "{said}");
    }
}
