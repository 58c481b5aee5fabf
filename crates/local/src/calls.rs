//! The latencies of calls that the services measure themselves. The services learn the measured window
//! before it starts and are asked for their calls after the load, so nothing disturbs the window. Real datastores
//! do not time their calls.

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use tare_plan::graph::ServiceProtocol;
use tare_records::calls::{CALLS_PATH, CallLatency, CallWindow, ServiceCalls, WINDOW_PATH};
use tare_stats::{Histogram, WireError};

use super::topology::{Pod, PodService, Topology};
use tare_run::environment::EnvironmentError;
use tare_run::http as probe;

fn timing(topology: &Topology) -> impl Iterator<Item = (&Pod, &PodService)> {
    topology.services().filter(|(_, s)| s.store.is_none())
}

/// Announces the window to every service.
pub(super) async fn announce(
    topology: &Topology,
    window: &CallWindow,
) -> Result<(), EnvironmentError> {
    let CallWindow {
        start_unix_ns,
        window_ns,
        warm,
    } = window;
    let (every, length) = (warm.every_ns, warm.length_ns);
    let path = format!(
        "{WINDOW_PATH}?start_unix_ns={start_unix_ns}&window_ns={window_ns}&warm_every_ns={every}&warm_length_ns={length}"
    );
    let asks = timing(topology).map(async |(pod, service)| get(pod, service, &path).await);
    try_join_all(asks).await.map(drop)
}

/// Returns the calls of every service, merged over the instances, in the order of the graph.
pub(super) async fn collect(topology: &Topology) -> Result<Vec<ServiceCalls>, EnvironmentError> {
    let asks = timing(topology).map(async |(pod, service)| {
        let body = get(pod, service, CALLS_PATH).await?;
        serde_json::from_slice(&body).map_err(|e| missing(pod, &e.to_string()))
    });
    let parts: Vec<ServiceCalls> = try_join_all(asks).await?;
    merge(parts).map_err(|e| EnvironmentError::Calls(e.to_string()))
}

/// Asks an application directly. It answers these paths by HTTP/1.1, whatever its protocol is.
async fn get(pod: &Pod, service: &PodService, path: &str) -> Result<Vec<u8>, EnvironmentError> {
    let http = ServiceProtocol::Http;
    let response = probe::get_at(pod.application(), http, None, &service.authority(), path).await;
    match response {
        Ok(response) if response.status == 200 => Ok(response.body),
        Ok(response) => Err(missing(pod, response.text().trim())),
        Err(error) => Err(missing(pod, &error.to_string())),
    }
}

fn missing(pod: &Pod, found: &str) -> EnvironmentError {
    EnvironmentError::Calls(format!("{}: {found}", pod.name))
}

/// Adds the calls of the instances of each service.
fn merge(parts: Vec<ServiceCalls>) -> Result<Vec<ServiceCalls>, WireError> {
    let mut order: Vec<String> = Vec::new();
    let mut by_service: BTreeMap<String, Vec<ServiceCalls>> = BTreeMap::new();
    for part in parts {
        if !order.contains(&part.service) {
            order.push(part.service.clone());
        }
        by_service
            .entry(part.service.clone())
            .or_default()
            .push(part);
    }
    let merged = order.into_iter().map(|service| {
        let parts = by_service.remove(&service).unwrap_or_default();
        Ok(ServiceCalls {
            incoming: add(parts.iter().flat_map(|p| &p.incoming))?,
            outgoing: add(parts.iter().flat_map(|p| &p.outgoing))?,
            service,
        })
    });
    merged.collect()
}

/// Adds the latencies of each endpoint.
fn add<'a>(calls: impl Iterator<Item = &'a CallLatency>) -> Result<Vec<CallLatency>, WireError> {
    let mut sums: BTreeMap<(&str, &str), Histogram> = BTreeMap::new();
    for call in calls {
        let latency = Histogram::from_wire(&call.latency)?;
        let key = (call.service.as_str(), call.endpoint.as_str());
        sums.entry(key).or_default().merge(&latency);
    }
    let latency = |((service, endpoint), latency): ((&str, &str), Histogram)| CallLatency {
        service: service.to_owned(),
        endpoint: endpoint.to_owned(),
        latency: latency.to_wire(),
    };
    Ok(sums.into_iter().map(latency).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(service: &str, endpoint: &str, ns: u64) -> CallLatency {
        let mut latency = Histogram::new();
        latency.record(ns);
        CallLatency {
            service: service.to_owned(),
            endpoint: endpoint.to_owned(),
            latency: latency.to_wire(),
        }
    }

    #[test]
    fn instances_are_added_by_service_and_endpoint() {
        let part = |service: &str, incoming, outgoing| ServiceCalls {
            service: service.to_owned(),
            incoming,
            outgoing,
        };
        let parts = vec![
            part("web", vec![], vec![calls("emoji", "Find", 100)]),
            part("emoji", vec![calls("emoji", "Find", 50)], vec![]),
            part(
                "web",
                vec![calls("web", "list", 10)],
                vec![calls("emoji", "Find", 300), calls("voting", "Vote", 1)],
            ),
        ];
        let merged = merge(parts).unwrap();
        let names: Vec<&str> = merged.iter().map(|s| s.service.as_str()).collect();
        assert_eq!(names, ["web", "emoji"]);
        let find = &merged[0].outgoing[0];
        assert_eq!((find.latency.count, find.latency.sum_ns), (2, 400));
        assert_eq!(merged[0].outgoing[1].endpoint, "Vote");
        assert_eq!(merged[0].incoming.len(), 1);
    }
}
