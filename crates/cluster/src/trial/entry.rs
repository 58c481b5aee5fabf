//! The entry of the load: the Service of a gateway, through which all requests go.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use tare_plan::mesh::{CalledService, MeshEntry};
use tare_records::probe::{ProbeRequest, ProbeResult};
use tare_records::worker::Upstream;

use super::deploy::{Inputs, cluster_ip};
use super::deployment::Deployment;
use super::probe;
use crate::api::kinds::SERVICE;
use crate::api::{ApiClient, ApiError};
use crate::application::gets;
use crate::wait::wait;
use tare_run::environment::EnvironmentError;
use tare_run::instances;

const POLL: Duration = Duration::from_millis(500);
/// How long a ready entry may answer with errors at least: its routes reach it after its pods are ready.
const ANSWERS_WITHIN_MIN: Duration = Duration::from_secs(10);
/// Time limit of one request.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
const ANSWER_BYTES_MAX: usize = 200;

/// Directs the load to the entry of the mesh, if it has one. Waits until the Services of the entry exist, because a
/// controller creates them.
pub(super) async fn direct(
    inputs: Inputs<'_>,
    deployment: &mut Deployment,
    within: Duration,
) -> Result<(), EnvironmentError> {
    let Some(entry) = deployment.section().and_then(|s| s.entry.clone()) else {
        return Ok(());
    };
    let within_s = inputs.settings.ready_within_s;
    let mut targets = BTreeMap::new();
    for index in 0..deployment.instances {
        let namespace = deployment.names.instance(index);
        let place = entry.namespace.as_ref().unwrap_or(&namespace);
        let title = format!("the entry {place}/{}", entry.service);
        let found = wait(&title, POLL, within, async || {
            address(inputs.api, &entry, place).await
        });
        let connect = found.await?.map_err(|found| {
            let found = format!("not ready within {within_s} s: {found}");
            EnvironmentError::start(title, found)
        })?;
        let instance = instances::name(&inputs.workload().graph, index);
        for (name, front) in &deployment.fronts {
            let called = CalledService {
                name,
                namespace: &namespace,
                port: front.port,
            };
            let target = Upstream::new(connect.to_string(), entry.host_of(called));
            targets.insert((instance.clone(), name.clone()), target);
        }
    }
    deployment.targets = targets;
    Ok(())
}

/// Returns the address of an entry in a namespace; inside an error, what is missing.
async fn address(
    api: &ApiClient,
    entry: &MeshEntry,
    namespace: &str,
) -> Result<Result<SocketAddr, String>, ApiError> {
    let name = &entry.service;
    match api.get::<Service>(SERVICE, namespace, name).await {
        Ok(service) => Ok(address_of(&service, entry.port)),
        Err(error) if error.is_not_found() => Ok(Err(format!(
            "the Service {name} does not exist; expected the controller of its Gateway to create it: check that the mesh \
             has one, and the status of the Gateway"
        ))),
        Err(error) => Err(error),
    }
}

fn address_of(service: &Service, port: u16) -> Result<SocketAddr, String> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let ports: Vec<i32> = ports.into_iter().flatten().map(|p| p.port).collect();
    if !ports.contains(&port.into()) {
        return Err(format!(
            "the Service has the ports {ports:?}, expected {port}"
        ));
    }
    let ip = cluster_ip(service).unwrap_or_default();
    let ip: IpAddr = ip
        .parse()
        .map_err(|_| format!("the Service has the cluster IP `{ip}`, expected an address"))?;
    Ok(SocketAddr::new(ip, port))
}

/// Requests each called service through the entry, from a probe outside the mesh, until the routes lead there: a ready
/// path of tare's servers, or the endpoints of the user's application.
pub(super) async fn answers(
    inputs: Inputs<'_>,
    deployment: &mut Deployment,
    within: Duration,
) -> Result<(), EnvironmentError> {
    let Some(entry) = deployment.section().and_then(|s| s.entry.as_ref()) else {
        return Ok(());
    };
    let title = format!("the entry {}", entry.service);
    let mut requests = Vec::new();
    for ((_, service), target) in &deployment.targets {
        let Some(front) = deployment.fronts.get(service) else {
            continue;
        };
        let paths: Vec<&String> = match front.of_user {
            true => gets(inputs.workload())
                .filter(|e| e.service == *service)
                .map(|e| &e.path)
                .collect(),
            false => vec![&front.path],
        };
        for path in paths {
            let (address, host) = (target.connect.clone(), target.authority.clone());
            requests.push(ProbeRequest {
                retry_ns: within.max(ANSWERS_WITHIN_MIN).as_nanos() as u64,
                ..probe::get(address, host, path, ANSWER_WITHIN, ANSWER_BYTES_MAX)
            });
        }
    }
    let asked: Vec<String> = requests
        .iter()
        .map(|r| format!("GET http://{}{} at {}", r.host, r.path, r.address))
        .collect();
    let sent = deployment
        .prober
        .send(inputs.api, inputs.settings, requests, 0);
    let is_error = |result: &ProbeResult| !result.as_ref().is_ok_and(|a| a.status < 400);
    let mut results = asked.into_iter().zip(sent.await?);
    match results.find(|(_, result)| is_error(result)) {
        None => Ok(()),
        Some((asked, result)) => {
            let found = format!("{asked}: {}", probe::words(&result));
            let expected =
                "expected a route with this host to the service; check the routes of the mesh";
            Err(EnvironmentError::start(
                title,
                format!("{found}; {expected}"),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_entry_needs_the_port_and_a_cluster_ip() {
        let of = |ip: &str| {
            let service =
                json!({"spec": {"clusterIP": ip, "ports": [{"port": 15021}, {"port": 80}]}});
            serde_json::from_value(service).unwrap()
        };
        assert_eq!(
            address_of(&of("10.0.0.1"), 80).unwrap().to_string(),
            "10.0.0.1:80"
        );
        assert_eq!(
            address_of(&of("fd00::1"), 80).unwrap().to_string(),
            "[fd00::1]:80"
        );
        let port = address_of(&of("10.0.0.1"), 8080).unwrap_err();
        assert_eq!(port, "the Service has the ports [15021, 80], expected 8080");
        let headless = address_of(&of("None"), 80).unwrap_err();
        assert!(headless.contains("cluster IP `None`"), "{headless}");
    }
}
