//! Sampling where agents may not run: requests the kubelets' summaries through the API server every
//! few seconds, and creates from them the stream that agents would have written.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tare_records::record::AgentRecord;
use tare_records::trial::EventKind;
use tare_records::worker::{AgentSpec, WatchedProcess};
use tare_records::writer;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::merge::NodePart;
use super::readings::{self, ContainerKey, ContainerReadings, NodeReadings};
use crate::api::kinds::{NODE_PROXY, POD};
use crate::api::{ApiClient, ApiError};
use crate::objects::Pod;
use crate::trial::Events;
use tare_files::unix_ns;
use tare_run::agent_records::AgentRecords;

/// Time between two requests to each kubelet.
const EVERY: Duration = Duration::from_secs(2);
/// Time between two samples of a window.
const STEP_NS: usize = EVERY.as_nanos() as usize;
/// Longest wait for a summary.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);
/// How long after the window the values of its end may arrive.
const LATE_MAX: Duration = Duration::from_secs(8);

/// What to sample, and the reason for sampling by kubelets.
#[derive(Debug, Clone)]
pub(crate) struct KubeletSampling {
    pub(crate) spec: AgentSpec,
    pub(crate) nodes: Vec<NodePart>,
    pub(crate) reason: String,
}

/// The containers of a specification by namespace, pod and name; `None` if no pod has one.
async fn container_keys(
    api: &ApiClient,
    spec: &AgentSpec,
) -> Result<Vec<Option<ContainerKey>>, ApiError> {
    let pods: Vec<Pod> = api.list(POD, None, "").await?;
    let mut by_id: BTreeMap<&str, ContainerKey> = BTreeMap::new();
    for pod in &pods {
        for container in pod.containers() {
            let key = || {
                let names = [pod.namespace(), pod.name(), container.name()];
                names.map(str::to_owned).into()
            };
            by_id.extend(container.id().map(|id| (id, key())));
        }
    }
    let key = |watched: &WatchedProcess| {
        let id = watched.container.as_deref()?.rsplit('/').next()?;
        by_id.get(id).cloned()
    };
    Ok(spec.processes.iter().map(key).collect())
}

/// Requests a kubelet's summary.
pub(crate) async fn summary(api: &ApiClient, node: &str) -> Result<Value, ApiError> {
    let path = NODE_PROXY.object(None, node);
    let path = format!("{path}/stats/summary?only_cpu_and_memory=true");
    api.document(&path).await
}

/// Requests the summaries of kubelets, all at once.
pub(crate) async fn summaries(
    api: &ApiClient,
    nodes: impl Iterator<Item = &str>,
) -> Vec<(String, Result<Value, ApiError>)> {
    let mut requests = JoinSet::new();
    for node in nodes {
        let (api, node) = (api.clone(), node.to_owned());
        requests.spawn(async move {
            let answer = tokio::time::timeout(ANSWER_WITHIN, summary(&api, &node)).await;
            let late = |_| ApiError {
                request: format!("summary of {node}"),
                status: None,
                found: format!("no response within {} s", ANSWER_WITHIN.as_secs()),
            };
            let answer = answer.map_err(late).flatten();
            (node, answer)
        });
    }
    requests.join_all().await
}

/// Samples a window, then sends the whole stream. Reports faults as events.
pub(crate) async fn sample(
    api: ApiClient,
    sampling: KubeletSampling,
    out: mpsc::Sender<String>,
    events: Events,
) {
    let reason = &sampling.reason;
    let keys = match container_keys(&api, &sampling.spec).await {
        Ok(keys) => keys,
        Err(error) => {
            let found = format!("{reason}; {error}");
            return events.push(EventKind::SamplingFailed, "", found);
        }
    };
    let mut summaries = Summaries::new(&sampling, &keys);
    let start = sampling.spec.window_start_unix_ns as i64;
    let end = start + sampling.spec.window_ns as i64;
    let lead = start - unix_ns() as i64 - EVERY.as_nanos() as i64;
    tokio::time::sleep(Duration::from_nanos(u64::try_from(lead).unwrap_or(0))).await;
    let mut due = Instant::now();
    loop {
        summaries.request(&api, end).await;
        let now = unix_ns() as i64;
        if now >= end && (summaries.cover(end) || now > end + LATE_MAX.as_nanos() as i64) {
            break;
        }
        due = (due + EVERY).max(Instant::now());
        tokio::time::sleep_until(due).await;
    }
    if summaries.answered.is_empty()
        && let Some(error) = &summaries.error
    {
        let message = format!(
            "{reason}, and no kubelet responds: {error}; `tare doctor --rbac` with \
             `kubernetes.sampling: kubelet` prints the necessary role"
        );
        return events.push(EventKind::SamplingFailed, "", message);
    }
    summaries.include_extrapolation((start, end - start));
    if let Some(message) = summaries.unanswered() {
        events.push(EventKind::SamplingFailed, "", message);
    }
    let message = format!(
        "{reason}: CPU and memory are from kubelet summaries, requested every {} s; values were \
         up to {:.1} s old",
        EVERY.as_secs(),
        summaries.age_ns_max as f64 / 1e9
    );
    events.push(EventKind::SampledByKubelets, "", message);
    for line in summaries.stream((start, end - start)) {
        if out.send(line).await.is_err() {
            return;
        }
    }
}

/// Summaries of all kubelets so far.
struct Summaries<'a> {
    sampling: &'a KubeletSampling,
    keys: &'a [Option<ContainerKey>],
    /// Readings of each process of the specification.
    containers: Vec<ContainerReadings>,
    /// Readings of the nodes that represent their machine, by name.
    machines: BTreeMap<&'a str, NodeReadings>,
    age_ns_max: u64,
    /// Number of requests with a response, by node.
    answered: BTreeMap<String, u32>,
    /// Number of requests without a response and the last error, by node.
    missed: BTreeMap<String, (u32, String)>,
    error: Option<ApiError>,
}

impl<'a> Summaries<'a> {
    fn new(sampling: &'a KubeletSampling, keys: &'a [Option<ContainerKey>]) -> Self {
        let machines = sampling.nodes.iter().filter_map(|node| {
            let readings = NodeReadings {
                cores: node.machine_cores?,
                has_application: node.has_application,
                readings: Vec::new(),
            };
            Some((node.node.as_str(), readings))
        });
        Self {
            sampling,
            keys,
            containers: vec![ContainerReadings::default(); keys.len()],
            machines: machines.collect(),
            age_ns_max: 0,
            answered: BTreeMap::new(),
            missed: BTreeMap::new(),
            error: None,
        }
    }

    /// Requests the summaries of all kubelets at once.
    async fn request(&mut self, api: &ApiClient, end_unix_ns: i64) {
        let nodes = self.sampling.nodes.iter().map(|n| n.node.as_str());
        for (node, answer) in summaries(api, nodes).await {
            match answer {
                Ok(summary) => self.add(&node, &summary, (unix_ns() as i64, end_unix_ns)),
                Err(error) => {
                    self.miss(node, error.to_string());
                    self.error = Some(error);
                }
            }
        }
    }

    fn miss(&mut self, node: String, found: String) {
        let missed = self.missed.entry(node).or_default();
        *missed = (missed.0 + 1, found);
    }

    /// Returns a message with the nodes whose kubelets did not respond to a request.
    fn unanswered(&self) -> Option<String> {
        let nodes = self.missed.iter().map(|(node, (count, found))| {
            let all = count + self.answered.get(node).copied().unwrap_or(0);
            format!("{node} ({count} of {all} requests; {found})")
        });
        let nodes: Vec<String> = nodes.collect();
        (!nodes.is_empty()).then(|| format!("kubelets did not respond: {}", nodes.join(", ")))
    }

    /// Adds a summary that was received `now`.
    fn add(&mut self, node: &str, summary: &Value, (now, end_unix_ns): (i64, i64)) {
        *self.answered.entry(node.to_owned()).or_default() += 1;
        let (machine, containers) = readings::parse(summary);
        if let (Some(readings), Some(reading)) = (self.machines.get_mut(node), machine) {
            readings.push(reading);
        }
        let processes = self.sampling.spec.processes.iter();
        let all = processes.zip(self.keys).zip(&mut self.containers);
        for ((watched, key), readings) in all {
            let on = watched.container.as_deref().and_then(|c| c.split_once('/'));
            let (Some((on, _)), Some(key)) = (on, key) else {
                continue;
            };
            if on != node {
                continue;
            }
            readings.push(containers.get(key).copied(), now);
            // Summaries after the window are used only for its end, so their age does not count.
            if let Some(age) = readings.age_ns(now).filter(|_| now <= end_unix_ns) {
                self.age_ns_max = self.age_ns_max.max(age);
            }
        }
    }

    /// Readings of the containers that a pod has.
    fn known(&self) -> impl Iterator<Item = &ContainerReadings> {
        let all = self.containers.iter().zip(self.keys);
        all.filter(|(_, key)| key.is_some()).map(|(r, _)| r)
    }

    fn cover(&self, end_unix_ns: i64) -> bool {
        let mut machines = self.machines.values();
        machines.all(|m| m.covers(end_unix_ns)) && self.known().all(|r| r.covers(end_unix_ns))
    }

    /// Raises the age to the longest extrapolation. When a kubelet stops responding, the age at its
    /// last response is small although its readings are used for the rest of the window.
    fn include_extrapolation(&mut self, window: (i64, i64)) {
        let containers = self.known().map(|r| r.extrapolated_ns(window, STEP_NS));
        let machines = self.machines.values().map(|m| m.extrapolated_ns(window));
        self.age_ns_max = containers.chain(machines).fold(self.age_ns_max, u64::max);
    }

    /// Returns the lines that an agent would have written.
    fn stream(&self, window: (i64, i64)) -> Vec<String> {
        let mut records = AgentRecords::new(Vec::new());
        // Writing to memory does not fail.
        let _ = records.hello("kubelet", 0);
        let machines: Vec<NodeReadings> = self.machines.values().cloned().collect();
        for sample in readings::samples(&self.containers, &machines, window, STEP_NS) {
            let _ = records.sample(sample);
        }
        let age_ns_max = self.age_ns_max;
        let _ = records.write(&AgentRecord::Kubelet { age_ns_max });
        let written = records.last(0, u64::try_from(window.1).unwrap_or(0));
        writer::lines(&written.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tare_analysis::judge::{KUBELET_AGE_INVALID, KUBELET_AGE_SUSPECT};
    use tare_records::trial::Resources;
    use tare_records::worker::Plane;

    const S: f64 = 1e9;
    /// Start of windows, in seconds since 1970.
    const START: f64 = 1000.0;

    fn sampling(window_s: u64) -> KubeletSampling {
        let watched = |node: &str| WatchedProcess {
            name: node.to_owned(),
            plane: Plane::DataPlane,
            pid: 0,
            container: Some(format!("{node}/id-{node}")),
            only_below: false,
        };
        let nodes = ["n1", "n2"];
        let spec = AgentSpec {
            schema_version: tare_plan::SCHEMA_VERSION,
            processes: nodes.map(watched).into(),
            window_start_unix_ns: (START * S) as u64,
            window_ns: window_s * S as u64,
            stack_period_ns: None,
            slices: None,
        };
        let node = |name: &str| NodePart {
            node: name.to_owned(),
            machine_cores: Some(2),
            has_application: false,
            indexes: Vec::new(),
            spec: spec.clone(),
        };
        KubeletSampling {
            spec: spec.clone(),
            nodes: nodes.map(node).into(),
            reason: String::new(),
        }
    }

    fn keys() -> Vec<Option<ContainerKey>> {
        let key = |node: &str| Some(("n".to_owned(), node.to_owned(), "c".to_owned()));
        ["n1", "n2"].map(key).into()
    }

    /// Summary with values of `t` seconds since 1970: the container uses 0.5 cores and, if
    /// `with_node`, the node 1.
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

    /// Samples a window in which the kubelet of `n1` responds every two seconds and that of `n2` at
    /// `times`, with values that are 0.5 s old. Returns the resources, and the greatest age as a
    /// share of the window.
    fn sampled(window_s: u32, times: &[f64], with_node: bool) -> (Resources, f64) {
        let (sampling, keys) = (sampling(window_s.into()), keys());
        let end = START + f64::from(window_s);
        let mut summaries = Summaries::new(&sampling, &keys);
        let mut add = |node: &str, t: f64, with_node: bool| {
            let summary = summary(node, START + t, with_node);
            let now = ((START + t + 0.5) * S) as i64;
            summaries.add(node, &summary, (now, (end * S) as i64));
        };
        for i in 0..=window_s / 2 + 1 {
            add("n1", 2.0 * f64::from(i) - 2.0, true);
        }
        times.iter().for_each(|t| add("n2", *t, with_node));
        let window = ((START * S) as i64, i64::from(window_s) * S as i64);
        summaries.include_extrapolation(window);
        let mut stream = tare_analysis::AgentStream::new();
        for line in summaries.stream(window) {
            stream.line(&line).unwrap();
        }
        let (records, _) = stream.finish();
        let resources =
            tare_analysis::resources::summarise(&sampling.spec, &records, 4, &[]).unwrap();
        let age = resources.kubelet_age_ns_max.unwrap();
        let share = age as f64 / resources.window_ns as f64;
        (resources, share)
    }

    #[test]
    fn regular_responses_give_recent_values() {
        let all: Vec<f64> = (-1..=30).map(|i| 2.0 * f64::from(i)).collect();
        let (resources, share) = sampled(60, &all, true);
        assert!(share < KUBELET_AGE_SUSPECT, "{share}");
        assert!((resources.processes[1].cpu_cores - 0.5).abs() < 1e-6);
        assert!((resources.machine.busy_cores - 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_window_without_responses_is_invalid() {
        let (resources, share) = sampled(60, &[-2.0, -0.5], true);
        assert_eq!(resources.processes[1].cpu_cores, 0.0);
        assert!(share > KUBELET_AGE_INVALID, "{share}");
        assert!(sampled(60, &[], true).1 > KUBELET_AGE_INVALID);
    }

    #[test]
    fn a_window_with_a_part_without_responses_is_suspect() {
        let half: Vec<f64> = (-1..=30).map(|i| 2.0 * f64::from(i)).collect();
        let (_, share) = sampled(120, &half, true);
        assert!((share - 0.5).abs() < 1e-6, "{share}");
        let (_, share) = sampled(60, &[50.0, 52.0, 54.0, 60.0], true);
        assert!((share - 50.0 / 60.0).abs() < 1e-6, "{share}");
        assert!(share > KUBELET_AGE_SUSPECT);
    }

    #[test]
    fn a_window_without_readings_of_a_machine_is_invalid() {
        let all: Vec<f64> = (-1..=30).map(|i| 2.0 * f64::from(i)).collect();
        let (resources, share) = sampled(60, &all, false);
        assert!((resources.processes[1].cpu_cores - 0.5).abs() < 1e-6);
        assert!(share > KUBELET_AGE_INVALID, "{share}");
    }

    #[test]
    fn kubelets_that_did_not_respond_are_reported() {
        let (sampling, keys) = (sampling(60), keys());
        let mut summaries = Summaries::new(&sampling, &keys);
        summaries.add("n1", &summary("n1", START, true), (0, 0));
        assert_eq!(summaries.unanswered(), None);
        summaries.miss("n2".to_owned(), "refused".to_owned());
        summaries.miss("n2".to_owned(), "no response within 4 s".to_owned());
        summaries.miss("n1".to_owned(), "refused".to_owned());
        let message = summaries.unanswered().unwrap();
        assert!(
            message.contains("n1 (1 of 2 requests; refused)"),
            "{message}"
        );
        assert!(
            message.contains("n2 (2 of 2 requests; no response"),
            "{message}"
        );
    }
}
