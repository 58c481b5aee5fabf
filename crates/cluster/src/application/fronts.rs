//! The services that the load requests, tare's own or the entry points of an application.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;
use tare_plan::Workload;
use tare_plan::graph::{MixEndpoint, Service, ServiceProtocol};

use super::Rendered;
use crate::objects::Pod;
use crate::objects::names::{Labels, PORT};
use crate::objects::pod_parts::map;
use tare_run::instances;

/// A service that the load requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Front {
    pub(crate) protocol: ServiceProtocol,
    /// Port of the Kubernetes Service.
    pub(crate) port: u16,
    /// Port of its pods; `None` if the Service lacks it.
    target: Option<IntOrString>,
    /// Labels of its pods.
    selector: Labels,
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
            target: Some(IntOrString::Int(PORT.into())),
            selector: map("app", &service.name),
            path: "/tare/ready".to_owned(),
            of_user: false,
        }
    }

    fn entry(workload: &Workload, service: &Service, rendered: &Rendered) -> Self {
        let port = service.port.unwrap_or(PORT);
        let object = rendered.service(&service.name);
        let selector = object.map(|o| o["spec"]["selector"].clone());
        let selector = selector.and_then(|s| serde_json::from_value(s).ok());
        let in_mix = gets(workload).find(|e| e.service == service.name);
        let first = service.endpoints.first();
        let path = in_mix.map(|e| &e.path).or(first.map(|e| &e.path));
        Self {
            protocol: service.protocol,
            port,
            target: object.and_then(|o| target(o, port)),
            selector: selector.unwrap_or_default(),
            path: path.map_or_else(|| "/".to_owned(), String::clone),
            of_user: true,
        }
    }

    /// Whether the service selects a pod.
    pub(crate) fn has(&self, pod: &Pod) -> bool {
        let mut labels = self.selector.iter();
        !self.selector.is_empty() && labels.all(|(k, v)| v == pod.label(k))
    }

    /// The port on which a pod of the service listens.
    pub(crate) fn port_of(&self, pod: &Pod) -> Option<u16> {
        match self.target.as_ref()? {
            IntOrString::String(name) => pod.port(name),
            IntOrString::Int(number) => u16::try_from(*number).ok(),
        }
    }
}

/// The endpoints of the mix that a GET request without a body can test.
pub(crate) fn gets(workload: &Workload) -> impl Iterator<Item = &MixEndpoint> {
    let all = instances::mix(workload);
    all.filter(|e| e.method == "GET" && e.request_bytes == 0)
}

/// The target port of a port of a Kubernetes Service; `None` if it lacks the port.
pub(super) fn target(service: &Value, port: u16) -> Option<IntOrString> {
    let ports = service["spec"]["ports"].as_array()?;
    let found = ports.iter().find(|p| p["port"] == port)?;
    match &found["targetPort"] {
        Value::Null => Some(IntOrString::Int(port.into())),
        target => serde_json::from_value(target.clone()).ok(),
    }
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
    use serde_json::json;

    #[test]
    fn a_named_port_is_that_of_the_pods_container() {
        let service =
            json!({"spec": {"ports": [{"port": 80, "targetPort": "http"}, {"port": 81}]}});
        let named = IntOrString::String("http".to_owned());
        assert_eq!(target(&service, 80), Some(named.clone()));
        assert_eq!(target(&service, 81), Some(IntOrString::Int(81)));
        assert_eq!(target(&service, 82), None);
        let front = Front {
            protocol: ServiceProtocol::Http,
            port: 80,
            target: Some(named),
            selector: map("app", "web"),
            path: "/".into(),
            of_user: true,
        };
        let pod = |app: &str| {
            let pod = json!({"metadata": {"labels": {"app": app, "version": "1"}}, "spec": {"containers": [
                {"name": "log"}, {"name": "web", "ports": [{"name": "http", "containerPort": 9898}]}]}});
            serde_json::from_value::<Pod>(pod).unwrap()
        };
        assert!(front.has(&pod("web")) && !front.has(&pod("db")));
        assert_eq!(front.port_of(&pod("web")), Some(9898));
        let all = Front {
            selector: Labels::new(),
            ..front
        };
        assert!(
            !all.has(&pod("web")),
            "a Service without a selector has no pods"
        );
    }
}
