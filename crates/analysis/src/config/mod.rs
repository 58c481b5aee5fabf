//! The configuration that a proxy runs with: how it travels in the records, and what is removed
//! from it.

pub mod proxy_config;
pub mod redact;
