//! The services that the load requests, tare's own or the entry points of an application.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tare_plan::Workload;
use tare_plan::graph::{MixEndpoint, Service, ServiceProtocol};

use super::Rendered;
use crate::objects::Pod;
use crate::objects::names::PORT;
use tare_run::instances;

/// A service that the load requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Front {
    pub(crate) protocol: ServiceProtocol,
    /// Port of the Kubernetes Service.
    pub(crate) port: u16,
    /// Port of its pods: a number, or a name.
    target: Value,
    /// Labels of its pods.
    selector: Value,
    /// Path of a GET request to its pods, outside of the load.
    pub(crate) path: String,
    /// Whether the user's application answers.
    pub(crate) of_user: bool,
}

impl Front {
    /// Returns the fronts of a workload by name.
    pub(crate) fn all(workload: &Workload, rendered: Option<&Rendered>) -> BTreeMap<String, Self> {
        let mut all = BTreeMap::new();
        for name in instances::fronts(workload).keys() {
            let Some(service) = workload.graph.service(name) else {
                continue;
            };
            let front = match rendered {
                None => Self::own(service),
                Some(rendered) => Self::entry(workload, service, rendered),
            };
            all.insert(name.clone(), front);
        }
        all
    }

    /// Returns the names and the ports of fronts.
    pub(crate) fn called(fronts: &BTreeMap<String, Self>) -> Vec<(&str, u16)> {
        let all = fronts.iter();
        all.map(|(name, front)| (name.as_str(), front.port))
            .collect()
    }

    fn own(service: &Service) -> Self {
        Self {
            protocol: service.protocol,
            port: PORT,
            target: PORT.into(),
            selector: json!({"app": service.name}),
            path: "/tare/ready".to_owned(),
            of_user: false,
        }
    }

    fn entry(workload: &Workload, service: &Service, rendered: &Rendered) -> Self {
        let port = service.port.unwrap_or(PORT);
        let object = rendered.service(&service.name);
        let target = object.and_then(|o| target(o, port));
        let in_mix = gets(workload).find(|e| e.service == service.name);
        let first = service.endpoints.first();
        let path = in_mix.map(|e| &e.path).or(first.map(|e| &e.path));
        Self {
            protocol: service.protocol,
            port,
            target: target.unwrap_or(Value::Null),
            selector: object.map_or(Value::Null, |o| o["spec"]["selector"].clone()),
            path: path.map_or_else(|| "/".to_owned(), String::clone),
            of_user: true,
        }
    }

    /// Whether the service selects a pod.
    pub(crate) fn has(&self, pod: Pod<'_>) -> bool {
        let labels = self.selector.as_object();
        labels.is_some_and(|l| !l.is_empty() && l.iter().all(|(k, v)| v == pod.label(k)))
    }

    /// The port on which a pod of the service listens.
    pub(crate) fn port_of(&self, pod: Pod<'_>) -> Option<u16> {
        match &self.target {
            Value::String(name) => pod.port(name),
            number => number.as_u64().and_then(|n| u16::try_from(n).ok()),
        }
    }
}

/// The endpoints of the mix that a GET request without a body can test.
pub(crate) fn gets(workload: &Workload) -> impl Iterator<Item = &MixEndpoint> {
    let all = instances::mix(workload);
    all.filter(|e| e.method == "GET" && e.request_bytes == 0)
}

/// The target port of a port of a Kubernetes Service; `None` if it lacks the port.
pub(super) fn target(service: &Value, port: u16) -> Option<Value> {
    let ports = service["spec"]["ports"].as_array()?;
    let found = ports.iter().find(|p| p["port"] == port)?;
    Some(match &found["targetPort"] {
        Value::Null => port.into(),
        target => target.clone(),
    })
}

impl Rendered {
    fn service(&self, name: &str) -> Option<&Value> {
        let is_it = |o: &&Value| o["kind"] == "Service" && o["metadata"]["name"] == name;
        self.objects.iter().find(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_port_is_that_of_the_pods_container() {
        let service =
            json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81}]}});
        assert_eq!(target(&service, 80), Some(json!("http")));
        assert_eq!(target(&service, 81), Some(json!(81)));
        assert_eq!(target(&service, 82), None);
        let front = Front {
            protocol: ServiceProtocol::Http,
            port: 80,
            target: json!("http"),
            selector: json!({"app": "web"}),
            path: "/".into(),
            of_user: true,
        };
        let pod = |app: &str| {
            json!({"metadata": {"labels": {"app": app, "version": "1"}}, "spec": {"containers": [
                {"name": "log"}, {"name": "web", "ports": [{"name": "http", "containerPort": 9898}]}]}})
        };
        assert!(front.has(Pod(&pod("web"))) && !front.has(Pod(&pod("db"))));
        assert_eq!(front.port_of(Pod(&pod("web"))), Some(9898));
        let all = Front {
            selector: json!({}),
            ..front
        };
        assert!(
            !all.has(Pod(&pod("web"))),
            "a Service without a selector has no pods"
        );
    }
}
