//! The instances of a workload, which are the same in every environment.

use std::collections::BTreeSet;

use tare_model::graph::ServiceGraph;
use tare_model::plan::Workload;

/// Returns the name of an instance.
pub(crate) fn name(graph: &ServiceGraph, index: u32) -> String {
    format!("{}-{index}", graph.name)
}

/// Returns the services that the generator calls: those of the mix.
pub(crate) fn fronts(workload: &Workload) -> BTreeSet<String> {
    let mix = workload.graph.mix(&workload.mix);
    let endpoints = mix.into_iter().flat_map(|m| &m.endpoints);
    endpoints.map(|e| e.service.clone()).collect()
}
