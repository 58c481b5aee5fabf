//! A simulated cluster: its API server, what its pods answer, and its faults. The tests of the program share it.

mod deep_faults;
pub(crate) mod gateways;
mod pods;
mod port_forward;
mod query;
pub(crate) mod rbac;
pub(crate) mod server;
