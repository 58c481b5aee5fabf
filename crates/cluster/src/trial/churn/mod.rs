//! Churn: services without pods whose endpoints change while the load runs, and how long a change takes to arrive.
//!
//! One of the services, the *watched* one, has a server: a pod in the mesh. Every few seconds, its endpoint is changed
//! to the other of two such pods. On each node, a watcher in the mesh sends requests to the service all the time; which
//! pod answers shows when the change has arrived at the watcher's proxy. Without a mesh, it arrives when kube-proxy has
//! changed the rules of the node.

mod changes;
mod metrics;
mod watchers;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::{self, Service};
use tare_plan::SCHEMA_VERSION;
use tare_plan::graph::builtin;
use tare_plan::load::LoadSpec;
use tare_plan::{Churn, KubernetesSettings};
use tare_records::churn::ChurnRecord;
use tare_records::trial::EventKind;
use tare_records::worker::WorkloadSpec;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::deploy::{Inputs, any_address, cluster_ip};
use super::deployment::Deployment;
use super::pull_secrets;
use crate::api::kinds::{CHURNED_SLICE, CONFIG_MAP, NAMESPACE, POD, SERVICE};
use crate::api::{ApiClient, json};
use crate::objects::churn as objects;
use crate::objects::churn::{EmptyService, SERVERS, WATCHED, watched_slice};
use crate::objects::names::PORT;
use crate::objects::{Node, Pod, manifests};
use crate::wait::wait;
use changes::Changes;
use tare_run::environment::{EnvironmentError, Worker};
use watchers::Watchers;

/// The graph, and the service, of the servers: it answers with a number of bytes.
const GRAPH: &str = "echo";
/// How often a starting pod is read: the resolution of its time.
const POLL: Duration = Duration::from_millis(50);
/// How long after the end of the window the records may be complete.
const RECORDS_WITHIN: Duration = Duration::from_secs(45);

/// The churn of a trial.
#[derive(Debug)]
pub(crate) struct Churning {
    churn: Churn,
    /// Address of the watched service.
    watched: SocketAddr,
    /// Names and addresses of its servers.
    servers: Vec<(String, IpAddr)>,
    /// What is known before the load.
    records: Vec<ChurnRecord>,
    /// What the control plane had counted before the changes, or why it is not known.
    before: Result<metrics::Values, String>,
    /// The changes and the watchers, once they run. Dropped, they end.
    running: JoinSet<Result<Vec<ChurnRecord>, EnvironmentError>>,
    /// Latest end of `running`.
    until: Instant,
}

/// Creates the services of a load's churn, and the servers of the watched one. `mesh_took`: how long the mesh took to
/// be ready, if one was installed.
pub(crate) async fn deploy(
    inputs: Inputs<'_>,
    deployment: &mut Deployment,
    mesh_took: Option<Duration>,
) -> Result<(), EnvironmentError> {
    let Some(churn) = inputs.trial.load.churn else {
        return Ok(());
    };
    let (api, settings, names) = (inputs.api, inputs.settings, deployment.names.clone());
    let join = deployment.join().cloned();
    let namespaces = objects::namespaces(&names, churn);
    let namespace = |name: &String| {
        let labels = manifests::namespace_labels(&names, settings);
        let namespace = manifests::namespace(name, labels, join.as_ref(), false);
        (NAMESPACE, json(&namespace))
    };
    api.apply_all(namespaces.iter().map(namespace).collect())
        .await?;
    pull_secrets::copy(api, settings, &names.labels(), &namespaces[..1]).await?;
    let watched = objects::service(&names, settings, &namespaces[0], WATCHED);
    let watched = address_of(&api.applied(SERVICE, &watched).await?)?;
    let files = servers(watched.is_ipv6())?;
    let files = manifests::config_map(&names, &namespaces[0], "spec", &files);
    api.apply(CONFIG_MAP, &files).await?;

    let took = |took: Duration| took.as_nanos() as u64;
    let mesh_ready = mesh_took.map(|t| ChurnRecord::MeshReady { took_ns: took(t) });
    let mut records: Vec<ChurnRecord> = mesh_ready.into_iter().collect();
    let mut pods = Vec::new();
    // One after the other, and before the services, so that each has the control plane for itself.
    for name in SERVERS {
        let object = objects::server(&names, settings, join.as_ref(), name);
        let start = Instant::now();
        let pod = ready_pod(inputs, deployment, &object).await?;
        records.push(ChurnRecord::PodReady {
            pod: name.to_owned(),
            took_ns: took(start.elapsed()),
        });
        let ip = pod.ip();
        let ip = ip.ok_or_else(|| EnvironmentError::start(name, "it has no address"))?;
        pods.push((name.to_owned(), ip));
        let sidecar = deployment.sidecar().map(str::to_owned);
        deployment
            .more_watched
            .extend(pod.watched(sidecar.as_deref()));
    }
    let services = EmptyService::all(churn).map(|s| s.service(&names, settings));
    let services = services.map(|service| (SERVICE, json(&service)));
    let slices = EmptyService::all(churn).map(|s| s.slice(&names, 0));
    let first = (SERVERS[0], pods[0].1.to_string());
    let slices = slices.chain([watched_slice(&names, (first.0, &first.1))]);
    let slices = slices.map(|slice| (CHURNED_SLICE, json(&slice)));
    api.apply_all(services.chain(slices).collect()).await?;
    deployment.churning = Some(Churning {
        churn,
        watched: SocketAddr::new(watched, PORT),
        servers: pods,
        records,
        before: Ok(metrics::Values::new()),
        running: JoinSet::new(),
        until: Instant::now(),
    });
    Ok(())
}

fn address_of(service: &Service) -> Result<IpAddr, EnvironmentError> {
    let address = cluster_ip(service).and_then(|a| a.parse().ok());
    address.ok_or_else(|| {
        let found = "the cluster assigned no cluster IP";
        EnvironmentError::Cluster(format!("create service {WATCHED}: {found}"))
    })
}

/// The specifications of the servers: the number of a server, from 1, is the size of its answers.
fn servers(is_ipv6: bool) -> Result<Vec<(String, String)>, EnvironmentError> {
    let echo = builtin(GRAPH).ok_or_else(|| EnvironmentError::start(GRAPH, "no such graph"))?;
    let spec = |(name, bytes): (&str, u32)| {
        let mut graph = echo.clone();
        let endpoints = graph.services.iter_mut().flat_map(|s| &mut s.endpoints);
        endpoints.for_each(|e| e.response_bytes = bytes);
        let spec = WorkloadSpec {
            schema_version: SCHEMA_VERSION,
            graph,
            service: GRAPH.to_owned(),
            instance: name.to_owned(),
            listen: any_address(is_ipv6),
            upstreams: BTreeMap::new(),
            seed: 0,
        };
        let text = serde_json::to_string(&spec).unwrap_or_default();
        (format!("{name}.json"), text)
    };
    Ok(SERVERS.into_iter().zip(1..).map(spec).collect())
}

/// Creates a pod, and waits until it is ready, with its sidecar.
async fn ready_pod(
    inputs: Inputs<'_>,
    deployment: &Deployment,
    object: &v1::Pod,
) -> Result<Pod, EnvironmentError> {
    let (api, within_s) = (inputs.api, inputs.settings.ready_within_s);
    let created: Pod = api.applied(POD, object).await?;
    let (namespace, name) = (created.namespace(), created.name());
    let title = format!("{namespace}/{name}");
    let within = Duration::from_secs(u64::from(within_s));
    let pod = wait("a server is ready", POLL, within, async || {
        let pod: Pod = api.get(POD, namespace, name).await?;
        Ok::<_, EnvironmentError>(match pod.is_ready() {
            true => Ok(pod),
            false => Err(pod.not_ready_reason()),
        })
    });
    let pod = pod.await?.map_err(|reason| {
        EnvironmentError::start(&title, format!("not ready within {within_s} s: {reason}"))
    })?;
    if let Some(sidecar) = deployment.sidecar()
        && !pod.has_container(sidecar)
    {
        let found = format!("it has no container {sidecar}, so it is not in the mesh");
        return Err(EnvironmentError::start(title, found));
    }
    Ok(pod)
}

/// Starts the watchers and the changes of a load that is about to start. The agents also sample the watchers.
pub(crate) async fn start(
    api: &ApiClient,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
    nodes: &[Node],
    (spec, worker): (&LoadSpec, &mut Worker),
) -> Result<(), EnvironmentError> {
    let Some(mut churning) = deployment.churning.take() else {
        return Ok(());
    };
    let window_start = deployment.runs.start_unix_ns + spec.warmup_ns;
    let window_end = window_start + spec.duration_ns;
    let watchers = Watchers::start(
        api,
        settings,
        deployment,
        nodes,
        (churning.watched, window_end),
    );
    let watchers = watchers.await?;
    worker
        .watched
        .extend(watchers.watched(deployment.sidecar()));
    worker.watched.append(&mut deployment.more_watched.clone());
    let metrics = deployment
        .section()
        .map(|s| s.control_plane_metrics.clone());
    let metrics = metrics.unwrap_or_default();
    churning.before = metrics::read(api, settings, &mut deployment.prober, &metrics).await;
    let changes = Changes {
        api: api.clone(),
        names: deployment.names.clone(),
        churn: churning.churn,
        servers: churning.servers.clone(),
        window: (window_start, window_end),
    };
    churning.until = Instant::now() + until(window_end) + RECORDS_WITHIN;
    churning.running.spawn(async move {
        let (all_run, wait_for_all) = oneshot::channel();
        let changed = async {
            // Without an answer, the watchers report what is missing.
            let _ = wait_for_all.await;
            changes.make().await
        };
        let (watched, changed) = tokio::join!(watchers.collect(all_run), changed);
        let mut records = watched?;
        records.extend(changed);
        Ok(records)
    });
    deployment.churning = Some(churning);
    Ok(())
}

/// The time from now to an instant of Unix time.
fn until(unix_ns: u64) -> Duration {
    Duration::from_nanos(unix_ns.saturating_sub(tare_files::unix_ns()))
}

/// Waits for the end of the churn. Returns its records.
pub(crate) async fn end(
    api: &ApiClient,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
) -> Result<Vec<ChurnRecord>, EnvironmentError> {
    let failed = |found: &str| EnvironmentError::start("the churn", found);
    let churning = deployment.churning.take();
    let mut churning = churning.ok_or_else(|| failed("it was not started"))?;
    let mut records = churning.records;
    let left = churning.until.saturating_duration_since(Instant::now());
    match timeout(left, churning.running.join_next()).await {
        Ok(Some(Ok(of_load))) => records.extend(of_load?),
        Ok(Some(Err(error))) => return Err(failed(&error.to_string())),
        Ok(None) => return Err(failed("it was not started")),
        Err(_) => {
            return Err(failed(
                "the records of its watchers are not complete in time",
            ));
        }
    }
    let metrics = deployment
        .section()
        .map(|s| s.control_plane_metrics.clone());
    let metrics = metrics.unwrap_or_default();
    let after = metrics::read(api, settings, &mut deployment.prober, &metrics).await;
    match churning.before.and_then(|before| Ok((before, after?))) {
        Ok((before, after)) => {
            let grown = metrics
                .iter()
                .filter_map(|m| metrics::growth(m, &before, &after));
            records.extend(grown.map(ChurnRecord::Metric));
        }
        Err(found) => {
            let events = &deployment.events;
            events.push(
                EventKind::SamplingFailed,
                "metrics of the control plane",
                found,
            );
        }
    }
    Ok(records)
}
