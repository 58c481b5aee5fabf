//! CPU of the proxies as a fixed cost and a cost for each request and each hop: a line through the idle
//! proxies and the rates of the plan, for each block.

use std::collections::BTreeMap;

use tare_plan::Plan;
use tare_plan::mesh::{DataPlaneKind, External, Mesh, Placement};
use tare_records::summary::ProxyCpu;
use tare_records::worker::Plane;

use super::cell::estimate;
use crate::compare::stopping;
use crate::trials::Trial;
use tare_stats::line::Line;

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// The lines of a mesh, by block: of those blocks with idle proxies and a used trial. Of a sweep, the
/// trials that differ in their rate only.
pub(super) fn lines(plan: &Plan, trials: &[Trial<'_>], mesh: &str) -> BTreeMap<u32, Line> {
    let mut points: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    let mut idle = Vec::new();
    for trial in trials
        .iter()
        .filter(|t| t.is_used() && t.result.trial.mesh.name == mesh)
        .filter(|t| plan.is_anchor_but_rate(&t.result.trial.load.name))
    {
        let block = trial.result.trial.block;
        let has_rate = trial.result.trial.load.is_open();
        let proxies = trial.plane(Plane::DataPlane).map(|p| p.0);
        let proxies = proxies.filter(|_| has_rate);
        points
            .entry(block)
            .or_default()
            .extend(trial.achieved_rps().zip(proxies));
        let resources = trial.result.idle.as_ref();
        if let Some(plane) = resources.and_then(|r| r.planes.get(&Plane::DataPlane)) {
            points
                .entry(block)
                .or_default()
                .push((0.0, plane.cpu_cores));
            idle.push(block);
        }
    }
    let blocks = points.into_iter().filter(|(block, _)| idle.contains(block));
    blocks
        .filter_map(|(block, points)| Some((block, Line::least_squares(&points)?)))
        .collect()
}

/// Hops of a request: its passes through the sidecars of the services. Each request that a service
/// receives passes its sidecar, and each that a service sends passes that of the sender as well. The
/// generator sends the first one, and its sidecar is not part of the data plane. `None` if services are outside
/// the mesh, and for other kinds of proxies, where the passes depend on the nodes of caller and called service.
pub(super) fn hops(plan: &Plan, mesh: &Mesh) -> Option<f64> {
    let sidecars_only = match mesh.data_plane {
        DataPlaneKind::EnvoySidecar | DataPlaneKind::Proxy => true,
        DataPlaneKind::Sidecar | DataPlaneKind::Installed => {
            let parts = &mesh.kubernetes.as_ref()?.parts;
            let others = parts.waypoints.is_some() || parts.gateways.is_some();
            parts.sidecar.is_some() && parts.node_proxies.is_empty() && !others
        }
        DataPlaneKind::None | DataPlaneKind::NodeProxy => false,
    };
    let workload = &plan.workload;
    if workload.graph.has_external() && mesh.settings.external != External::Meshed {
        return None;
    }
    let received = workload.graph.requests_per_request(&workload.mix)?;
    let hops = match mesh.settings.placement {
        _ if mesh.proxy.as_ref().is_some_and(|p| !p.is_configured()) => received,
        Placement::Both => 2.0 * received - 1.0,
        Placement::Client => received - 1.0,
        Placement::Server => received,
        Placement::Entry => 1.0,
    };
    (sidecars_only && hops > 0.0).then_some(hops)
}

/// Fixed and marginal CPU of each mesh that has both.
pub(super) fn of(plan: &Plan, trials: &[Trial<'_>]) -> Vec<ProxyCpu> {
    let confidence = stopping::level(plan).different;
    let of = |definition: &Mesh| {
        let mesh = definition.name.as_str();
        let lines = lines(plan, trials, mesh);
        let values = |of: fn(&Line) -> f64| lines.values().map(of).collect::<Vec<_>>();
        let used = || {
            trials
                .iter()
                .filter(|t| t.is_used() && t.result.trial.mesh.name == mesh)
                .filter(|t| plan.is_anchor_but_rate(&t.result.trial.load.name))
        };
        let proxies = used().find_map(|t| {
            let planes = &t.resources()?.planes;
            Some(planes.get(&Plane::DataPlane)?.processes)
        });
        let hops = hops(plan, definition);
        let request_ns = values(|l| l.slope * SECOND_NS);
        let hop_ns = |hops: f64| {
            let each: Vec<f64> = request_ns.iter().map(|ns| ns / hops).collect();
            estimate(&each, confidence)
        };
        Some(ProxyCpu {
            mesh: mesh.to_owned(),
            proxies: proxies?,
            idle_cores: estimate(&values(|l| l.at_zero), confidence)?,
            request_ns: estimate(&request_ns, confidence)?,
            hops_per_request: hops,
            hop_ns: hops.and_then(hop_ns),
            rps_max: used().filter_map(Trial::achieved_rps).fold(0.0, f64::max),
        })
    };
    plan.meshes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_known_with_sidecars_only() {
        let text = "workload: chain-5\nmeshes: [bare, envoy]\nload: {rate: 100}\nrepeats: 2";
        let mut plan = tare_plan::resolve("p.yaml", text, &[], &|_| Err(String::new())).unwrap();
        let of = |plan: &Plan| -> Vec<_> { plan.meshes.iter().map(|m| hops(plan, m)).collect() };
        // 5 sidecars on the inbound side, 4 of them on the outbound side as well.
        assert_eq!(of(&plan), [None, Some(9.0)]);
        for (placement, hops) in [
            (Placement::Client, 4.0),
            (Placement::Server, 5.0),
            (Placement::Entry, 1.0),
        ] {
            plan.meshes[1].settings.placement = placement;
            assert_eq!(of(&plan), [None, Some(hops)]);
        }
        plan.meshes[1].settings.placement = Placement::Both;
        plan.workload.graph.services[4].external = true;
        assert_eq!(of(&plan), [None, None], "a service is outside the mesh");
        plan.meshes[1].settings.external = External::Meshed;
        assert_eq!(of(&plan), [None, Some(9.0)]);
        plan.meshes[1].data_plane = DataPlaneKind::NodeProxy;
        assert_eq!(of(&plan), [None, None]);
        plan.meshes[1].data_plane = DataPlaneKind::Sidecar;
        assert_eq!(of(&plan), [None, None], "its sidecars are unknown");
    }
}
