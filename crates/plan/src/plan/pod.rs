//! Settings of the pods that a run creates.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::source::Problem;

/// Annotations of every pod, unless a plan sets them: an autoscaler that moves a pod ends the trial.
const STAY: [(&str, &str); 2] = [
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
];
/// Labels and annotations by which tare finds its own objects begin with this.
const OWN_PREFIX: &str = "tare.run/";
/// Label of all objects of tare.
const OWN_LABEL: &str = "app.kubernetes.io/managed-by";
/// Label by which the Services of tare find their pods.
const APP_LABEL: &str = "app";
/// Placeholder in annotations of Services: the namespaces in which a Service is used.
pub const NAMESPACES: &str = "${tare.namespaces}";
/// Suffixes of quantities, and what they multiply. Source: Kubernetes API reference, "Quantity".
const SUFFIXES: [(&str, f64); 16] = [
    ("", 1.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("Ki", 1024.0),
    ("Mi", 1048576.0),
    ("Gi", 1073741824.0),
    ("Ti", 1099511627776.0),
    ("Pi", 1125899906842624.0),
    ("Ei", 1152921504606846976.0),
];

/// Settings of the pods that a run creates.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "the section `pod`")]
pub struct PodSettings {
    /// Tolerations, as in Kubernetes: nodes with these taints may be used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Labels. An application of the user's keeps its own labels of these names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations. By default, `cluster-autoscaler.kubernetes.io/safe-to-evict` is `false` and
    /// `karpenter.sh/do-not-disrupt` is `true`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Name of a priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// CPU and memory of the containers of tare. An application of the user's keeps its own.
    #[serde(skip_serializing_if = "PodResources::is_empty")]
    pub resources: PodResources,
}

/// CPU and memory of the containers of tare, by role. Default: no requests and no limits.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "the section `resources`")]
pub struct PodResources {
    /// Of each service of the application.
    #[serde(skip_serializing_if = "ContainerResources::is_empty")]
    pub application: ContainerResources,
    /// Of each generator.
    #[serde(skip_serializing_if = "ContainerResources::is_empty")]
    pub generator: ContainerResources,
    /// Of each agent.
    #[serde(skip_serializing_if = "ContainerResources::is_empty")]
    pub agent: ContainerResources,
}

/// Requests and limits of a container, as in Kubernetes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "`requests` and `limits`")]
pub struct ContainerResources {
    /// What a node must have free, such as `{cpu: 500m, memory: 64Mi}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// Most that the container may use. The kernel stops a container at its CPU limit, which is measured as latency.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

/// A quantity of Kubernetes, such as `2`, `500m` or `1Gi`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a quantity, such as `2`, `500m` or `1Gi`"
)]
pub enum Quantity {
    /// Without a suffix.
    Number(Number),
    /// With a suffix.
    Text(String),
}

/// A toleration of Kubernetes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    rename_all = "camelCase",
    expecting = "a toleration"
)]
pub struct Toleration {
    /// Key of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whether the taint must have the value (`Equal`, default).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// Value of the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint. Default: every effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
    /// With `effect: NoExecute`, how long a pod stays on a node that gets the taint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<u32>,
}

/// How a toleration matches a taint of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// With the same value.
    Equal,
    /// With any value.
    Exists,
}

/// What a taint does with pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// They are not scheduled on the node.
    NoSchedule,
    /// They are scheduled there only if no other node is free.
    PreferNoSchedule,
    /// They are evicted as well.
    NoExecute,
}

impl TaintEffect {
    fn word(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

/// Key of the taint of the node that is reserved for generators.
const GENERATOR_TAINT: &str = "tare.run/generator";

impl Toleration {
    /// Whether pods with this toleration may run on a node with this taint.
    #[must_use]
    pub fn tolerates(&self, key: &str, value: &str, effect: &str) -> bool {
        let any_value = self.operator == Some(TolerationOperator::Exists);
        self.effect.is_none_or(|e| e.word() == effect)
            && self.key.as_deref().is_none_or(|k| k == key)
            && (any_value || self.value.as_deref().unwrap_or_default() == value)
    }

    fn check(&self) -> Result<(), &'static str> {
        let exists = self.operator == Some(TolerationOperator::Exists);
        if self.key.as_deref().is_none_or(|key| key == GENERATOR_TAINT) {
            return Err(
                "this also tolerates the taint `tare.run/generator` of the generators' node, so that the application would \
                 run there; expected the `key` of another taint",
            );
        }
        if exists && self.value.is_some() {
            return Err("`value` needs `operator: Equal`");
        }
        if self.toleration_seconds.is_some() && self.effect != Some(TaintEffect::NoExecute) {
            return Err("`tolerationSeconds` needs `effect: NoExecute`");
        }
        Ok(())
    }
}

impl PodResources {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ContainerResources {
    /// Whether there are neither requests nor limits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn check(&self) -> Result<(), Problem> {
        for (name, quantity) in self.requests.iter().chain(&self.limits) {
            if let Quantity::Text(text) = quantity
                && Quantity::read(text).is_none()
            {
                let found = format!("found `{text}` for {name}");
                return Err(Problem::new(
                    found,
                    "a quantity, such as `2`, `500m` or `1Gi`",
                ));
            }
        }
        Ok(())
    }
}

impl Quantity {
    /// Reads a quantity, such as `2`, `500m`, `1e3` or `1Gi`; `None` if it is none, or negative.
    #[must_use]
    pub fn read(text: &str) -> Option<f64> {
        let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = &text[number.len()..];
        let is_part =
            |b: u8| b.is_ascii_digit() || b == b'.' || (suffix.is_empty() && b"eE+-".contains(&b));
        if number.starts_with(['+', '-']) || !number.bytes().all(is_part) {
            return None;
        }
        let (_, factor) = SUFFIXES.iter().find(|(s, _)| *s == suffix)?;
        let read = number.parse::<f64>().ok()? * factor;
        read.is_finite().then_some(read)
    }
}

impl PodSettings {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the annotations of a pod: those of the plan, over those against autoscalers.
    #[must_use]
    pub fn annotations_with_defaults(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> = STAY
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        all.extend(self.annotations.clone());
        all
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        for (i, toleration) in self.tolerations.iter().enumerate() {
            let at = format!("pod.tolerations, entry {}", i + 1);
            toleration
                .check()
                .map_err(|found| Problem::of(found).within(&at))?;
        }
        check_keys("pod.labels", &self.labels, &[OWN_LABEL, APP_LABEL])?;
        check_keys("pod.annotations", &self.annotations, &[])?;
        let PodResources {
            application,
            generator,
            agent,
        } = &self.resources;
        for (role, resources) in [
            ("application", application),
            ("generator", generator),
            ("agent", agent),
        ] {
            let at = format!("pod.resources.{role}");
            resources.check().map_err(|found| found.within(&at))?;
        }
        Ok(())
    }
}

/// Checks the labels of namespaces.
pub(super) fn check_namespace_labels(labels: &BTreeMap<String, String>) -> Result<(), Problem> {
    check_keys("namespace_labels", labels, &[OWN_LABEL])
}

/// Checks the annotations of Services: their keys and placeholders.
pub(super) fn check_service_annotations(map: &BTreeMap<String, String>) -> Result<(), Problem> {
    check_keys("service_annotations", map, &[])?;
    let is_unknown = |value: &&String| value.replace(NAMESPACES, "").contains("${");
    match map.values().find(is_unknown) {
        Some(value) => Err(Problem::new(
            format!("found `{value}` in service_annotations"),
            format!("no placeholder but `{NAMESPACES}`"),
        )),
        None => Ok(()),
    }
}

/// Checks that no key is one by which tare finds its own objects.
fn check_keys(
    section: &str,
    map: &BTreeMap<String, String>,
    reserved: &[&str],
) -> Result<(), Problem> {
    let is_reserved =
        |key: &&String| reserved.contains(&key.as_str()) || key.starts_with(OWN_PREFIX);
    match map.keys().find(is_reserved) {
        Some(key) => Err(Problem::of(format!(
            "tare itself sets `{key}` in {section}: use another name"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(text: &str) -> Toleration {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn tolerations_match_taints_as_in_kubernetes() {
        let equal = toleration(r#"{"key": "dedicated", "value": "load", "effect": "NoSchedule"}"#);
        assert!(equal.tolerates("dedicated", "load", "NoSchedule"));
        assert!(!equal.tolerates("dedicated", "other", "NoSchedule"));
        assert!(!equal.tolerates("dedicated", "load", "NoExecute"));
        assert!(!equal.tolerates("gpu", "load", "NoSchedule"));
        let any_effect = toleration(r#"{"key": "dedicated", "operator": "Exists"}"#);
        assert!(any_effect.tolerates("dedicated", "other", "NoExecute"));
        assert!(toleration(r#"{"operator": "Exists"}"#).tolerates("gpu", "", "NoSchedule"));
        assert!(toleration(r#"{"key": "empty"}"#).tolerates("empty", "", "NoSchedule"));
    }

    #[test]
    fn annotations_of_services_have_no_key_of_tare_and_no_unknown_placeholder() {
        let check = |key: &str, value: &str| {
            check_service_annotations(&[(key.to_owned(), value.to_owned())].into())
        };
        let export_to = "networking.istio.io/exportTo";
        assert_eq!(check(export_to, "${tare.namespaces},shop"), Ok(()));
        let wrong = check(export_to, "${tare.namespace}")
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("`${tare.namespaces}`"), "{wrong}");
        let wrong = check("tare.run/id", "x").unwrap_err().to_string();
        assert!(wrong.contains("in service_annotations"), "{wrong}");
    }

    #[test]
    fn settings_that_the_cluster_would_refuse_are_errors() {
        for (text, expected) in [
            (
                r#"{"tolerations": [{"operator": "Exists"}]}"#,
                "entry 1: this also tolerates the taint `tare.run/generator`",
            ),
            (
                r#"{"tolerations": [{"key": "tare.run/generator", "operator": "Exists"}]}"#,
                "expected the `key` of another taint",
            ),
            (
                r#"{"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}"#,
                "`value` needs `operator: Equal`",
            ),
            (
                r#"{"tolerations": [{"key": "a", "tolerationSeconds": 3}]}"#,
                "`tolerationSeconds` needs `effect: NoExecute`",
            ),
            (
                r#"{"labels": {"app": "x"}}"#,
                "tare itself sets `app` in pod.labels",
            ),
            (
                r#"{"annotations": {"tare.run/containers": "x"}}"#,
                "tare itself sets `tare.run/containers` in pod.annotations",
            ),
            (
                r#"{"resources": {"agent": {"limits": {"cpu": "2 cores"}}}}"#,
                "pod.resources.agent: found `2 cores` for cpu",
            ),
        ] {
            let settings: PodSettings = serde_json::from_str(text).unwrap();
            let found = settings.check().unwrap_err().to_string();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn quantities_have_binary_and_decimal_suffixes() {
        for (text, expected) in [
            ("100m", 0.1),
            ("2", 2.0),
            ("0.5", 0.5),
            ("16384Ki", 16777216.0),
            ("1Gi", 1073741824.0),
            ("64M", 64e6),
            ("1Ei", 1152921504606846976.0),
            ("1E", 1e18),
            ("1e3", 1000.0),
        ] {
            let read = Quantity::read(text).unwrap();
            assert!((read - expected).abs() <= 1e-9 * expected, "{text}: {read}");
        }
        for bad in [
            "", "m", "-1", "1e", "1GB", "1 Gi", "1.2.3", "inf", "1e3Ki", "1e999",
        ] {
            assert_eq!(Quantity::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_plan_overrides_the_annotations_against_autoscalers() {
        let key = "karpenter.sh/do-not-disrupt";
        let mut settings = PodSettings::default();
        assert_eq!(settings.annotations_with_defaults()[key], "true");
        settings.annotations.insert(key.into(), "false".into());
        let all = settings.annotations_with_defaults();
        assert_eq!((all.len(), all[key].as_str()), (2, "false"));
    }
}
