//! Webhooks whose Service has no ready pod: the API server would refuse what it must ask them about.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Check, failed, note, passed};
use crate::api::kinds::{
    CONFIG_MAP, DEPLOYMENT, ENDPOINT_SLICE, JOB, Kind, MUTATING, NAMESPACE, NODE, POD, SECRET,
    SERVICE, VALIDATING,
};
use crate::api::{ApiClient, ApiError};
use crate::objects::names::name_of;

/// Kinds that a run creates or changes.
const OF_RUNS: [Kind; 8] = [
    NAMESPACE, POD, SERVICE, CONFIG_MAP, DEPLOYMENT, JOB, NODE, SECRET,
];

/// Checks all webhooks with the failure policy `Fail`. `namespaces` has the labels of the namespaces of a run.
pub(super) async fn check(api: &ApiClient, namespaces: &[Value]) -> Result<Vec<Check>, ApiError> {
    let mut checks = Vec::new();
    let mut services: BTreeMap<(String, String), bool> = BTreeMap::new();
    let mut ready = 0;
    for kind in [MUTATING, VALIDATING] {
        for configuration in api.list(kind, None, "").await? {
            let webhooks = configuration["webhooks"].as_array();
            for webhook in webhooks.into_iter().flatten() {
                let service = &webhook["clientConfig"]["service"];
                let text = |key: &str| service[key].as_str().unwrap_or_default().to_owned();
                let key = (text("namespace"), text("name"));
                // `Fail` is the default.
                if key.1.is_empty() || webhook["failurePolicy"] == "Ignore" {
                    continue;
                }
                let is_ready = match services.get(&key) {
                    Some(is_ready) => *is_ready,
                    None => match is_ready(api, &key.0, &key.1).await {
                        Err(error) if error.is_forbidden() => {
                            let found = format!(
                                "not checked: {error}; `tare doctor --deep --rbac` prints the role"
                            );
                            return Ok(vec![note("webhooks", found)]);
                        }
                        found => found?,
                    },
                };
                services.insert(key.clone(), is_ready);
                if is_ready {
                    ready += 1;
                    continue;
                }
                let found = format!(
                    "{} of {} {}: its Service {}/{} has no ready pod, and its failurePolicy is Fail",
                    webhook["name"].as_str().unwrap_or_default(),
                    kind.kind,
                    name_of(&configuration),
                    key.0,
                    key.1
                );
                checks.push(match concerns(webhook, namespaces) {
                    true => {
                        let remedy = "the API server may refuse objects of a run: repair the program behind the Service, or \
                                      delete the webhook configuration if the program is gone";
                        failed("webhooks", format!("{found}; {remedy}"))
                    }
                    false => note("webhooks", format!("{found}; its rules do not match objects of tare")),
                });
            }
        }
    }
    if checks.iter().all(|c| c.good.is_none()) {
        let found = match ready {
            0 => "none has failurePolicy Fail".to_owned(),
            _ => format!("{ready} with failurePolicy Fail have a ready pod"),
        };
        checks.push(passed("webhooks", found));
    }
    Ok(checks)
}

/// Whether a Service has a ready endpoint.
async fn is_ready(api: &ApiClient, namespace: &str, service: &str) -> Result<bool, ApiError> {
    let selector = format!("kubernetes.io/service-name={service}");
    let slices = api.list(ENDPOINT_SLICE, Some(namespace), &selector).await?;
    let endpoints = slices.iter().filter_map(|s| s["endpoints"].as_array());
    // Without a condition, an endpoint counts as ready.
    Ok(endpoints
        .flatten()
        .any(|e| e["conditions"]["ready"] != false))
}

/// Whether a webhook is asked about objects of a run: by its rules and its selector of namespaces. Its selector of objects
/// and its conditions are not evaluated; the dry runs show them.
fn concerns(webhook: &Value, namespaces: &[Value]) -> bool {
    let mut rules = webhook["rules"].as_array().into_iter().flatten();
    let matches = rules.any(|rule| {
        let has = |key: &str, words: &[&str]| {
            let mut all = rule[key].as_array().into_iter().flatten();
            all.any(|word| words.iter().any(|w| word == w))
        };
        OF_RUNS.iter().any(|kind| {
            has("apiGroups", &["*", kind.group]) && has("resources", &["*", "*/*", kind.plural])
        })
    });
    let selector = &webhook["namespaceSelector"];
    matches && namespaces.iter().any(|labels| selects(selector, labels))
}

/// Whether a label selector of Kubernetes selects labels. An empty one selects all.
///
/// Source: Kubernetes API reference, LabelSelector.
fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = selector["matchLabels"].as_object().into_iter().flatten();
    let expressions = selector["matchExpressions"].as_array();
    equal.into_iter().all(|(key, value)| labels[key] == *value)
        && expressions.into_iter().flatten().all(|expression| {
            let label = &labels[expression["key"].as_str().unwrap_or_default()];
            let values = expression["values"].as_array();
            let is_in = values.is_some_and(|values| values.contains(label));
            match expression["operator"].as_str() {
                Some("In") => is_in,
                Some("NotIn") => !is_in,
                Some("Exists") => !label.is_null(),
                Some("DoesNotExist") => label.is_null(),
                _ => true,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_webhook_concerns_runs_by_its_rules_and_its_namespaces() {
        let namespaces = [
            json!({"tare.run/id": "1"}),
            json!({"istio-injection": "enabled"}),
        ];
        let of = |resources: Value, selector: Value| {
            let webhook = json!({"rules": [{"apiGroups": [""], "resources": resources}], "namespaceSelector": selector});
            concerns(&webhook, &namespaces)
        };
        let group = |group: &str| {
            let rule = json!({"apiGroups": [group], "resources": ["*/*"]});
            concerns(&json!({"rules": [rule]}), &namespaces)
        };
        assert!(group("*") && group("") && group("apps") && group("batch"));
        assert!(!group("cert-manager.io"));
        let all = json!({});
        assert!(of(json!(["pods"]), all.clone()));
        assert!(of(json!(["*/*"]), Value::Null));
        assert!(!of(
            json!(["certificates", "pods/eviction", "*/scale"]),
            all
        ));
        let expression = |operator: &str, values: Value| json!({"matchExpressions": [{"key": "istio-injection", "operator": operator, "values": values}]});
        let pods = || json!(["pods"]);
        assert!(of(pods(), expression("In", json!(["enabled"]))));
        assert!(!of(pods(), expression("In", json!(["disabled"]))));
        assert!(of(pods(), expression("NotIn", json!(["enabled"]))));
        assert!(of(pods(), expression("Exists", Value::Null)));
        assert!(of(pods(), expression("DoesNotExist", Value::Null)));
        assert!(!of(pods(), json!({"matchLabels": {"team": "shop"}})));
        assert!(of(pods(), json!({"matchLabels": {"tare.run/id": "1"}})));
    }
}
