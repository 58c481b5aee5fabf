//! The Kubernetes API: kubeconfig, requests, kinds of objects and their RBAC rules.

mod answer;
mod client;
mod error;
pub(crate) mod kinds;
pub(crate) mod kubeconfig;
mod lines;

pub(crate) use answer::list;
pub(crate) use client::{ApiClient, FIELD_MANAGER, json};
pub(crate) use error::ApiError;
