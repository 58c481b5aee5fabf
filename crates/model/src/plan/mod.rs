//! Plans: what to measure. A plan file is what was written, [`Plan`] what was
//! meant: complete, and valid by construction. [`resolve`] leads from one to the other.

mod builtin;
mod decode;
mod file;
mod kubernetes;
mod loads;
mod prices;
mod repeats;
mod resolve;
mod resolved;
#[cfg(test)]
mod tests;
mod workload;

pub use crate::source::yaml_to_json;
pub use crate::source::{Place, Problem, Problems as PlanErrors, TEXT_BYTES_MAX};
pub use builtin::{BuiltinPlan, builtin, builtins, nearest_builtin};
pub use file::schema;
pub use kubernetes::{
    GeneratorNode, Hooks, KubernetesSettings, Placement, PullPolicy, SamplingSource,
};
pub use prices::Prices;
pub use resolve::{ReadFile, resolve};
pub use resolved::{EnvironmentKind, Load, Plan, PrecisionTarget, StopRule, UNTIL_MIN, Workload};
