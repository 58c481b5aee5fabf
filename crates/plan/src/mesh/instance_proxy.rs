//! Proxies in pods of their own that serve an instance of the application.

use super::kubernetes::{MeshKubernetes, ProofSource};
use crate::source::Problem;

/// A kind of proxy in pods of its own that serves an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceProxy {
    /// Between the services of an instance.
    Waypoint,
    /// Between the load and an instance.
    Gateway,
}

impl InstanceProxy {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Waypoint, Self::Gateway];

    /// Its name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Waypoint => "waypoint",
            Self::Gateway => "gateway",
        }
    }
}

impl MeshKubernetes {
    /// Returns the label selector of these proxies; `None` if the mesh has none.
    #[must_use]
    pub fn selector_of(&self, kind: InstanceProxy) -> Option<&str> {
        match kind {
            InstanceProxy::Waypoint => self.parts.waypoints.as_deref(),
            InstanceProxy::Gateway => self.parts.gateways.as_deref(),
        }
    }

    /// Returns the source of their counters of requests.
    #[must_use]
    pub fn proof_of(&self, kind: InstanceProxy) -> Option<&ProofSource> {
        match kind {
            InstanceProxy::Waypoint => self.waypoint_proof.as_ref(),
            InstanceProxy::Gateway => self.gateway_proof.as_ref(),
        }
    }

    /// Returns the namespace of these proxies, if it is not that of each instance.
    #[must_use]
    pub fn namespace_of(&self, kind: InstanceProxy) -> Option<&str> {
        match kind {
            InstanceProxy::Waypoint => None,
            InstanceProxy::Gateway => self.entry.as_ref()?.namespace.as_deref(),
        }
    }

    /// Checks that their parts fit together.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub(super) fn check_instance_proxies(&self) -> Result<(), Problem> {
        for kind in InstanceProxy::ALL {
            let name = kind.name();
            if let Some(source) = self.proof_of(kind)
                && (self.selector_of(kind).is_none()
                    || source.of_node_proxies
                    || !source.tcp_counters.is_empty())
            {
                return Err(Problem::new(
                    format!("found `{name}_proof`"),
                    format!(
                        "`parts.{name}s` as well, and no `of_node_proxies` or `tcp_counters` in it"
                    ),
                ));
            }
        }
        match (&self.parts.gateways, &self.entry) {
            (Some(_), None) => Err(Problem::of(
                "`parts.gateways` needs `entry`: without it, the load passes no gateway",
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_proof_by_proxies_of_instances_needs_such_proxies() {
        let source = json!({"port": 15020, "path": "/", "counters": ["requests"]});
        for kind in InstanceProxy::ALL {
            let name = kind.name();
            let of = |selector: Value, source: &Value| {
                let overlay = json!({"parts": {format!("{name}s"): selector}, format!("{name}_proof"): source,
                    "entry": {"service": "s", "port": 80, "host": "a"}});
                MeshKubernetes::default().overlaid(&overlay)
            };
            let mesh = of(json!("mesh=x"), &source).unwrap();
            assert_eq!(mesh.selector_of(kind), Some("mesh=x"));
            assert_eq!(mesh.proof_of(kind).unwrap().port, 15020);
            let missing = of(json!(null), &source).unwrap_err().to_string();
            assert!(missing.contains(&format!("`parts.{name}s`")), "{missing}");
            let mut of_nodes = source.clone();
            of_nodes["of_node_proxies"] = true.into();
            assert!(of(json!("mesh=x"), &of_nodes).is_err());
        }
    }

    #[test]
    fn gateways_need_an_entry() {
        let overlay = json!({"parts": {"gateways": "a=b"}});
        let wrong = MeshKubernetes::default()
            .overlaid(&overlay)
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("`parts.gateways` needs `entry`"), "{wrong}");
    }
}
