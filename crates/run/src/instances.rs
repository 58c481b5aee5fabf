//! The instances of a workload, which are the same in every environment.

use std::collections::BTreeMap;

use tare_plan::Workload;
use tare_plan::graph::{MixEndpoint, ServiceGraph, ServiceProtocol};
use tare_records::worker::Upstream;

/// Returns the name of an instance.
pub fn name(graph: &ServiceGraph, index: u32) -> String {
    format!("{}-{index}", graph.name)
}

/// Returns the endpoints of the mix.
pub fn mix(workload: &Workload) -> impl Iterator<Item = &MixEndpoint> {
    let mix = workload.graph.mix(&workload.mix);
    mix.into_iter().flat_map(|m| &m.endpoints)
}

/// Returns the services that the generator calls, those of the mix, with their protocols.
pub fn fronts(workload: &Workload) -> BTreeMap<String, ServiceProtocol> {
    let services = mix(workload).filter_map(|e| workload.graph.service(&e.service));
    services.map(|s| (s.name.clone(), s.protocol)).collect()
}

/// Returns a lower bound of the size of the generator's requests to services with the protocol `tcp`, in
/// bytes; `None` if it calls none.
pub fn tcp_request_bytes(
    workload: &Workload,
    targets: &BTreeMap<(String, String), Upstream>,
) -> Option<u64> {
    let fronts = fronts(workload);
    let is_tcp = |service: &String| fronts.get(service) == Some(&ServiceProtocol::Tcp);
    let sizes = mix(workload).filter(|e| is_tcp(&e.service)).flat_map(|e| {
        let targets = targets.iter().filter(|((_, name), _)| *name == e.service);
        targets.map(|(_, target)| {
            let head = request_bytes(&e.method, &e.path, &target.authority);
            head + u64::from(e.request_bytes)
        })
    });
    sizes.min()
}

/// The body of the load's requests to an endpoint.
pub fn request_body(endpoint: &MixEndpoint) -> Vec<u8> {
    vec![0; endpoint.request_bytes as usize]
}

/// The size of the shortest HTTP/1.1 request with this path and this Host header, in bytes.
pub fn request_bytes(method: &str, path: &str, authority: &str) -> u64 {
    format!("{method} {path} HTTP/1.1\r\nHost: {authority}\r\n\r\n").len() as u64
}
