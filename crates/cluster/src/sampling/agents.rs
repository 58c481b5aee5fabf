//! Sampling of CPU and memory: a pod with `tare agent` on every node that runs a part of the trial.

use std::time::Duration;

use tare_plan::{KubernetesSettings, SamplingSource};
use tare_records::trial::EventKind;
use tare_records::worker::AgentSpec;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::kubelet::{self, KubeletSampling};
use super::merge::{MergedSamples, NodePart, divide, merge};
use super::pprof::{self, PprofStacks, Timing};
use crate::api::kinds::{CONFIG_MAP, POD};
use crate::api::{self, ApiClient, ApiError};
use crate::objects::names::{ROLE, TrialNames};
use crate::objects::{Node, Pod, manifests};
use crate::trial::{Deployment, Events, PodLog};
use tare_files::unix_ns;
use tare_run::environment::{IdleSampling, Worker};

const BUFFERED_LINES_MAX: usize = 4096;
/// Agents must run at least this long before the window starts.
const BEFORE_WINDOW: Duration = Duration::from_secs(1);
/// Agents get at least this time to start, even if the window starts earlier.
const START_WITHIN_MIN: Duration = Duration::from_secs(4);
const POLL: Duration = Duration::from_millis(250);

/// The sampling without load. Pods of agents need seconds to start. Meanwhile, the proxies end what they do
/// when they have started.
pub(crate) const IDLE: IdleSampling = IdleSampling {
    lead: Duration::from_secs(8),
    window: Duration::from_secs(5),
    overdue: Duration::from_secs(10),
};

/// What agents sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sampled {
    /// The deployment before the load. Kubelets do not replace the agents: their readings are up to 20 s
    /// apart, and would include the start of the proxies. Without agents there are no records, and an
    /// event states the reason.
    Idle,
    /// The measured window. Where agents may not run, the samples come from the kubelets.
    Load,
}

impl Sampled {
    /// Name of the agents' ConfigMap, with which those of their pods begin.
    fn name(self, deployment: &Deployment) -> String {
        match self {
            Self::Idle => "idle-agent".to_owned(),
            Self::Load => deployment.runs.name("agent"),
        }
    }
}

/// Creates the agents and starts to read their records.
pub(crate) async fn start(
    api: &ApiClient,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
    nodes: &[Node],
    spec: AgentSpec,
    sampled: Sampled,
) -> Result<Worker, ApiError> {
    let parts = divide(&spec, nodes);
    let created = match settings.sampling {
        SamplingSource::Kubelet => Err(BY_PLAN.to_owned()),
        SamplingSource::Agents => {
            create(api, settings, deployment, &sampled.name(deployment), &parts).await?
        }
    };
    if let (Ok(pods), Sampled::Load) = (&created, sampled) {
        deployment.runs.agents.clone_from(pods);
    }
    let (sender, lines) = mpsc::channel(BUFFERED_LINES_MAX);
    let pprof = pprof(api, deployment, &spec);
    let (api, names) = (api.clone(), deployment.names.clone());
    let events = deployment.events.clone();
    deployment.tasks.spawn(async move {
        let created_pods = created.clone().unwrap_or_default();
        let running = match created {
            Ok(pods) => wait_running(&api, &names, &spec, &parts, &pods)
                .await
                .map(|()| pods),
            Err(reason) => Err(reason),
        };
        let idle = Events::default();
        let found = match sampled {
            Sampled::Idle => &idle,
            Sampled::Load => &events,
        };
        match running {
            Ok(pods) => {
                let whole = (parts, spec.processes.len());
                read(&api, &names, whole, &pods, sender, found.clone(), pprof).await;
            }
            Err(reason) if sampled == Sampled::Idle => {
                idle.push(EventKind::SamplingFailed, "", reason);
            }
            Err(reason) => {
                let sampling = KubeletSampling {
                    spec,
                    nodes: parts,
                    reason,
                };
                kubelet::sample(api.clone(), sampling, sender, events.clone()).await;
            }
        }
        if sampled == Sampled::Idle {
            // Pods that start late, or end later, would do so during the measurement.
            for pod in created_pods {
                let _ = api.delete(POD, Some(&names.agents()), &pod).await;
            }
        }
        for event in idle.take() {
            // An agent that ends before the load is not a part of the trial that ended.
            let kind = match event.kind {
                EventKind::Exited => EventKind::SamplingFailed,
                kind => kind,
            };
            let found = format!("sampling without load: {}", event.found);
            events.push(kind, event.subject, found);
        }
    });
    Ok(worker(lines))
}

/// Fetches the profiles of the control plane, if stacks are sampled.
fn pprof(
    api: &ApiClient,
    deployment: &Deployment,
    spec: &AgentSpec,
) -> impl Future<Output = PprofStacks> + use<> {
    let timing = spec.stack_period_ns.map(|period_ns| Timing {
        start_unix_ns: spec.window_start_unix_ns,
        window_ns: spec.window_ns,
        period_ns,
    });
    let endpoints = deployment.section().map(|s| s.pprof.clone());
    let (api, dir) = (api.clone(), deployment.dir.clone());
    async move {
        match timing.zip(endpoints) {
            Some((timing, endpoints)) => pprof::fetch(&api, &endpoints, timing, &dir).await,
            None => PprofStacks::default(),
        }
    }
}

/// Why agents are not used.
const BY_PLAN: &str = "the plan sets `sampling: kubelet`";

fn worker(lines: mpsc::Receiver<String>) -> Worker {
    let (stop, _) = mpsc::channel(1);
    Worker {
        watched: Vec::new(),
        armed_within: Duration::MAX,
        lines,
        stop,
    }
}

/// Creates the agents. Returns the names of their pods, or the reason why the cluster rejects them.
async fn create(
    api: &ApiClient,
    settings: &KubernetesSettings,
    deployment: &Deployment,
    name: &str,
    parts: &[NodePart],
) -> Result<Result<Vec<String>, String>, ApiError> {
    let names = &deployment.names;
    let file = |i: usize| format!("{i}.json");
    let files: Vec<(String, String)> = parts
        .iter()
        .enumerate()
        .map(|(i, p)| (file(i), serde_json::to_string(&p.spec).unwrap_or_default()))
        .collect();
    let object = manifests::config_map(names, &names.agents(), name, &files);
    api.apply(CONFIG_MAP, &object).await?;
    let pods: Vec<String> = (0..parts.len()).map(|i| format!("{name}-{i}")).collect();
    let objects = parts.iter().zip(&pods).enumerate().map(|(i, (p, pod))| {
        let stacks = p.spec.stack_period_ns.is_some();
        let agent = manifests::agent(names, settings, &p.node, pod, (name, file(i)), stacks);
        (POD, api::json(&agent))
    });
    match api.apply_all(objects.collect()).await {
        Ok(()) => Ok(Ok(pods)),
        // Admission rejects the privileges or the host paths of the pod.
        Err(error) if matches!(error.status, Some(400 | 403 | 422)) => {
            Ok(Err(format!("the cluster rejects agents ({})", error.found)))
        }
        Err(error) => Err(error),
    }
}

/// Waits until the agents run. Fails with the reason if they do not run in time and kubelets
/// respond, so that sampling by kubelets is possible.
async fn wait_running(
    api: &ApiClient,
    names: &TrialNames,
    spec: &AgentSpec,
    parts: &[NodePart],
    created: &[String],
) -> Result<(), String> {
    let to_window = Duration::from_nanos(spec.window_start_unix_ns.saturating_sub(unix_ns()));
    let within = to_window.saturating_sub(BEFORE_WINDOW);
    let start = Instant::now();
    let until = start + within.max(START_WITHIN_MIN);
    let selector = format!("{},{ROLE}=agent", names.selector());
    let mut reason = "reason unknown".to_owned();
    loop {
        // If the API server does not respond, the agents may run nevertheless.
        if let Ok(mut pods) = api.list::<Pod>(POD, Some(&names.agents()), &selector).await {
            pods.retain(|p| created.iter().any(|name| p.name() == name));
            let started = |p: &&Pod| {
                let containers = p.containers();
                let mut containers = containers.iter();
                containers.any(|c| c.id().is_some() || c.ended().is_some())
            };
            if pods.iter().filter(started).count() == parts.len() {
                let elapsed = start.elapsed();
                tracing::debug!(pods = pods.len(), ?elapsed, "waited until agents run");
                return Ok(());
            }
            if let Some(pod) = pods.iter().find(|p| !started(p)) {
                reason = pod.not_ready_reason();
            }
        }
        if Instant::now() > until {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    match parts.first() {
        Some(part) if kubelet::summary(api, &part.node).await.is_ok() => {
            Err(format!("agents do not run ({reason})"))
        }
        _ => Ok(()),
    }
}

/// Reads the logs of the agents and merges their records.
async fn read(
    api: &ApiClient,
    names: &TrialNames,
    (parts, processes): (Vec<NodePart>, usize),
    pods: &[String],
    out: mpsc::Sender<String>,
    events: Events,
    pprof: impl Future<Output = PprofStacks>,
) {
    let (log_sender, logs) = mpsc::channel(BUFFERED_LINES_MAX);
    // The tasks are aborted when this is dropped at the end of the function.
    let mut followers = JoinSet::new();
    for (index, pod) in pods.iter().enumerate() {
        let log = PodLog {
            index,
            worker: format!("the agent on {}", parts[index].node),
            namespace: names.agents(),
            pod: pod.clone(),
        };
        followers.spawn(log.follow(api.clone(), log_sender.clone(), events.clone()));
    }
    drop(log_sender);
    let merged = MergedSamples::new(parts, processes);
    merge(merged, logs, out, events, pprof).await;
}
