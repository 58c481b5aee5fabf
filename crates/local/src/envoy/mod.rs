//! Envoy as a data plane: installation, configuration, admin interface.

pub(crate) mod admin;
pub(crate) mod config;
pub(crate) mod feature;
pub mod install;
pub(crate) mod search;
pub(crate) mod tcp;
pub(crate) mod tls;
mod wheel;
