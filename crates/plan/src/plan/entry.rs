//! Meshes with an `entry`: one Service through which all of the load enters.

use std::collections::BTreeSet;

use super::resolved::{Plan, Workload};
use crate::graph::{Service, ServiceProtocol};
use crate::mesh::MeshEntry;
use crate::source::{Location, Problems};

/// Checks that the entry of each mesh can lead to every service that the load calls.
pub(super) fn check(problems: &mut Problems, plan: &Plan, of_meshes: Location) {
    for mesh in &plan.meshes {
        let Some(entry) = mesh.kubernetes.as_ref().and_then(|k| k.entry.as_ref()) else {
            continue;
        };
        if let Some((found, expected)) = plan.workloads().find_map(|w| misses(entry, w)) {
            let found = format!("`{}` has an `entry`, but {found}", mesh.name);
            problems.add(of_meshes, found).expected(expected);
        }
    }
}

/// What a workload has that an entry cannot tell apart, and what was expected instead.
fn misses(entry: &MeshEntry, workload: &Workload) -> Option<(String, &'static str)> {
    let graph = &workload.graph;
    let endpoints = graph.mix(&workload.mix).into_iter();
    let called = endpoints.flat_map(|m| &m.endpoints);
    let called = called.filter_map(|e| graph.service(&e.service));
    let called: Vec<&Service> = called.collect();
    if let Some(tcp) = called.iter().find(|s| s.protocol == ServiceProtocol::Tcp) {
        let found = format!(
            "the load calls `{}`, a service with `protocol: tcp`",
            tcp.name
        );
        let expected =
            "services with HTTP or gRPC: gateways find the called service by the host of a request";
        return Some((found, expected));
    }
    let names: BTreeSet<&str> = called.iter().map(|s| s.name.as_str()).collect();
    if names.len() > 1 && !entry.tells_services_apart() {
        let found = format!("the load calls {} services", names.len());
        return Some((found, "`${tare.service}` in `entry.host`"));
    }
    if workload.instances > 1 && !entry.tells_instances_apart() {
        let found = format!("{} instances have the same host", workload.instances);
        let expected =
            "`${tare.namespace}` in `entry.host`, because `entry.namespace` is the same for all";
        return Some((found, expected));
    }
    None
}
