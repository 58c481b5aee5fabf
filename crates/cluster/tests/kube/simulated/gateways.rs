//! The Gateway API of the simulated cluster, and the controller of its Gateways.

use serde_json::{Value, json};

use super::server::World;

const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/";

/// What the cluster does with Gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Gateways {
    /// It does not serve their kind.
    #[default]
    Unknown,
    /// It stores them, but no controller creates their proxies.
    Stored,
    /// A controller creates a Service and a Deployment for each.
    Controlled,
}

impl World {
    /// Creates the Service and the proxy of a Gateway, as Istio does.
    pub(crate) fn gateway(&mut self, namespace: &str, name: &str) {
        let name_of_all = format!("{name}-istio");
        let metadata = json!({"namespace": namespace, "name": name_of_all});
        let service = json!({"kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}],
            "selector": {"gateway.networking.k8s.io/gateway-name": name}}});
        let path = format!("/api/v1/namespaces/{namespace}/services/{name_of_all}");
        self.apply(&path, service);
        let labels = json!({"gateway.networking.k8s.io/gateway-name": name, "sidecar.istio.io/inject": "false"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "istio-proxy"}]}});
        let deployment = json!({"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1, "template": template}});
        let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name_of_all}");
        self.apply(&path, deployment);
    }

    /// The status with which the gateway at an address answers: 404 without a route for the host. `None` if no gateway has
    /// the address.
    pub(crate) fn answer_of_gateway(&self, ip: &str, host: &str) -> Option<u16> {
        let selector = "gateway.networking.k8s.io/gateway-name";
        let is_there =
            |o: &&Value| o["spec"]["clusterIP"] == ip && !o["spec"]["selector"][selector].is_null();
        self.objects.values().find(is_there)?;
        let routes = self
            .objects
            .iter()
            .filter(|(path, _)| path.starts_with(ROUTES));
        let hosts = routes.filter_map(|(_, route)| route["spec"]["hostnames"].as_array());
        let has_route = hosts.flatten().any(|name| name == host);
        Some(if has_route { 200 } else { 404 })
    }
}
