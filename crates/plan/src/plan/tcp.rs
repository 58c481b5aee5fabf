//! Services whose protocol is `tcp`: proxies pass their bytes and read no request, so what needs requests
//! is refused.

use super::resolved::Plan;
use crate::graph::ServiceProtocol;
use crate::mesh::{DataPlaneKind, Mesh};
use crate::source::{Location, Problems};

/// Checks that every mesh of the plan can carry, and prove, its services with the protocol `tcp`.
pub(super) fn check(problems: &mut Problems, plan: &Plan, of_meshes: Location) {
    let mut services = plan.workloads().flat_map(|w| &w.graph.services);
    let Some(service) = services.find(|s| s.protocol == ServiceProtocol::Tcp) else {
        return;
    };
    for mesh in &plan.meshes {
        if let Some((found, expected)) = needs_http(mesh) {
            let (mesh, service) = (&mesh.name, &service.name);
            let found =
                format!("`{mesh}` has {found}, but `{service}` is a service with `protocol: tcp`");
            problems.add(of_meshes, found).expected(expected);
        }
    }
}

/// What a mesh has that needs HTTP, and what was expected instead.
fn needs_http(mesh: &Mesh) -> Option<(&'static str, &'static str)> {
    let is_local = mesh.data_plane == DataPlaneKind::EnvoySidecar;
    if is_local && mesh.settings.access_log {
        let expected = "`access_log: false`: a TCP proxy has no requests to log";
        return Some(("an access log of requests", expected));
    }
    if mesh.feature.as_ref().is_some_and(|f| f.needs_http()) {
        let expected = "a feature that adds nothing to listeners, and is proven without requests";
        return Some(("a feature that needs HTTP", expected));
    }
    let proof = mesh.kubernetes.as_ref().and_then(|k| k.proof.as_ref());
    if proof.is_some_and(|p| !p.of_node_proxies && p.tcp_counters.is_empty()) {
        let expected = "the counters of received bytes in `proof.tcp_counters`";
        return Some(("no `proof.tcp_counters`", expected));
    }
    None
}
