//! Where the load enters a mesh, and the objects that a mesh adds to each instance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::kubernetes::{Join, VERSION};
use crate::source::Problem;

/// Placeholders of a called service.
const SERVICE: &str = "${tare.service}";
const NAMESPACE: &str = "${tare.namespace}";
const PORT: &str = "${tare.port}";

/// The Service through which all of the load enters, that of a gateway. Without it, the load goes to the Services that it
/// calls.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeshEntry {
    /// Name of the Service, such as `tare-istio`, which Istio creates for a Gateway named `tare`.
    pub service: String,
    /// Its namespace; absent: that of each instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its port, for plain HTTP.
    pub port: u16,
    /// The host of the requests. `${tare.service}`, `${tare.namespace}` and `${tare.port}` are replaced by the service that
    /// a request calls, its namespace and its port.
    pub host: String,
}

/// A service that the load calls, in one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalledService<'a> {
    /// Its name, which is that of its Kubernetes Service.
    pub name: &'a str,
    /// The namespace of the instance.
    pub namespace: &'a str,
    /// Port of the Kubernetes Service.
    pub port: u16,
}

impl CalledService<'_> {
    fn fill(self, text: &str) -> String {
        let port = self.port.to_string();
        let text = text.replace(SERVICE, self.name).replace(PORT, &port);
        text.replace(NAMESPACE, self.namespace)
    }

    /// Fills the placeholders in all strings. A string that is only `${tare.port}` becomes a number.
    fn fill_all(self, value: &mut Value) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|v| self.fill_all(v)),
            Value::Array(list) => list.iter_mut().for_each(|v| self.fill_all(v)),
            Value::String(text) if text == PORT => *value = self.port.into(),
            Value::String(text) => *text = self.fill(text),
            _ => {}
        }
    }
}

impl MeshEntry {
    /// Returns the host of the requests to a service.
    #[must_use]
    pub fn host_of(&self, called: CalledService<'_>) -> String {
        called.fill(&self.host)
    }

    /// Whether requests to several services have several hosts.
    pub(crate) fn tells_services_apart(&self) -> bool {
        self.host.contains(SERVICE)
    }

    /// Whether requests to several instances have several addresses or hosts.
    pub(crate) fn tells_instances_apart(&self) -> bool {
        self.namespace.is_none() || self.host.contains(NAMESPACE)
    }

    /// Checks the parts.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.service.is_empty() || self.port == 0 || self.host.is_empty() {
            return Err(Problem::of("`entry` needs `service`, `port` and `host`"));
        }
        let any = CalledService {
            name: "a",
            namespace: "a",
            port: 1,
        };
        let host = self.host_of(any).replace(VERSION, "1");
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c);
        if !host.chars().all(fits) {
            return Err(Problem::new(
                format!("found the host `{}` in `entry`", self.host),
                format!(
                    "a name of a-z, 0-9, `-` and `.`, with {SERVICE}, {NAMESPACE} and {PORT}, such as \
                     {SERVICE}.{NAMESPACE}.test"
                ),
            ));
        }
        Ok(())
    }
}

/// Whether an object is created for each called service.
fn is_of_service(manifest: &Value) -> bool {
    let text = manifest.to_string();
    text.contains(SERVICE) || text.contains(PORT)
}

impl Join {
    /// Returns the objects of an instance, with their placeholders filled. Those with the name or the port of a service
    /// exist for each of the called services.
    #[must_use]
    pub fn manifests_of(&self, namespace: &str, called: &[(&str, u16)]) -> Vec<Value> {
        let mut all = Vec::new();
        for manifest in &self.manifests {
            let count = match is_of_service(manifest) {
                true => called.len(),
                false => 1,
            };
            for index in 0..count {
                let (name, port) = called.get(index).copied().unwrap_or_default();
                let service = CalledService {
                    name,
                    namespace,
                    port,
                };
                let mut object = manifest.clone();
                service.fill_all(&mut object);
                object["metadata"]["namespace"] = namespace.into();
                all.push(object);
            }
        }
        all
    }

    /// Checks the placeholders of the objects.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub(super) fn check_placeholders(&self) -> Result<(), Problem> {
        for manifest in &self.manifests {
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            let of_service = is_of_service(manifest);
            if of_service && !name.contains(SERVICE) {
                return Err(Problem::new(
                    format!("found {SERVICE} or {PORT} in the object `{name}` of `join.manifests`"),
                    format!(
                        "{SERVICE} in its name as well: it is created for each service that the load calls"
                    ),
                ));
            }
            let text = [SERVICE, NAMESPACE, PORT, VERSION]
                .iter()
                .fold(manifest.to_string(), |text, known| text.replace(known, ""));
            if let Some((_, rest)) = text.split_once("${tare.") {
                let unknown = rest.split('}').next().unwrap_or_default();
                return Err(Problem::new(
                    format!("found ${{tare.{unknown}}} in the object `{name}` of `join.manifests`"),
                    format!("{SERVICE}, {NAMESPACE}, {PORT} or {VERSION}"),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::MeshKubernetes;
    use serde_json::json;

    fn with(overlay: &Value) -> Result<MeshKubernetes, Problem> {
        MeshKubernetes::default().overlaid(overlay)
    }

    #[test]
    fn the_host_has_the_called_service_and_its_namespace() {
        let entry = json!({"service": "tare-istio", "port": 80, "host": "${tare.service}.${tare.namespace}.test:${tare.port}"});
        let mesh = with(&json!({"entry": entry})).unwrap();
        let called = CalledService {
            name: "web",
            namespace: "tare-1-0",
            port: 8080,
        };
        let host = mesh.entry.unwrap().host_of(called);
        assert_eq!(host, "web.tare-1-0.test:8080");
    }

    #[test]
    fn an_entry_of_a_plan_is_merged_over_that_of_the_mesh() {
        let entry = json!({"service": "a", "port": 80, "host": "a"});
        let mesh = with(&json!({"entry": entry})).unwrap();
        let other = mesh.overlaid(&json!({"entry": {"namespace": "ingress", "port": 8080}}));
        let entry = other.unwrap().entry.unwrap();
        assert_eq!((entry.service.as_str(), entry.port), ("a", 8080));
        assert_eq!(entry.namespace.as_deref(), Some("ingress"));
        assert_eq!(mesh.overlaid(&json!({"entry": null})).unwrap().entry, None);
    }

    #[test]
    fn a_wrong_entry_is_an_error() {
        for (entry, part) in [
            (
                json!({"service": "a", "port": 80}),
                "`entry` needs `service`",
            ),
            (
                json!({"service": "a", "port": 80, "host": "http://a"}),
                "`http://a`",
            ),
            (
                json!({"service": "a", "port": 80, "host": "${tare.servcie}"}),
                "`${tare.servcie}`",
            ),
            (
                json!({"service": "a", "prot": 80, "host": "a"}),
                "unknown field `prot`",
            ),
        ] {
            let wrong = with(&json!({"entry": entry})).unwrap_err().to_string();
            assert!(wrong.contains(part), "{wrong}");
        }
    }

    #[test]
    fn objects_with_a_service_exist_for_each_called_service() {
        let mesh = with(&json!({"join": {"manifests": [
            {"kind": "Gateway", "metadata": {"name": "tare"}, "spec": {"namespace": "${tare.namespace}"}},
            {"kind": "HTTPRoute", "metadata": {"name": "${tare.service}"}, "spec": {
                "hostnames": ["${tare.service}.${tare.namespace}.test"], "port": "${tare.port}", "text": "port ${tare.port}"}},
        ]}}));
        let join = mesh.unwrap().join;
        let objects = join.manifests_of("n-0", &[("api", 90), ("web", 80)]);
        let names: Vec<&Value> = objects.iter().map(|o| &o["metadata"]["name"]).collect();
        assert_eq!(names, ["tare", "api", "web"]);
        assert!(objects.iter().all(|o| o["metadata"]["namespace"] == "n-0"));
        assert_eq!(objects[0]["spec"]["namespace"], "n-0");
        let spec = json!({"hostnames": ["web.n-0.test"], "port": 80, "text": "port 80"});
        assert_eq!(objects[2]["spec"], spec);
    }

    #[test]
    fn wrong_placeholders_in_objects_are_errors() {
        let of = |name: &str, text: &str| {
            let object = json!({"kind": "K", "metadata": {"name": name}, "spec": text});
            with(&json!({"join": {"manifests": [object]}})).map(drop)
        };
        assert_eq!(of("a-${tare.service}", "${tare.port}"), Ok(()));
        assert_eq!(of("a", "${tare.namespace} ${tare.version}"), Ok(()));
        let twice = of("a", "${tare.port}").unwrap_err().to_string();
        assert!(
            twice.contains("expected ${tare.service} in its name"),
            "{twice}"
        );
        let unknown = of("a", "${tare.prot}").unwrap_err().to_string();
        assert!(
            unknown.contains("found ${tare.prot} in the object `a`"),
            "{unknown}"
        );
    }
}
