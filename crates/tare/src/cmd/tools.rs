//! Commands that only tare itself starts, and those that write documents.

pub(super) mod agent;
pub(super) mod completions;
pub(super) mod exec;
pub(super) mod keep;
pub(super) mod man;
pub(super) mod probe;
pub(super) mod schema;
pub(super) mod workload;
