//! Workload servers, schemas, completions and the manual, and the commands that only tare itself starts.

pub(super) mod agent;
pub(super) mod completions;
pub(super) mod exec;
pub(super) mod keep;
pub(super) mod man;
pub(super) mod probe;
pub(super) mod schema;
pub(super) mod workload;
