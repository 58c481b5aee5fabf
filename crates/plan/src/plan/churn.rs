//! Churn: services and changes of their endpoints that the control plane of a mesh has to distribute during a load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolved::{EnvironmentKind, Plan};
use crate::source::{Count, Field, Location, Problems};

/// Most services without pods.
pub const SERVICES_MAX: u32 = 2000;
/// Most endpoints of such a service: as many as Kubernetes puts into one EndpointSlice.
pub const ENDPOINTS_MAX: u32 = 100;
/// Most changes per second.
pub const CHANGES_MAX: u32 = 200;

/// Services without pods, and how often their endpoints change while the load runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Churn {
    /// Number of services, besides those of the workload, at least 1.
    pub services: u32,
    /// Addresses of each, at least 1.
    pub endpoints: u32,
    /// Changes of endpoints per second: each gives one service another address. May be 0.
    pub changes: u32,
}

/// `churn` of a load, as it is written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Churn",
    deny_unknown_fields,
    default,
    expecting = "the churn"
)]
pub(super) struct ChurnFile {
    /// Number of services without pods, 1 to 2000. Default: 100.
    services: Field<Count<1, SERVICES_MAX>>,
    /// Addresses of each of them, 1 to 100. Default: 10.
    endpoints: Field<Count<1, ENDPOINTS_MAX>>,
    /// Changes of their addresses per second, 0 to 200. Default: 1.
    changes: Field<Count<0, CHANGES_MAX>>,
}

/// Resolves what is written: `Some(None)` without churn, `None` after a problem.
pub(super) fn resolve(written: Field<ChurnFile>) -> Option<Option<Churn>> {
    let Some(file) = written.optional()? else {
        return Some(None);
    };
    Some(Some(Churn {
        services: file.services.or(Count(100))?.0,
        endpoints: file.endpoints.or(Count(10))?.0,
        changes: file.changes.or(Count(1))?.0,
    }))
}

impl Plan {
    /// Whether a load of the plan has churn.
    #[must_use]
    pub fn has_churn(&self) -> bool {
        self.loads.iter().any(|load| load.churn.is_some())
    }
}

/// Checks that the plan can have churn.
pub(super) fn check(problems: &mut Problems, plan: &Plan, at: Location) {
    if !plan.has_churn() {
        return;
    }
    if plan.environment == EnvironmentKind::Local {
        problems
            .add(at, "`churn` needs Kubernetes")
            .expected("`environment: kubernetes`: only a cluster has endpoints that change");
    }
    if !plan.loads.iter().all(super::Load::is_open) {
        problems
            .add(
                at,
                "`churn` does not work with `capacity`, `users` or `overload`",
            )
            .expected("loads with a rate");
    }
    if plan.workload.graph.application.is_some() {
        problems
            .add(at, "`churn` does not work with an application of your own")
            .expected("a service graph, such as `echo`");
    }
}
