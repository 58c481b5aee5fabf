//! Proofs that the mesh of a trial is in the path: pods have their proxies, plain text is refused
//! where it must be, and the proxies' own counters grow with the load. Requests come from a probe, outside the mesh.

mod counters;
pub(crate) mod instance_proxies;
mod plain_text;

use tare_plan::KubernetesSettings;
use tare_plan::mesh::InstanceProxy;
use tare_records::probe::{ProbeRequest, ProbeResult};
use tare_records::trial::Proof;
use tare_records::worker::{Plane, WatchedProcess};

use super::artifacts;
use super::deployment::Deployment;
use crate::api::kinds::POD;
use crate::api::{ApiClient, ApiError};
use crate::objects::Pod;
pub(crate) use counters::STATISTICS_WITHIN;
use counters::{Reading, Statistics};
use tare_run::environment::{EnvironmentError, proof};

/// Proofs before the load. Also finds the containers to sample, saves the artifacts of the trial,
/// and reads the proxies' counters.
pub(crate) async fn before(
    api: &ApiClient,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
) -> Result<Vec<Proof>, EnvironmentError> {
    let mut proofs = vec![proxies(deployment)];
    if let Some(seen) = &deployment.answered {
        let claim = "requests from the namespace of the generators are answered";
        proofs.push(proof(claim, true, seen.clone()));
    }
    deployment.instance_proxies = instance_proxies::pods(api, deployment).await?;
    let ready = instance_proxies::ready(deployment, &deployment.instance_proxies);
    proofs.extend(ready);
    deployment.watched = watched(api, deployment).await?;
    // Proxies count requests in plain text as well, so those are over before the counters are read.
    let mut requests = plain_text::requests(deployment);
    let plain = requests.len();
    let readings = Readings::new(api, deployment).await;
    requests.extend(readings.requests());
    requests.extend(artifacts::metrics_request(deployment));
    let results = deployment
        .prober
        .send(api, settings, requests, plain)
        .await?;
    let mut results = results.into_iter();
    let plain: Vec<ProbeResult> = results.by_ref().take(plain).collect();
    let statistics = readings.with(&mut results);
    proofs.push(plain_text::prove(deployment, &plain, &statistics.proxies));
    artifacts::save(api, deployment, results.next()).await?;
    deployment.counters = statistics.proxies.sums();
    for (_, statistics) in &statistics.of_instances {
        deployment.counters.extend(statistics.sums());
    }
    Ok(proofs)
}

/// Proves that every pod has a ready sidecar or, for a mesh without sidecars, that no pod has an
/// injected container.
fn proxies(deployment: &Deployment) -> Proof {
    let pods = &deployment.pods;
    let total = pods.len();
    let Some(sidecar) = deployment.sidecar() else {
        let claim = "no pod has a proxy";
        let own = match deployment.application.is_some() {
            true => "the containers of the application only",
            false => "one container each",
        };
        return match pods.iter().find(|p| !p.injected().is_empty()) {
            None => proof(claim, true, format!("{total} pods with {own}")),
            Some(pod) => {
                let injected = pod.injected().join(", ");
                proof(claim, false, format!("{} has {injected}", pod.title()))
            }
        };
    };
    let is_ready =
        |pod: &&Pod| !pod.is_own(sidecar) && pod.status_of(sidecar).is_some_and(|c| c.is_ready());
    let missing = pods.iter().filter(|p| !is_ready(p));
    let missing: Vec<String> = missing.map(Pod::title).collect();
    let ready = total - missing.len();
    let mut seen = format!("{sidecar} is ready in {ready} of {total} pods");
    if let Some(first) = missing.first() {
        seen += &format!("; not in {first}");
    }
    proof("every pod has a ready proxy", missing.is_empty(), seen)
}

/// Containers of the application, the proxies and the control plane, for the agents.
async fn watched(
    api: &ApiClient,
    deployment: &Deployment,
) -> Result<Vec<WatchedProcess>, ApiError> {
    let sidecar = deployment.sidecar();
    let pods = deployment.pods.iter();
    let mut watched: Vec<WatchedProcess> = pods.flat_map(|p| p.watched(sidecar)).collect();
    let Some(section) = deployment.section() else {
        return Ok(watched);
    };
    let mut add = |pod: &Pod, plane: Plane| {
        let containers = pod.watched(None).into_iter();
        watched.extend(containers.map(|w| WatchedProcess { plane, ..w }));
    };
    let parts = &section.parts;
    let control_plane = parts.control_plane.iter().map(|s| (s, Plane::ControlPlane));
    let node_proxies = parts.node_proxies.iter().map(|s| (s, Plane::DataPlane));
    for (selector, plane) in control_plane.chain(node_proxies) {
        let namespace = Some(selector.namespace.as_str());
        let pods: Vec<Pod> = api.list(POD, namespace, &selector.selector).await?;
        for pod in &pods {
            add(pod, plane_of(plane, pod, &deployment.generator_nodes));
        }
    }
    for pod in deployment.instance_proxies.values().flatten() {
        add(pod, Plane::DataPlane);
    }
    Ok(watched)
}

/// Returns the plane of a mesh's pod. A node proxy on a node of the generators carries only their
/// side of a connection, as a generator's sidecar does.
fn plane_of(plane: Plane, pod: &Pod, generator_nodes: &[String]) -> Plane {
    match plane {
        Plane::DataPlane if generator_nodes.iter().any(|n| n == pod.node()) => {
            Plane::GeneratorProxy
        }
        plane => plane,
    }
}

/// Proves after the load that the proxies' own counters grew.
pub(crate) async fn after(
    api: &ApiClient,
    settings: &KubernetesSettings,
    deployment: &mut Deployment,
    load_sent: u64,
) -> Vec<Proof> {
    let readings = Readings::new(api, deployment).await;
    let results = deployment
        .prober
        .send(api, settings, readings.requests(), 0)
        .await;
    let statistics = match results {
        Ok(results) => readings.with(&mut results.into_iter()),
        Err(error) => {
            let claim = "the counters of the proxies were read after the load";
            return vec![proof(claim, false, error.to_string())];
        }
    };
    let sent = load_sent as f64;
    let proxies = counters::grew(deployment, &statistics.proxies, sent);
    let of_instances = statistics.of_instances.iter();
    let of_instances = of_instances.filter_map(|(kind, statistics)| {
        instance_proxies::grew(deployment, *kind, statistics, sent)
    });
    proxies.into_iter().chain(of_instances).collect()
}

/// The statistics to read in one step, of the proxies `P` that count the load and of those of instances.
struct OfAll<P> {
    proxies: P,
    of_instances: Vec<(InstanceProxy, P)>,
}

type Readings = OfAll<Vec<Reading>>;

impl Readings {
    async fn new(api: &ApiClient, deployment: &Deployment) -> Self {
        Self {
            proxies: counters::of_proxies(api, deployment).await,
            of_instances: counters::of_instances(deployment),
        }
    }

    fn requests(&self) -> Vec<ProbeRequest> {
        let of_instances = self.of_instances.iter().flat_map(|(_, readings)| readings);
        let all = self.proxies.iter().chain(of_instances);
        all.map(|reading| reading.request.clone()).collect()
    }

    fn with(self, results: &mut impl Iterator<Item = ProbeResult>) -> OfAll<Statistics> {
        let proxies = Statistics::new(self.proxies, results);
        let of_instances = self.of_instances.into_iter();
        let of_instances = of_instances.map(|(kind, r)| (kind, Statistics::new(r, results)));
        OfAll {
            proxies,
            of_instances: of_instances.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_proxy_on_the_generators_node_is_a_generator_proxy() {
        let pod = serde_json::json!({"spec": {"nodeName": "node2"}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let plane = |plane, nodes: &[&str]| {
            let nodes: Vec<String> = nodes.iter().map(|n| (*n).to_owned()).collect();
            plane_of(plane, &pod, &nodes)
        };
        assert_eq!(
            plane(Plane::DataPlane, &["node1", "node2"]),
            Plane::GeneratorProxy
        );
        assert_eq!(plane(Plane::DataPlane, &["node1"]), Plane::DataPlane);
        assert_eq!(plane(Plane::DataPlane, &[]), Plane::DataPlane);
        let control = plane(Plane::ControlPlane, &["node2"]);
        assert_eq!(control, Plane::ControlPlane);
    }
}
