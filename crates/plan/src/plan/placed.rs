//! Which meshes can run in the environment of a plan, and with which workload.

use super::kubernetes::KubernetesSettings;
use crate::graph::ServiceGraph;
use crate::mesh::{DataPlaneKind, FeatureProof, Mesh, MeshSettings, Mtls};
use crate::source::{Problems, Spanned};

/// Refuses proxies of the user in front of programs of the user: the proof that a call passes such a proxy needs a server of
/// tare behind it. Refuses also protocols that a proxy cannot carry.
pub(super) fn refuse_proxy(problems: &mut Problems, mesh: &Spanned<Mesh>, graph: &ServiceGraph) {
    let Some(proxy) = &mesh.value.proxy else {
        return;
    };
    let name = &mesh.value.name;
    let mut services = graph.services.iter();
    if let Some(service) = services.find(|s| !proxy.carries(s.protocol)) {
        let known: Vec<&str> = proxy.protocols.iter().map(|p| p.name()).collect();
        let (of, protocol) = (&service.name, service.protocol.name());
        problems
            .add(
                mesh.location,
                format!("`{name}` cannot carry `{protocol}`, the protocol of the service `{of}`"),
            )
            .expected(format!("a workload with: {}", known.join(", ")));
    }
    if graph.has_commands() {
        problems
            .add(
                mesh.location,
                format!("`{name}` has `data_plane: proxy`, and the workload has services with `command`"),
            )
            .expected("a mesh with Envoy sidecars, or a workload of tare's own servers")
            .help("the proof that calls pass a proxy of yours requests a path that only tare's servers have");
    }
}

/// Adapts the meshes to the environment: checks that each can run there, and applies the overlays
/// of the cluster.
pub(super) fn placed(
    problems: &mut Problems,
    meshes: Vec<Spanned<Mesh>>,
    settings: &Option<Box<KubernetesSettings>>,
) -> Option<Vec<Mesh>> {
    let before = problems.list().len();
    let mut placed = Vec::new();
    for Spanned {
        value: mut mesh,
        location,
    } in meshes
    {
        let name = mesh.name.clone();
        if mesh.data_plane == DataPlaneKind::EnvoySidecar && mesh.settings.mtls == Mtls::Permissive
        {
            problems
                .add(location, format!("`{name}` has the mtls mode `permissive`"))
                .expected("`off`, `strict` or `server` for the Envoys that tare configures");
        }
        if mesh.data_plane != DataPlaneKind::EnvoySidecar && mesh.settings.mtls == Mtls::Server {
            problems
                .add(location, format!("`{name}` has the mtls mode `server`"))
                .expected("`off`, `permissive` or `strict`; `server` is only for the Envoys that tare configures");
        }
        let is_proxy = mesh.data_plane == DataPlaneKind::Proxy;
        if is_proxy != mesh.proxy.is_some() {
            problems
                .add(
                    location,
                    format!("`{name}` has only one of `data_plane: proxy` and a section `proxy`"),
                )
                .expected("both or neither");
        }
        let configured = mesh.proxy.as_ref().filter(|p| p.is_configured());
        match configured {
            Some(proxy) => {
                if let Err(problem) = proxy.check(&mesh.settings) {
                    let at = format!("in `proxy` of `{name}`");
                    problems.add_at(location, problem.within(&at));
                }
                if !mesh.settings.l7_stats || mesh.settings.envoy.is_some() {
                    problems
                        .add(
                            location,
                            format!("`{name}` has settings that only Envoys have"),
                        )
                        .expected("`concurrency`, `mtls`, `access_log` and `placement`");
                }
            }
            None if is_proxy && mesh.settings != MeshSettings::default() => {
                problems
                    .add(location, format!("`{name}` has settings"))
                    .expected(
                        "none without `files` in `proxy`: its settings are arguments of its command",
                    );
            }
            None => {}
        }
        let has_placement = mesh.data_plane == DataPlaneKind::EnvoySidecar || configured.is_some();
        if mesh.feature.is_some() && mesh.data_plane != DataPlaneKind::EnvoySidecar {
            problems
                .add(location, format!("`{name}` has a `feature`"))
                .expected("it only in a mesh with `data_plane: envoy-sidecar`");
        }
        let asks = mesh.feature.iter().flat_map(|f| &f.proofs);
        let asks = asks.filter(|p| matches!(p, FeatureProof::Request(_)));
        if asks.count() > 0
            && (mesh.settings.mtls != Mtls::Off || !mesh.settings.placement.is_both())
        {
            problems
                .add(location, format!("`{name}` has a proof by a request"))
                .expected("`mtls: off` and `placement: both` with it: the request goes to each sidecar in plain text");
        }
        if !mesh.settings.placement.is_both() {
            if !has_placement {
                problems
                    .add(location, format!("`{name}` has a `placement`"))
                    .expected(
                        "`placement: both`; others are only for the sidecars that tare configures",
                    );
            } else if mesh.settings.mtls != Mtls::Off {
                problems
                    .add(
                        location,
                        format!("`{name}` has TLS between proxies, but a proxy on one side only"),
                    )
                    .expected("`placement: both` with TLS, which needs a proxy at both ends");
            }
        }
        if !mesh.settings.external.is_outside() && mesh.data_plane != DataPlaneKind::EnvoySidecar {
            problems
                .add(location, format!("`{name}` has a setting `external`"))
                .expected(
                    "`external: outside`; others are only for the Envoys that tare configures",
                );
        }
        let Some(settings) = settings else {
            if mesh.data_plane.is_on_kubernetes() {
                problems
                    .add(location, format!("the mesh `{name}` needs Kubernetes"))
                    .expected(
                        "`environment: kubernetes` in the plan, or `--set environment=kubernetes`",
                    );
            }
            mesh.kubernetes = None;
            placed.push(mesh);
            continue;
        };
        let local = mesh.data_plane != DataPlaneKind::None && !mesh.data_plane.is_on_kubernetes();
        if local {
            problems
                .add(
                    location,
                    format!("the mesh `{name}` does not run on Kubernetes"),
                )
                .expected("`bare` or a mesh for Kubernetes, such as `istio` or `linkerd`")
                .help("name meshes for Kubernetes, as the plan `cluster-quick` does");
        } else if let Err(problem) = settings.apply(&mut mesh) {
            let at = format!("`{name}` on Kubernetes");
            problems.add_at(location, problem.within(&at));
        }
        placed.push(mesh);
    }
    (problems.list().len() == before).then_some(placed)
}
