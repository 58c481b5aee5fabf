//! Where control planes serve profiles of themselves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::Problem;

/// Where the pods of a control plane in Go serve profiles of themselves (net/http/pprof), for `--profile`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PprofEndpoint {
    /// The namespace.
    pub namespace: String,
    /// A label selector, such as `app=istiod`.
    pub selector: String,
    /// The port in the pod.
    pub port: u16,
    /// The path before `/profile` and `/heap`. Default: `/debug/pprof`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
}

impl PprofEndpoint {
    /// The path before `/profile` and `/heap`.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.path.as_str() {
            "" => "/debug/pprof",
            path => path,
        }
    }

    /// Checks that the parts are there.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub(super) fn check(&self) -> Result<(), Problem> {
        let path = self.path();
        let simple = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        if self.namespace.is_empty() || self.selector.is_empty() || self.port == 0 {
            return Err(Problem::of(
                "each entry of `pprof` needs namespace, selector and port",
            ));
        }
        if !path.starts_with('/') || !path.chars().all(simple) {
            return Err(Problem::new(
                format!("found the path `{path}` in `pprof`"),
                "one such as /debug/pprof",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_needs_pods_and_a_port_and_has_a_default_path() {
        let endpoint = |text: &str| serde_json::from_str::<PprofEndpoint>(text).unwrap();
        let good = endpoint(r#"{"namespace": "m", "selector": "app=a", "port": 8080}"#);
        assert_eq!((good.check(), good.path()), (Ok(()), "/debug/pprof"));
        let bad = endpoint(r#"{"namespace": "m", "selector": "app=a"}"#);
        assert!(bad.check().unwrap_err().to_string().contains("port"));
        let bad = PprofEndpoint {
            path: "/a?b=http://x".to_owned(),
            ..good
        };
        assert!(
            bad.check()
                .unwrap_err()
                .to_string()
                .contains("/a?b=http://x")
        );
    }
}
