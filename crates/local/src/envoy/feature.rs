//! Adds a feature to the configuration of a sidecar. This module does no I/O.

use std::net::SocketAddrV4;

use serde_json::{Map, Value, json};
use tare_plan::graph::ServiceProtocol;
use tare_plan::mesh::{Feature, ListenerParts, merge};

use super::config::{self, INBOUND, PROOF_PREFIXES};

/// A feature for one sidecar: without repetitions and templates.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProxyFeature {
    /// What it adds.
    pub parts: Feature,
    /// The address of each of its gRPC services.
    pub services: Vec<(String, SocketAddrV4)>,
}

/// Adds the feature to a configuration of [`config::bootstrap`].
pub(super) fn apply(bootstrap: &mut Value, feature: &ProxyFeature) {
    let ProxyFeature { parts, services } = feature;
    let resources = &mut bootstrap["static_resources"];
    for listener in elements(resources.get_mut("listeners")) {
        let own = match listener["name"] == INBOUND {
            true => &parts.inbound,
            false => &parts.outbound,
        };
        for parts in [&parts.listeners, own] {
            let chain = &mut listener["filter_chains"][0];
            overlay(chain, &parts.chain);
            to_manager(&mut chain["filters"][0]["typed_config"], parts);
        }
    }
    if let Value::Array(clusters) = &mut resources["clusters"] {
        for cluster in clusters.iter_mut() {
            if cluster["name"] != config::APPLICATION {
                overlay(cluster, &parts.cluster);
            }
        }
        clusters.extend(parts.clusters.iter().cloned());
        let grpc = ServiceProtocol::Grpc;
        let service =
            |(name, at): &(String, SocketAddrV4)| config::cluster(name, grpc, &[*at], None);
        clusters.extend(services.iter().map(service));
    }
    overlay(bootstrap, &parts.bootstrap);
}

fn to_manager(manager: &mut Value, parts: &ListenerParts) {
    overlay(manager, &parts.manager);
    insert_before_last(manager.get_mut("http_filters"), &parts.filters);
    for host in elements(manager.pointer_mut("/route_config/virtual_hosts")) {
        overlay(host, &parts.virtual_host);
        // The routes of proofs are first, the route of the load is last.
        insert_before_last(host.get_mut("routes"), &parts.routes);
        if let Some(route) = elements(host.get_mut("routes")).last() {
            debug_assert!(
                PROOF_PREFIXES
                    .iter()
                    .all(|p| route["match"]["prefix"] != *p)
            );
            overlay(route, &parts.route);
        }
    }
}

/// The elements of a list; none where a feature of the user has put something else.
fn elements(list: Option<&mut Value>) -> impl DoubleEndedIterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

fn insert_before_last(list: Option<&mut Value>, added: &[Value]) {
    if let Some(Value::Array(list)) = list {
        let last = list.len().saturating_sub(1);
        list.splice(last..last, added.iter().cloned());
    }
}

fn overlay(base: &mut Value, changes: &Map<String, Value>) {
    if !changes.is_empty() {
        merge(base, &json!(changes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::config::tests::proxy;

    #[test]
    fn each_part_is_added_at_its_place() {
        let parts = serde_json::from_value(json!({
            "listeners": {
                "manager": {"generate_request_id": true},
                "routes": [{"name": "extra"}],
                "virtual_host": {"retry_policy": {"num_retries": 2}},
                "route": {"stat_prefix": "load", "route": {"retry_policy": null}},
            },
            "inbound": {"filters": [{"name": "rbac"}], "manager": {"stat_prefix": "in"}, "chain": {"name": "c"}},
            "outbound": {"filters": [{"name": "other"}]},
            "cluster": {"outlier_detection": {}},
            "clusters": [{"name": "nowhere"}],
            "bootstrap": {"layered_runtime": {"layers": []}},
        }));
        let mut proxy = proxy(false);
        let without = config::bootstrap(&proxy);
        proxy.feature = Some(ProxyFeature {
            parts: parts.unwrap(),
            services: vec![(
                "authorizer".to_owned(),
                "127.70.254.1:15080".parse().unwrap(),
            )],
        });
        let with = config::bootstrap(&proxy);
        let listener = |place: usize| {
            let at = format!(
                "/static_resources/listeners/{place}/filter_chains/0/filters/0/typed_config"
            );
            with.pointer(&at).unwrap()
        };
        for (place, filter) in [(0, "rbac"), (1, "other")] {
            let manager = listener(place);
            assert_eq!(manager["generate_request_id"], true);
            assert_eq!(manager["http_filters"][0]["name"], filter);
            assert_eq!(manager["http_filters"].as_array().unwrap().len(), 2);
            let host = &manager["route_config"]["virtual_hosts"][0];
            assert_eq!(host["retry_policy"]["num_retries"], 2);
            let routes = host["routes"].as_array().unwrap();
            assert_eq!(
                routes.len(),
                4,
                "two of proofs, the extra one, that of the load"
            );
            assert_eq!(routes[0]["match"]["prefix"], PROOF_PREFIXES[0]);
            assert_eq!(routes[2]["name"], "extra");
            assert_eq!(routes[3]["stat_prefix"], "load");
            assert_eq!(routes[3]["route"]["timeout"], "0s");
            assert!(routes[3]["route"].get("retry_policy").is_none());
        }
        let chain = |place: usize| {
            let at = format!("/static_resources/listeners/{place}/filter_chains/0/name");
            with.pointer(&at)
        };
        assert!(chain(0).is_some() && chain(1).is_none());
        assert_eq!(listener(0)["stat_prefix"], "in");
        assert_eq!(listener(1)["stat_prefix"], "outbound");
        let clusters = with["static_resources"]["clusters"].as_array().unwrap();
        let names: Vec<_> = clusters
            .iter()
            .map(|c| c["name"].as_str().unwrap())
            .collect();
        assert_eq!(
            names,
            ["application", "back.shop-0", "nowhere", "authorizer"]
        );
        assert!(clusters[0].get("outlier_detection").is_none());
        assert!(clusters[1].get("outlier_detection").is_some());
        assert!(with.get("layered_runtime").is_some());

        proxy.feature = Some(ProxyFeature {
            parts: Feature::default(),
            services: Vec::new(),
        });
        assert_eq!(
            config::bootstrap(&proxy),
            without,
            "a feature that adds nothing"
        );
    }
}
