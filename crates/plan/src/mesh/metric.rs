//! What a control plane counts itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::Problem;

/// A counter of a control plane, for loads with `churn`: how much it grows while endpoints change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ControlPlaneMetric {
    /// Its name in results, such as `pushes`.
    pub name: String,
    /// Namespace of the pods.
    pub namespace: String,
    /// A label selector of the pods, such as `app=istiod`. Their values are added.
    pub selector: String,
    /// Port of their Prometheus text.
    pub port: u16,
    /// Its path. Default: `/metrics`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Names of counters, as those of a proof; the first one that a pod has is used.
    pub counters: Vec<String>,
    /// Counters to divide the growth by: with `_sum` and `_count` of a histogram, the value is a mean.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per: Vec<String>,
    /// Unit, such as `s`. Default: none, for numbers of events.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

impl ControlPlaneMetric {
    /// The path of the Prometheus text.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.path.as_str() {
            "" => "/metrics",
            path => path,
        }
    }

    /// Checks that the parts are there.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let missing = [&self.name, &self.namespace, &self.selector];
        if missing.iter().any(|s| s.is_empty()) || self.port == 0 || self.counters.is_empty() {
            return Err(Problem::new(
                "found an entry of `control_plane_metrics` without name, namespace, selector, port or counters",
                "all of them",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_needs_pods_a_port_and_counters() {
        let of = |text: &str| serde_json::from_str::<ControlPlaneMetric>(text).unwrap();
        let good = of(
            r#"{"name": "pushes", "namespace": "m", "selector": "app=a", "port": 1, "counters": ["p"]}"#,
        );
        assert_eq!((good.check(), good.path()), (Ok(()), "/metrics"));
        let bad = of(r#"{"name": "pushes", "namespace": "m", "selector": "app=a", "port": 1}"#);
        assert!(bad.check().unwrap_err().to_string().contains("counters"));
    }
}
