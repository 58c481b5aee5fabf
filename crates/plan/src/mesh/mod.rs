//! Meshes as data: one YAML file per mesh under `meshes/`. A new mesh with a supported data plane,
//! or another variant, needs only a file.

mod catalogue;
mod counters;
mod decode;
mod definition;
mod entry;
mod envoy;
mod feature;
mod instance_proxy;
mod kubernetes;
mod metric;
mod names;
mod networks;
mod platform;
mod pprof;
mod proxy;
#[cfg(test)]
mod tried;

pub(crate) use catalogue::Catalogue;
pub use counters::{lines_of_counters, sum_of_counters};
pub(crate) use decode::{CONCURRENCY_MAX, SettingsFile};
pub use definition::{DataPlaneKind, External, Mesh, MeshSettings, Mtls, Placement};
pub use entry::{CalledService, MeshEntry};
pub use envoy::{ENVOY_VERSIONS, EnvoyProgram};
pub use feature::{
    CounterProof, Feature, FeatureError, FeatureProof, GaugeProof, Growth, ListenerParts,
    RequestProof,
};
pub use instance_proxy::InstanceProxy;
pub use kubernetes::{
    HelmRelease, Join, Leftovers, MeshKubernetes, MeshNamespace, MeshParts, PodSelector,
    ProofSource, WorkloadRef, merge,
};

pub use metric::ControlPlaneMetric;
pub use names::{MeshNames, known_names};
pub use networks::MeshNetworks;
pub use platform::Platform;
pub(crate) use platform::check_platform;
pub use pprof::PprofEndpoint;
pub use proxy::{
    InboundValues, OutboundValues, ProxyCounters, ProxyPlaces, ProxyProgram, SidecarValues,
    TlsValues,
};

/// Returns where the parts of the meshes for Kubernetes run that come with tare, each once.
#[must_use]
pub fn known_parts() -> Vec<MeshParts> {
    let catalogue = Catalogue::default();
    let mut known: Vec<MeshParts> = Vec::new();
    for name in catalogue.names() {
        let section = catalogue.get(name).and_then(|m| m.kubernetes);
        let parts = section.map(|s| s.parts).unwrap_or_default();
        if parts != MeshParts::default() && !known.contains(&parts) {
            known.push(parts);
        }
    }
    known
}

/// The name of a mesh without its version, and the version: `envoy/mtls` and `1.39.3` of `envoy/mtls@1.39.3`.
#[must_use]
pub fn name_and_version(name: &str) -> (&str, Option<&str>) {
    match name.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (name, None),
    }
}
