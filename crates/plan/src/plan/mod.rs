//! Plans: what to measure. [`resolve`] makes a [`Plan`], complete and valid by construction,
//! from a plan file.

mod blocks;
mod builtin;
mod capacity;
mod churn;
mod entry;
mod file;
mod gate;
mod kubernetes;
mod load_kind;
mod loads;
mod margins;
mod names;
mod overload;
mod pairing;
mod placed;
mod pod;
mod prices;
mod repeats;
mod resolve;
mod resolved;
mod slices;
mod sweep;
mod tcp;
#[cfg(test)]
mod tests;
mod vary;
mod workload;

pub(crate) use names::check_version;

pub use crate::source::yaml_to_json;
pub use crate::source::{Location, Problem, Problems as PlanErrors, TEXT_BYTES_MAX};
pub use blocks::{BlockGroup, Blocks};
pub use builtin::{BuiltinPlan, builtin, builtins, nearest_builtin};
pub use capacity::CapacitySearch;
pub use churn::{CHANGES_MAX, Churn, ENDPOINTS_MAX, SERVICES_MAX};
pub use file::{ReadFile, schema};
pub use gate::{AGAIN, CANDIDATE, Gate, GateMeshes, REFERENCE, gate};
pub use kubernetes::{
    GeneratorNode, Hooks, KubernetesSettings, Placement, PullPolicy, SamplingSource,
};
pub use load_kind::LoadKind;
pub use margins::Margins;
pub use overload::{CapacityOf, Overload, Phases};
pub use pairing::Pairing;
pub use pod::{
    ContainerResources, NAMESPACES, PodResources, PodSettings, Quantity, TaintEffect, Toleration,
    TolerationOperator,
};
pub use prices::Prices;
pub use resolve::resolve;
pub use resolved::{EnvironmentKind, Load, Plan, PrecisionTarget, StopRule, UNTIL_MIN, Workload};
pub use slices::{SliceChoice, SliceTimes};
pub use sweep::{Design, Factor, FactorKind, Level, Levels, Sweep, SweptMesh};
pub use vary::extend;
pub use workload::graph_of_file;
