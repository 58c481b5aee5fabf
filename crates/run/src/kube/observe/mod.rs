//! Observes an installed mesh under the cluster's own traffic. It only reads: it creates and changes nothing.

mod find;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tare_model::SCHEMA_VERSION;
use tare_model::mesh::MeshParts;
use tare_model::observation::{Observation, ObservedPart, Part, Usage, Workload};
use tare_model::plan::KubernetesSettings;
use tokio::sync::watch;
use tokio::time::Instant;

use self::find::Found;
use self::usage::{CONFIDENCE, Usages, estimate, windows};
use super::api::kinds::{NODE_PROXY, POD};
use super::api::{ApiClient, ApiError, kubeconfig};
use super::sampling::kubelet::summaries;
use super::sampling::readings::{self, ContainerKey};
use crate::environment::EnvironmentError;
use crate::now::unix_ns;

/// Time between two requests to each kubelet.
const EVERY: Duration = Duration::from_secs(5);
/// Time between two searches for pods that have come since.
const FIND_EVERY: Duration = Duration::from_secs(30);
/// How long after the observed time the last values may arrive.
const LATE_MAX: Duration = Duration::from_secs(20);

/// What to observe.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the parts of the meshes run that may be installed.
    pub parts: Vec<MeshParts>,
    /// Namespaces whose sidecars are observed; empty for all.
    pub namespaces: Vec<String>,
    /// How long to observe.
    pub duration: Duration,
}

/// How far an observation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observing {
    /// Time since the first values.
    pub elapsed: Duration,
    /// Number of observed containers.
    pub containers: usize,
    /// Number of nodes with such containers.
    pub nodes: usize,
}

/// Returns the role that an observation needs, as YAML for `kubectl apply -f -`.
#[must_use]
pub fn observe_role_yaml() -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare-observe\nrules:\n  \
         # finds the pods of the mesh\n  - apiGroups: [\"\"]\n    resources: [{}]\n    verbs: [list]\n  \
         # {}\n  - apiGroups: [\"\"]\n    resources: [{}]\n    verbs: [get]\n",
        POD.plural, NODE_PROXY.why, NODE_PROXY.plural
    )
}

/// Reads CPU and memory of the installed meshes from the kubelets. Ends early, with the result until then, when `stop`
/// becomes true.
///
/// # Errors
/// If the cluster or all kubelets do not respond, no part of a mesh is found, or the observed time is too short.
pub async fn observe(
    settings: &KubernetesSettings,
    options: &Options,
    mut stop: watch::Receiver<bool>,
    progress: &mut dyn FnMut(Observing),
) -> Result<Observation, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    let mut state = State {
        found: find::find(&api, options).await?,
        usages: Usages::default(),
        at_first: BTreeMap::new(),
        at_last: BTreeMap::new(),
        answered: BTreeMap::new(),
        missed: BTreeMap::new(),
        age_ns_max: 0,
    };
    if state.found.is_empty() {
        return Err(nothing_found(options));
    }
    let start = Instant::now();
    let mut searched = start;
    let mut due = start;
    let mut wanted_ns = i64::MAX;
    loop {
        state.round(&api).await?;
        let elapsed = start.elapsed();
        progress(Observing {
            elapsed: elapsed.min(options.duration),
            containers: state.found.len(),
            nodes: state.nodes().len(),
        });
        if wanted_ns == i64::MAX && (elapsed >= options.duration || *stop.borrow()) {
            wanted_ns = unix_ns() as i64;
        }
        let is_late = elapsed >= options.duration + LATE_MAX || *stop.borrow();
        if wanted_ns != i64::MAX && (is_late || state.covered().1 >= wanted_ns) {
            break;
        }
        if searched.elapsed() >= FIND_EVERY {
            searched = Instant::now();
            state.found.extend(find::find(&api, options).await?);
        }
        due = (due + EVERY).max(Instant::now());
        tokio::select! {
            () = tokio::time::sleep_until(due) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
    state.result(kubeconfig::server(settings)?)
}

fn nothing_found(options: &Options) -> EnvironmentError {
    let sidecars = options.parts.iter().filter_map(|p| p.sidecar.as_deref());
    let sidecars: BTreeSet<&str> = sidecars.collect();
    let sidecars: Vec<&str> = sidecars.into_iter().collect();
    let place = match options.namespaces.is_empty() {
        true => String::new(),
        false => format!(" in {}", options.namespaces.join(", ")),
    };
    EnvironmentError::missing(
        format!(
            "found no part of a mesh: no running pod{place} has a container {}, and no control plane runs where it is \
             expected",
            sidecars.join(" or ")
        ),
        "name the sidecar with --sidecar CONTAINER, and the control plane with --control-plane NAMESPACE/SELECTOR",
    )
}

struct State {
    found: BTreeMap<ContainerKey, Found>,
    usages: Usages,
    /// The containers in the first summary of each node, and in its last.
    at_first: BTreeMap<String, Vec<ContainerKey>>,
    at_last: BTreeMap<String, Vec<ContainerKey>>,
    /// Number of summaries, by node.
    answered: BTreeMap<String, u32>,
    /// Number of requests without a summary and the last error, by node.
    missed: BTreeMap<String, (u32, String)>,
    age_ns_max: u64,
}

impl State {
    fn nodes(&self) -> BTreeSet<&str> {
        self.found.values().map(|f| f.node.as_str()).collect()
    }

    /// Requests the summaries of all nodes once.
    async fn round(&mut self, api: &ApiClient) -> Result<(), EnvironmentError> {
        self.usages.round();
        let nodes: Vec<String> = self.nodes().into_iter().map(str::to_owned).collect();
        let mut failed = None;
        for (node, answer) in summaries(api, nodes.iter().map(String::as_str)).await {
            match answer {
                Ok(summary) => self.add(node, &summary),
                Err(error) => {
                    let missed = self.missed.entry(node).or_default();
                    *missed = (missed.0 + 1, error.to_string());
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) if self.answered.is_empty() => Err(no_kubelet(&error)),
            Some(_) => {
                self.usages.drop_round();
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn add(&mut self, node: String, summary: &serde_json::Value) {
        let now = unix_ns() as i64;
        let (_, containers) = readings::parse(summary);
        let mut seen = Vec::new();
        for (key, reading) in containers {
            if self.found.contains_key(&key) {
                let age = u64::try_from(now - reading.unix_ns).unwrap_or(0);
                self.age_ns_max = self.age_ns_max.max(age);
                self.usages.add(&key, reading);
                seen.push(key);
            }
        }
        *self.answered.entry(node.clone()).or_default() += 1;
        self.at_first
            .entry(node.clone())
            .or_insert_with(|| seen.clone());
        self.at_last.insert(node, seen);
    }

    fn covered(&self) -> (i64, i64) {
        let [first, last] =
            [&self.at_first, &self.at_last].map(|by_node| by_node.values().flatten());
        self.usages.covered(first, last)
    }

    fn result(&self, server: String) -> Result<Observation, EnvironmentError> {
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
                let wanted =
                    move |f: &Found| f.part == part && workload.is_none_or(|w| w == f.workload);
                self.usage(wanted, &windows)
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
        let shares = runs(Part::Sidecars).iter().zip(runs(Part::Applications));
        let shares: Vec<f64> = shares.map(|(sidecars, own)| sidecars / own).collect();
        let is_known = !shares.is_empty() && shares.iter().all(|s| s.is_finite());
        let missed = self.missed.iter().map(|(node, (count, found))| {
            let all = count + self.answered.get(node).copied().unwrap_or(0);
            format!("the kubelet of {node} did not respond to {count} of {all} requests: {found}")
        });
        Ok(Observation {
            schema_version: SCHEMA_VERSION,
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            server,
            started_unix_ns: u64::try_from(covered.0).unwrap_or(0),
            observed_ns: u64::try_from(covered.1 - covered.0).unwrap_or(0),
            confidence: CONFIDENCE,
            nodes: self.nodes().into_iter().map(str::to_owned).collect(),
            parts: seen,
            sidecar_share: is_known.then(|| estimate(shares)),
            age_ns_max: self.age_ns_max,
            notes: missed.collect(),
        })
    }

    fn usage(&self, wanted: impl Fn(&Found) -> bool, windows: &[(i64, i64)]) -> Usage {
        let all = self.found.iter().filter(|(_, f)| wanted(f));
        let keys: Vec<&ContainerKey> = all.map(|(key, _)| key).collect();
        let pods: BTreeSet<(&str, &str)> =
            keys.iter().map(|k| (k.0.as_str(), k.1.as_str())).collect();
        let (memory_bytes, memory_max_bytes) = self.usages.memory(keys.iter().copied());
        Usage {
            pods: u32::try_from(pods.len()).unwrap_or(u32::MAX),
            cpu_cores: estimate(self.usages.cores(keys.into_iter(), windows)),
            memory_bytes,
            memory_max_bytes,
        }
    }
}

fn no_kubelet(error: &ApiError) -> EnvironmentError {
    let remedy = match error.is_forbidden() {
        true => "apply the role that `tare observe --rbac` prints, and bind it to your user",
        false => "see `kubectl get nodes`",
    };
    EnvironmentError::missing(format!("no kubelet responds: {error}"), remedy)
}
