//! Envoy as a data plane: getting the program, configuring it, asking it.

pub(crate) mod admin;
pub(crate) mod config;
mod helper;
pub mod install;
pub(crate) mod tls;
mod wheel;
