//! An observation in progress: what was found and read so far.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tare_plan::SCHEMA_VERSION;
use tare_plan::mesh::ProofSource;
use tare_records::observation::{Observation, ObservedPart, Part, Usage, Workload};
use tokio::sync::watch;
use tokio::time::Instant;

use super::find::{ObservedContainer, find};
use super::requests::{self, Counters};
use super::usage::{CONFIDENCE, Usages, estimate, ratio, windows};
use super::{Observing, Options};
use crate::api::{ApiClient, ApiError};
use crate::sampling::kubelet::summaries;
use crate::sampling::readings;
use crate::sampling::readings::ContainerKey;
use tare_files::unix_ns;
use tare_run::environment::EnvironmentError;

/// Time between two requests to each kubelet.
const EVERY: Duration = Duration::from_secs(5);
/// Time between two searches for pods that have come since.
const FIND_EVERY: Duration = Duration::from_secs(30);
/// A node that stopped responding this long before the others no longer limits the observed time.
const SILENT_AFTER: Duration = Duration::from_secs(30);
/// How long after the observed time the last values may arrive.
const LATE_MAX: Duration = Duration::from_secs(20);

/// An observation in progress.
pub(super) struct State {
    /// All containers so far.
    pub(super) found: BTreeMap<ContainerKey, ObservedContainer>,
    /// Those that were there at the last search.
    current: BTreeSet<ContainerKey>,
    usages: Usages,
    /// The time of the newest value in the first round, by node.
    first: BTreeMap<String, i64>,
    /// When the node responded last, and the time of the oldest value in that response.
    last: BTreeMap<String, (Instant, i64)>,
    /// Number of summaries, by node.
    answered: BTreeMap<String, u32>,
    /// Number of requests without a summary and the last error, by node.
    missed: BTreeMap<String, (u32, String)>,
    pub(super) notes: Vec<String>,
    age_ns_max: u64,
}

impl State {
    pub(super) fn new(found: BTreeMap<ContainerKey, ObservedContainer>) -> Self {
        Self {
            current: found.keys().cloned().collect(),
            found,
            usages: Usages::default(),
            first: BTreeMap::new(),
            last: BTreeMap::new(),
            answered: BTreeMap::new(),
            missed: BTreeMap::new(),
            notes: Vec::new(),
            age_ns_max: 0,
        }
    }

    /// The nodes of the containers that are there.
    fn nodes(&self) -> BTreeSet<&str> {
        let current = self.current.iter().filter_map(|key| self.found.get(key));
        current.map(|f| f.node.as_str()).collect()
    }

    /// The counters of requests by name of the sidecar container.
    pub(super) fn sources(
        &self,
        options: &Options,
    ) -> Result<BTreeMap<String, ProofSource>, EnvironmentError> {
        let mut sources = BTreeMap::new();
        for parts in &options.parts {
            if let (Some(sidecar), Some(source)) = (&parts.sidecar, &parts.requests) {
                sources
                    .entry(sidecar.clone())
                    .or_insert_with(|| source.clone());
            }
        }
        let mut sidecars = self.found.iter().filter(|(_, f)| f.part == Part::Sidecars);
        match sidecars.any(|(key, _)| sources.contains_key(&key.2)) {
            true => Ok(sources),
            false => Err(EnvironmentError::missing(
                "found no sidecar whose counters of requests tare knows",
                "observe without --requests",
            )),
        }
    }

    /// Reads until the duration has passed or `stop` becomes true. Fails only if no kubelet responds at the first time.
    pub(super) async fn watch(
        &mut self,
        api: &ApiClient,
        options: &Options,
        mut counters: Option<&mut Counters<'_>>,
        stop: &mut watch::Receiver<bool>,
        progress: &mut dyn FnMut(Observing),
    ) -> Result<(), EnvironmentError> {
        let start = Instant::now();
        let (mut searched, mut due) = (start, start);
        let count_every = (options.duration / requests::TIMES).max(requests::TIME_MIN);
        loop {
            self.round(api).await?;
            let elapsed = start.elapsed();
            progress(Observing {
                elapsed: elapsed.min(options.duration),
                containers: self.current.len(),
                nodes: self.nodes().len(),
            });
            // The first values of the kubelets are some seconds old, so the counters are read from the second round on.
            if let Some(counters) = counters.as_mut().filter(|_| due > start) {
                let is_last = elapsed >= options.duration;
                let every = if is_last {
                    requests::TIME_MIN / 2
                } else {
                    count_every
                };
                if counters.since_last().is_none_or(|since| since >= every) {
                    let current = self
                        .found
                        .iter()
                        .filter(|(key, _)| self.current.contains(*key));
                    tokio::select! {
                        () = counters.read(current) => {}
                        _ = stop.wait_for(|stop| *stop) => {}
                    }
                }
            }
            // Requests per second need two readings.
            let has_interval = counters.as_ref().is_none_or(|c| c.has_interval());
            if elapsed >= options.duration && has_interval || *stop.borrow() {
                break;
            }
            if searched.elapsed() >= FIND_EVERY {
                searched = Instant::now();
                match find(api, options).await {
                    Ok(found) => {
                        self.current = found.keys().cloned().collect();
                        self.found.extend(found);
                    }
                    Err(error) => self
                        .notes
                        .push(format!("a search for new pods failed: {error}")),
                }
            }
            due = (due + EVERY).max(Instant::now());
            tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        let wanted_ns = unix_ns() as i64;
        let late = Instant::now() + LATE_MAX;
        while !*stop.borrow() && Instant::now() < late && self.covered().1 < wanted_ns {
            tokio::time::sleep(EVERY).await;
            self.round(api).await?;
        }
        Ok(())
    }

    /// Requests the summaries of all nodes once.
    async fn round(&mut self, api: &ApiClient) -> Result<(), EnvironmentError> {
        let is_first = self.answered.is_empty();
        self.usages.round();
        let nodes: Vec<String> = self.nodes().into_iter().map(str::to_owned).collect();
        let mut failed = None;
        for (node, answer) in summaries(api, nodes.iter().map(String::as_str)).await {
            match answer {
                Ok(summary) => self.add(node, &summary, is_first),
                Err(error) => {
                    let current = self.current.iter();
                    let of_node =
                        current.filter(|key| self.found.get(*key).is_some_and(|f| f.node == node));
                    self.usages.carry(of_node.cloned());
                    let missed = self.missed.entry(node).or_default();
                    *missed = (missed.0 + 1, error.to_string());
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if self.answered.is_empty() => Err(no_kubelet(&error)),
            _ => Ok(()),
        }
    }

    fn add(&mut self, node: String, summary: &serde_json::Value, is_first: bool) {
        let now = unix_ns() as i64;
        let (_, containers) = readings::parse(summary);
        let (mut newest, mut oldest) = (i64::MIN, i64::MAX);
        for (key, reading) in containers {
            if self.found.contains_key(&key) {
                let age = u64::try_from(now - reading.unix_ns).unwrap_or(0);
                self.age_ns_max = self.age_ns_max.max(age);
                newest = newest.max(reading.unix_ns);
                oldest = oldest.min(reading.unix_ns);
                self.usages.add(&key, reading);
            }
        }
        *self.answered.entry(node.clone()).or_default() += 1;
        if newest == i64::MIN {
            return;
        }
        if is_first {
            self.first.insert(node.clone(), newest);
        }
        self.last.insert(node, (Instant::now(), oldest));
    }

    /// The time that is observed: from when the nodes of the first round have values, until the values of those nodes end
    /// that still have containers and respond.
    fn covered(&self) -> (i64, i64) {
        let from = self.first.values().copied().max().unwrap_or(i64::MAX);
        let nodes = self.nodes();
        // Not the time since then: the removal of namespaces may have come between.
        let newest = self.last.values().map(|(at, _)| *at).max();
        let current = self
            .last
            .iter()
            .filter(|(node, _)| nodes.contains(node.as_str()));
        let responds =
            current.filter(|(_, (at, _))| newest.is_some_and(|n| n - *at < SILENT_AFTER));
        let until = responds.map(|(_, (_, oldest))| *oldest).min();
        (from, until.unwrap_or(i64::MIN))
    }

    pub(super) fn result(
        mut self,
        server: String,
        counters: Option<&Counters<'_>>,
    ) -> Result<Observation, EnvironmentError> {
        let covered = self.covered();
        let windows = windows(covered);
        if windows.is_empty() {
            return Err(EnvironmentError::missing(
                "observed for less than 15 s: kubelets read their values every 10 to 15 s",
                "observe for a minute or more, with --duration",
            ));
        }
        let parts: BTreeSet<Part> = self.found.values().map(|f| f.part).collect();
        let mut seen = Vec::new();
        for part in parts {
            let of = |workload: Option<&str>| {
                let wanted = move |f: &ObservedContainer| {
                    f.part == part && workload.is_none_or(|w| w == f.workload)
                };
                let counters = counters.filter(|_| part == Part::Sidecars);
                self.usage(wanted, &windows, counters)
            };
            let names = self.found.values().filter(|f| f.part == part);
            let names: BTreeSet<&str> = names.map(|f| f.workload.as_str()).collect();
            let mut workloads: Vec<Workload> = names
                .into_iter()
                .map(|name| Workload {
                    name: name.to_owned(),
                    usage: of(Some(name)),
                })
                .collect();
            let cores = |w: &Workload| w.usage.cpu_cores.value;
            workloads.sort_by(|a, b| cores(b).total_cmp(&cores(a)));
            seen.push(ObservedPart {
                part,
                total: of(None),
                workloads,
            });
        }
        let runs = |part: Part| {
            let of = seen.iter().find(|p| p.part == part);
            of.map(|p| p.total.cpu_cores.runs.as_slice())
                .unwrap_or_default()
        };
        let sidecar_share = ratio(runs(Part::Sidecars), runs(Part::Applications));
        let missed = self.missed.iter().map(|(node, (count, found))| {
            let all = count + self.answered.get(node).copied().unwrap_or(0);
            format!(
                "the kubelet of {node} did not respond to {count} of {all} requests, so CPU and memory of its pods may \
                 be missing: {found}"
            )
        });
        if counters.is_some() {
            self.notes.extend(unknown_requests(&seen, &self.notes));
        }
        self.notes.extend(missed);
        Ok(Observation {
            schema_version: SCHEMA_VERSION,
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            server,
            started_unix_ns: u64::try_from(covered.0).unwrap_or(0),
            observed_ns: u64::try_from(covered.1 - covered.0).unwrap_or(0),
            confidence: CONFIDENCE,
            nodes: self.answered.into_keys().collect(),
            parts: seen,
            sidecar_share,
            age_ns_max: self.age_ns_max,
            notes: self.notes,
        })
    }

    fn usage(
        &self,
        wanted: impl Fn(&ObservedContainer) -> bool,
        windows: &[(i64, i64)],
        counters: Option<&Counters<'_>>,
    ) -> Usage {
        let covered = windows.first().zip(windows.last());
        let covered = covered.map_or((0, 0), |(first, last)| (first.0, last.1));
        let all = self.found.iter().filter(|(_, f)| wanted(f));
        let keys: BTreeSet<&ContainerKey> = all.map(|(key, _)| key).collect();
        let pods: BTreeSet<(&str, &str)> =
            keys.iter().map(|k| (k.0.as_str(), k.1.as_str())).collect();
        let (memory_bytes, memory_max_bytes) = self.usages.memory(keys.iter().copied());
        Usage {
            pods: u32::try_from(pods.len()).unwrap_or(u32::MAX),
            cpu_cores: estimate(self.usages.cores(keys.iter().copied(), windows)),
            memory_bytes,
            memory_max_bytes,
            requests: counters.and_then(|c| c.of(&keys, &self.usages, covered)),
        }
    }
}

/// Returns why requests are unknown, unless there is a note already: that a reading failed.
fn unknown_requests(parts: &[ObservedPart], notes: &[String]) -> Option<String> {
    let sidecars = parts.iter().find(|p| p.part == Part::Sidecars)?;
    let found = "requests per second are unknown: they need two readings of the sidecars' counters during the time for \
                 which the kubelets gave CPU; observe for longer, with --duration";
    let is_unexplained = sidecars.total.requests.is_none() && notes.is_empty();
    is_unexplained.then(|| found.to_owned())
}

fn no_kubelet(error: &ApiError) -> EnvironmentError {
    let remedy = match error.is_forbidden() {
        true => "apply the role that `tare observe --rbac` prints, and bind it to your user",
        false => "see `kubectl get nodes`",
    };
    EnvironmentError::missing(format!("no kubelet responds: {error}"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn key(node: &str) -> ContainerKey {
        ("n".to_owned(), node.to_owned(), "istio-proxy".to_owned())
    }

    /// A summary of a node with one sidecar, with a value of this second since 1970.
    fn summary(node: &str, second: u64) -> Value {
        let time = tare_analysis::formats::rfc3339(second * 1_000_000_000);
        json!({"pods": [{"podRef": {"name": node, "namespace": "n"}, "containers": [{"name": "istio-proxy",
            "startTime": "1970-01-01T00:00:01Z", "cpu": {"time": time, "usageCoreNanoSeconds": second * 500_000_000},
            "memory": {"workingSetBytes": 100}}]}]})
    }

    fn state(nodes: &[&str]) -> State {
        let found = |node: &&str| (key(node), ObservedContainer::sidecar(node));
        let mut state = State::new(["a", "b", "late"].iter().map(found).collect());
        state.current = nodes.iter().map(|node| key(node)).collect();
        state
    }

    #[test]
    fn nodes_that_come_or_go_do_not_shorten_the_observed_time() {
        let mut state = state(&["a", "b"]);
        let round = |state: &mut State, seconds: &[(&str, u64)]| {
            let is_first = state.answered.is_empty();
            state.usages.round();
            for (node, second) in seconds {
                state.add((*node).to_owned(), &summary(node, *second), is_first);
            }
        };
        round(&mut state, &[("a", 1000), ("b", 1003)]);
        round(&mut state, &[("a", 1040), ("b", 1040)]);
        // b has no pods any more, and another node has some.
        state.current = [key("a"), key("late")].into();
        round(&mut state, &[("a", 1080), ("late", 1078)]);
        round(&mut state, &[("a", 1120), ("late", 1118)]);
        let s = 1_000_000_000;
        assert_eq!(state.covered(), (1003 * s, 1118 * s));
        let observed = state.result("server".into(), None).unwrap();
        let [sidecars] = observed.parts.as_slice() else {
            panic!("{observed:#?}");
        };
        let workload = |name: &str| {
            let found = sidecars.workloads.iter().find(|w| w.name == name);
            found.unwrap().usage.cpu_cores.value * 115.0
        };
        // Half a core: a all the time, b until its last value, the late one from its first value on.
        for (name, seconds) in [("n/a", 115.0), ("n/b", 37.0), ("n/late", 40.0)] {
            let used = workload(name);
            assert!((used - 0.5 * seconds).abs() < 0.01, "{name}: {used}");
        }
        let why = unknown_requests(&observed.parts, &[]).unwrap();
        assert!(why.contains("observe for longer"), "{why}");
        let failed = ["a reading of the counters failed".to_owned()];
        assert_eq!(unknown_requests(&observed.parts, &failed), None);
        let mut known = observed.parts;
        known[0].total.requests = Some(tare_records::observation::Requests {
            per_second: known[0].total.cpu_cores.clone(),
            cpu_cores_per_krps: None,
        });
        assert_eq!(unknown_requests(&known, &[]), None);
    }
}
