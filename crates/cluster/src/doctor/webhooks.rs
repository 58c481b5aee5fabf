//! Webhooks whose Service has no ready pod: the API server would refuse what it must ask them about.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{RuleWithOperations, WebhookClientConfig};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{Check, failed, note, passed};
use crate::api::kinds::{
    CONFIG_MAP, DEPLOYMENT, ENDPOINT_SLICE, JOB, Kind, MUTATING, NAMESPACE, NODE, POD, SECRET,
    SERVICE, VALIDATING,
};
use crate::api::{ApiClient, ApiError};
use crate::objects::names::{Labels, has_labels};
use crate::objects::{Metadata, parts};

/// Kinds that a run creates or changes.
const OF_RUNS: [Kind; 8] = [
    NAMESPACE, POD, SERVICE, CONFIG_MAP, DEPLOYMENT, JOB, NODE, SECRET,
];

parts! {
    /// A webhook configuration of either kind.
    struct Configuration {
        metadata: Metadata,
        webhooks: Vec<Webhook>,
    }

    struct Webhook {
        name: String,
        client_config: WebhookClientConfig,
        failure_policy: Option<String>,
        rules: Vec<RuleWithOperations>,
        namespace_selector: LabelSelector,
    }
}

/// Checks all webhooks with the failure policy `Fail`. `namespaces` has the labels of the namespaces of a run.
pub(super) async fn check(api: &ApiClient, namespaces: &[Labels]) -> Result<Vec<Check>, ApiError> {
    let mut checks = Vec::new();
    let mut services: BTreeMap<(String, String), bool> = BTreeMap::new();
    let mut ready = 0;
    for kind in [MUTATING, VALIDATING] {
        for configuration in api.list::<Configuration>(kind, None, "").await? {
            for webhook in configuration.webhooks {
                // `Fail` is the default.
                let ignores = webhook.failure_policy.as_deref() == Some("Ignore");
                let service = webhook.client_config.service.as_ref();
                let Some(service) = service.filter(|_| !ignores) else {
                    continue;
                };
                let key = (service.namespace.clone(), service.name.clone());
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
                    webhook.name, kind.kind, configuration.metadata.name, key.0, key.1
                );
                checks.push(match concerns(&webhook, namespaces) {
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
    let slices = api.list::<EndpointSlice>(ENDPOINT_SLICE, Some(namespace), &selector);
    let slices = slices.await?.into_iter();
    let mut endpoints = slices.flat_map(|s| s.endpoints.unwrap_or_default());
    // Without a condition, an endpoint counts as ready.
    Ok(endpoints.any(|e| e.conditions.and_then(|c| c.ready) != Some(false)))
}

/// Whether a webhook is asked about objects of a run: by its rules and its selector of namespaces. Its selector of objects
/// and its conditions are not evaluated; the dry runs show them.
fn concerns(webhook: &Webhook, namespaces: &[Labels]) -> bool {
    let matches = webhook.rules.iter().any(|rule| {
        let has = |list: &Option<Vec<String>>, words: &[&str]| {
            let mut all = list.iter().flatten();
            all.any(|word| words.contains(&word.as_str()))
        };
        OF_RUNS.iter().any(|kind| {
            has(&rule.api_groups, &["*", kind.group])
                && has(&rule.resources, &["*", "*/*", kind.plural])
        })
    });
    let mut namespaces = namespaces.iter();
    matches && namespaces.any(|labels| selects(&webhook.namespace_selector, labels))
}

/// Whether a label selector of Kubernetes selects labels. An empty one selects all.
///
/// Source: Kubernetes API reference, LabelSelector.
fn selects(selector: &LabelSelector, labels: &Labels) -> bool {
    let wanted = selector.match_labels.as_ref();
    let mut expressions = selector.match_expressions.iter().flatten();
    wanted.is_none_or(|wanted| has_labels(labels, wanted))
        && expressions.all(|expression| {
            let label = labels.get(&expression.key);
            let mut values = expression.values.iter().flatten();
            let is_in = values.any(|value| Some(value) == label);
            match expression.operator.as_str() {
                "In" => is_in,
                "NotIn" => !is_in,
                "Exists" => label.is_some(),
                "DoesNotExist" => label.is_none(),
                _ => true,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::pod_parts::map;
    use serde_json::{Value, json};

    #[test]
    fn a_webhook_concerns_runs_by_its_rules_and_its_namespaces() {
        let namespaces = [map("tare.run/id", "1"), map("istio-injection", "enabled")];
        let concerns = |webhook: Value| {
            let webhook = serde_json::from_value(webhook).unwrap();
            concerns(&webhook, &namespaces)
        };
        let of = |resources: Value, selector: Value| {
            let webhook = json!({"rules": [{"apiGroups": [""], "resources": resources}], "namespaceSelector": selector});
            concerns(webhook)
        };
        let group = |group: &str| {
            let rule = json!({"apiGroups": [group], "resources": ["*/*"]});
            concerns(json!({"rules": [rule]}))
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
