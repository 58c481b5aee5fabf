//! Sampling: a pod of `tare agent` on every node that holds a part of the trial.

use std::time::Duration;

use tare_model::plan::{KubernetesSettings, SamplingSource};
use tare_model::worker::AgentSpec;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::deploy::{Deployment, all};
use super::events::Events;
use super::kinds::{CONFIG_MAP, POD};
use super::log;
use super::merged::{Merged, Part, merge, parts};
use super::names::{ROLE, TrialNames};
use super::nodes::Node;
use super::pods::Pod;
use super::{kubelet, objects};
use crate::environment::{EnvironmentError, Worker};
use crate::experiment::unix_ns;

const LINES_WAITING_MAX: usize = 4096;
/// Agents that do not run so long before the window are not waited for any more,
const BEFORE_WINDOW: Duration = Duration::from_secs(1);
/// but for so long in any case.
const RUNNING_WITHIN_MIN: Duration = Duration::from_secs(4);
const POLL: Duration = Duration::from_millis(250);

/// Makes the agents and hears them; where they may not run, the kubelets are asked.
pub(super) async fn start(
    api: &Api,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
    nodes: &[Node],
    spec_json: &str,
) -> Result<Worker, EnvironmentError> {
    let spec: AgentSpec = serde_json::from_str(spec_json).map_err(|e| EnvironmentError::Start {
        name: "agents".to_owned(),
        found: e.to_string(),
    })?;
    let parts = parts(&spec, nodes);
    let made = match settings.sampling {
        SamplingSource::Kubelet => Err("as the plan says".to_owned()),
        SamplingSource::Agents => make(api, settings, &deployment.names, &parts).await?,
    };
    let order = kubelet::Order {
        nodes: parts.iter().map(|p| (p.node.clone(), p.speaks)).collect(),
        cores: kubelet::cores(nodes),
        why: String::new(),
        spec,
    };
    let (sender, lines) = mpsc::channel(LINES_WAITING_MAX);
    let (stop, _) = mpsc::channel(1);
    let (api, names) = (api.clone(), deployment.names.clone());
    let events = deployment.events.clone();
    let task = async move {
        let refused = match made {
            Ok(pods) => late(&api, &names, &order, pods.len())
                .await
                .map_or(Ok(pods), Err),
            Err(why) => Err(why),
        };
        match refused {
            Ok(pods) => {
                hear(
                    &api,
                    &names,
                    parts,
                    order.spec.processes.len(),
                    &pods,
                    sender,
                    events,
                )
                .await
            }
            Err(why) => {
                let order = kubelet::Order { why, ..order };
                kubelet::sample(api, order, sender, events).await;
            }
        }
    };
    deployment.tasks.push(tokio::spawn(task));
    Ok(Worker {
        watched: Vec::new(),
        armed_within: Duration::MAX,
        lines,
        stop,
    })
}

/// The pods of the agents; or why the cluster does not let them be.
async fn make(
    api: &Api,
    settings: &KubernetesSettings,
    names: &TrialNames,
    parts: &[Part],
) -> Result<Result<Vec<String>, String>, ApiError> {
    let file = |i: usize| format!("{i}.json");
    let files: Vec<(String, String)> = parts
        .iter()
        .enumerate()
        .map(|(i, p)| (file(i), serde_json::to_string(&p.spec).unwrap_or_default()))
        .collect();
    let map = objects::config_map(names, &names.agents(), "spec", &files);
    api.apply(CONFIG_MAP, &map).await?;
    let pods = parts
        .iter()
        .enumerate()
        .map(|(i, p)| (POD, objects::agent(names, settings, &p.node, &file(i))))
        .collect();
    let name = |pod: &serde_json::Value| {
        let name = pod["metadata"]["name"].as_str();
        name.unwrap_or_default().to_owned()
    };
    match all(api, pods).await {
        Ok(pods) => Ok(Ok(pods.iter().map(name).collect())),
        // What admission says: to privileges, to paths of the host.
        Err(error) if matches!(error.status, Some(400 | 403 | 422)) => {
            Ok(Err(format!("agents may not run ({})", error.found)))
        }
        Err(error) => Err(error),
    }
}

/// Why the kubelets must be asked although the agents were made: they do not run in
/// time, and the kubelets answer.
async fn late(
    api: &Api,
    names: &TrialNames,
    order: &kubelet::Order,
    count: usize,
) -> Option<String> {
    let window = Duration::from_nanos(order.spec.window_start_unix_ns.saturating_sub(unix_ns()));
    let until = Instant::now() + window.saturating_sub(BEFORE_WINDOW).max(RUNNING_WITHIN_MIN);
    let selector = format!("{},{ROLE}=agent", names.selector());
    let mut why = "no reason is known".to_owned();
    loop {
        // A server that is away says nothing about agents.
        if let Ok(pods) = api.list(POD, Some(&names.agents()), &selector).await {
            let begun = |p: &&serde_json::Value| {
                let own = Pod(p).containers();
                own.iter().any(|c| c.id().is_some() || c.ended().is_some())
            };
            if pods.iter().filter(begun).count() == count {
                return None;
            }
            if let Some(pod) = pods.iter().find(|p| !begun(p)) {
                why = Pod(pod).why_not();
            }
        }
        if Instant::now() > until {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    let (node, _) = order.nodes.first()?;
    let answers = kubelet::ask(api, node).await.is_ok();
    answers.then(|| format!("agents do not run ({why})"))
}

/// The agents' streams made one.
async fn hear(
    api: &Api,
    names: &TrialNames,
    parts: Vec<Part>,
    total: usize,
    pods: &[String],
    out: mpsc::Sender<String>,
    events: Events,
) {
    let (raw_sender, raw) = mpsc::channel(LINES_WAITING_MAX);
    // Ended with this task.
    let mut followers = JoinSet::new();
    for (index, pod) in pods.iter().enumerate() {
        let source = log::Source {
            index,
            what: format!("the agent on {}", parts[index].node),
            namespace: names.agents(),
            pod: pod.clone(),
        };
        let (raw, events) = (raw_sender.clone(), events.clone());
        followers.spawn(log::follow(api.clone(), source, raw, events));
    }
    drop(raw_sender);
    let merged = Merged::new(parts, total);
    merge(merged, raw, out, events).await;
}
