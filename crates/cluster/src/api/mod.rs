//! The Kubernetes API: kubeconfig, requests, kinds of objects and their RBAC rules.

mod answer;
mod client;
pub(crate) mod kinds;
pub(crate) mod kubeconfig;
mod lines;

pub(crate) use answer::{items, object};
pub(crate) use client::{ApiClient, ApiError, FIELD_MANAGER};
