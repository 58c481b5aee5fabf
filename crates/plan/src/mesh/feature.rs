//! A feature of sidecars that has a price: what it adds to the configuration of each Envoy, and how a
//! trial proves that it is on. A feature is data in the file of a mesh.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use thiserror::Error;

/// Most repetitions of one fragment.
const REPEAT_MAX: u64 = 10_000;
/// Most gRPC services of a feature.
const SERVICES_MAX: usize = 8;
/// Most characters of a service's name.
const SERVICE_CHARS_MAX: usize = 63;

/// A feature of Envoy sidecars. Its parts are fragments of Envoy's configuration, added to what tare
/// writes for each sidecar.
///
/// A fragment is *merged* as in RFC 7396: maps are merged, `null` removes a key, everything else
/// replaces. In a list, `repeat: {count: N, item: ...}` stands for N items, in a map
/// `repeat: {count: N, key: ..., value: ...}` for N entries. Texts may contain the templates `{i}` (the
/// number of a repetition, from 0, with leading zeros), `{name}` (of the pod) and `{access_log}` (a path
/// for an access log).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a feature")]
pub struct Feature {
    /// What is added to the inbound and to the outbound listener.
    #[serde(skip_serializing_if = "ListenerParts::is_empty")]
    pub listeners: ListenerParts,
    /// What is added to the inbound listener only, after `listeners`.
    #[serde(skip_serializing_if = "ListenerParts::is_empty")]
    pub inbound: ListenerParts,
    /// What is added to the outbound listener only, after `listeners`.
    #[serde(skip_serializing_if = "ListenerParts::is_empty")]
    pub outbound: ListenerParts,
    /// Merged into the cluster of each other sidecar.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub cluster: Map<String, Json>,
    /// Further clusters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<Json>,
    /// Merged into the whole configuration, last.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub bootstrap: Map<String, Json>,
    /// gRPC services that the sidecars call. Each is a process on the loopback network that answers every
    /// call with an empty message, and each sidecar has a cluster of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// How a trial proves that the feature is on, and in the trials of the baseline that it is off.
    /// Required, unless the feature adds nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proofs: Vec<FeatureProof>,
}

/// What a feature adds to a listener.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "what a feature adds to a listener"
)]
pub struct ListenerParts {
    /// HTTP filters before the router.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Json>,
    /// Merged into the HTTP connection manager.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub manager: Map<String, Json>,
    /// Merged into each virtual host.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub virtual_host: Map<String, Json>,
    /// Routes before that of the load, in each virtual host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Json>,
    /// Merged into the route of the load, in each virtual host.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub route: Map<String, Json>,
    /// Merged into the filter chain, which has the settings of TLS.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub chain: Map<String, Json>,
}

/// One proof that a feature is on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", expecting = "a proof of a feature")]
pub enum FeatureProof {
    /// A counter of the sidecars grows.
    Counter(CounterProof),
    /// A gauge of each sidecar has this value.
    Gauge(GaugeProof),
    /// A request is answered with this status.
    Request(RequestProof),
}

/// A counter that grows if a feature is on, and is 0 or absent if it is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a counter")]
pub struct CounterProof {
    /// Its name in `/stats`; `*` stands for any characters. Counters that match are added up.
    pub name: String,
    /// How much it grows.
    pub grows: Growth,
}

/// How much a counter grows over the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Growth {
    /// In each sidecar, by at least the requests that its inbound listener carried.
    PerInboundRequest,
    /// In each sidecar, by at least the requests that its outbound listener carried.
    PerOutboundRequest,
    /// In each sidecar, by at least the requests that both listeners carried.
    PerRequest,
    /// In all sidecars together, by at least 1 during the load.
    Some,
    /// In all sidecars together, it is above 0 after the load. It may have grown before.
    Once,
}

/// A gauge that has another value if a feature is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a gauge")]
pub struct GaugeProof {
    /// Its name in `/stats`.
    pub name: String,
    /// Its value in each sidecar.
    pub is: u64,
}

/// A GET to the inbound port of each sidecar of a service. At least one request of a feature is answered
/// with another status if the feature is off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a request")]
pub struct RequestProof {
    /// Path.
    pub path: String,
    /// Headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Status of the response.
    pub status: u16,
}

/// What is wrong with a feature.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FeatureError {
    /// Its section cannot be decoded.
    #[error("{found}, in `{path}`")]
    Decode {
        /// What was found and what was expected.
        found: String,
        /// The place in the section.
        path: String,
    },
    /// An error in a part.
    #[error("in `{part}`: {error}")]
    In {
        /// The part.
        part: &'static str,
        /// The error.
        error: Box<FeatureError>,
    },
    /// Too many gRPC services.
    #[error("{0} services, expected at most {SERVICES_MAX}")]
    TooManyServices(usize),
    /// The name of a gRPC service cannot be that of a cluster.
    #[error(
        "found `{0}` in `services`, expected a name of 1 to {SERVICE_CHARS_MAX} of a-z, 0-9 and -"
    )]
    ServiceName(String),
    /// The name of a gRPC service is not unique.
    #[error("found `{0}` in `services`, expected a name that no other service or cluster has")]
    ServiceTwice(String),
    /// A feature that adds something has no proof.
    #[error("no `proofs`, expected at least one of counter, gauge, request")]
    NoProofs,
    /// A repetition cannot be decoded.
    #[error("in `repeat`: {0}")]
    Repeat(String),
    /// A repetition with no or too many items.
    #[error("`repeat` with the count {0}, expected 1 to {REPEAT_MAX}")]
    RepeatCount(u64),
    /// A repetition has other keys than its place requires.
    #[error("`repeat` here needs {0}")]
    RepeatKeys(&'static str),
    /// A template without a value.
    #[error(
        "unknown template `{{{0}}}`, expected {{name}} or {{access_log}}, or {{i}} in a `repeat`"
    )]
    Template(String),
}

impl FeatureError {
    /// Adds the part in which the error is.
    fn of_part(part: &'static str) -> impl Fn(Self) -> Self {
        move |error| Self::In {
            part,
            error: Box::new(error),
        }
    }
}

impl ListenerParts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn filled(&self, fill: &Fill<'_>) -> Result<Self, FeatureError> {
        Ok(Self {
            filters: list(&self.filters, fill)?,
            manager: map(&self.manager, fill)?,
            virtual_host: map(&self.virtual_host, fill)?,
            routes: list(&self.routes, fill)?,
            route: map(&self.route, fill)?,
            chain: map(&self.chain, fill)?,
        })
    }
}

/// The value of a template by its name; `None` for an unknown one.
type Fill<'a> = dyn Fn(&str) -> Option<String> + 'a;

impl Feature {
    /// Whether it changes nothing: a second mesh like the baseline, which shows the noise.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Whether TCP proxies, which only forward bytes, make it useless or impossible to prove.
    #[must_use]
    pub fn needs_http(&self) -> bool {
        let lists = [&self.listeners, &self.inbound, &self.outbound];
        let by_requests = |proof: &FeatureProof| match proof {
            FeatureProof::Counter(counter) => !matches!(counter.grows, Growth::Some | Growth::Once),
            FeatureProof::Gauge(_) => false,
            FeatureProof::Request(_) => true,
        };
        lists.iter().any(|parts| !parts.is_empty()) || self.proofs.iter().any(by_requests)
    }

    /// The same feature with repetitions and templates replaced; `fill` returns the value of a template.
    ///
    /// # Errors
    /// An unknown template, or an invalid `repeat`.
    pub fn filled(&self, fill: &Fill<'_>) -> Result<Self, FeatureError> {
        let part = FeatureError::of_part;
        let (listeners, inbound, outbound) = (&self.listeners, &self.inbound, &self.outbound);
        Ok(Self {
            listeners: listeners.filled(fill).map_err(part("listeners"))?,
            inbound: inbound.filled(fill).map_err(part("inbound"))?,
            outbound: outbound.filled(fill).map_err(part("outbound"))?,
            cluster: map(&self.cluster, fill).map_err(part("cluster"))?,
            clusters: list(&self.clusters, fill).map_err(part("clusters"))?,
            bootstrap: map(&self.bootstrap, fill).map_err(part("bootstrap"))?,
            services: self.services.clone(),
            proofs: self.proofs.clone(),
        })
    }

    /// Decodes and checks a feature. `changes_settings`: whether the variant also changes settings.
    ///
    /// # Errors
    /// What was found and expected.
    pub(crate) fn decode(json: &Json, changes_settings: bool) -> Result<Self, FeatureError> {
        let decoded = serde_path_to_error::deserialize(json);
        let feature: Self = decoded.map_err(|e| FeatureError::Decode {
            path: e.path().to_string(),
            found: e.into_inner().to_string(),
        })?;
        feature.filled(&|name| ["name", "access_log"].contains(&name).then(String::new))?;
        if feature.services.len() > SERVICES_MAX {
            return Err(FeatureError::TooManyServices(feature.services.len()));
        }
        let taken = feature.clusters.iter().filter_map(|c| c["name"].as_str());
        let mut names: BTreeSet<&str> = taken.chain(["application"]).collect();
        for name in &feature.services {
            let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || name.len() > SERVICE_CHARS_MAX || !name.chars().all(allowed) {
                return Err(FeatureError::ServiceName(name.clone()));
            }
            if !names.insert(name) {
                return Err(FeatureError::ServiceTwice(name.clone()));
            }
        }
        let adds = changes_settings || !feature.is_nothing();
        if adds && feature.proofs.is_empty() {
            return Err(FeatureError::NoProofs);
        }
        Ok(feature)
    }

    /// The claim of the proof that the feature of this mesh is on.
    #[must_use]
    pub fn claim_on(mesh: &str) -> String {
        format!("the feature of {mesh} is on")
    }

    /// The claim of the proof that the feature of this mesh is off.
    #[must_use]
    pub fn claim_off(mesh: &str) -> String {
        format!("the feature of {mesh} is off")
    }
}

impl CounterProof {
    /// Whether a counter has this name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let mut parts = self.name.split('*');
        let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or("")) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            let Some(at) = rest.find(part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

/// A repetition in a list (`item`) or in a map (`key` and `value`).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Repeat {
    count: u64,
    #[serde(default)]
    item: Json,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    value: Json,
}

impl Repeat {
    fn read(json: &Json, in_map: bool) -> Result<Self, FeatureError> {
        let repeat = Self::deserialize(json).map_err(|e| FeatureError::Repeat(e.to_string()))?;
        if !(1..=REPEAT_MAX).contains(&repeat.count) {
            return Err(FeatureError::RepeatCount(repeat.count));
        }
        let complete = match in_map {
            true => repeat.key.is_some() && !repeat.value.is_null() && repeat.item.is_null(),
            false => repeat.key.is_none() && repeat.value.is_null() && !repeat.item.is_null(),
        };
        let expected = if in_map {
            "`count`, `key` and `value`"
        } else {
            "`count` and `item`"
        };
        match complete {
            true => Ok(repeat),
            false => Err(FeatureError::RepeatKeys(expected)),
        }
    }

    /// Calls `each` with the templates of every repetition.
    fn each(
        &self,
        fill: &Fill<'_>,
        mut each: impl FnMut(&Fill<'_>) -> Result<(), FeatureError>,
    ) -> Result<(), FeatureError> {
        // Leading zeros make the order of texts that of the numbers.
        let width = (self.count - 1).to_string().len();
        (0..self.count).try_for_each(|i| {
            each(&|name: &str| match name {
                "i" => Some(format!("{i:0width$}")),
                other => fill(other),
            })
        })
    }
}

fn filled(json: &Json, fill: &Fill<'_>) -> Result<Json, FeatureError> {
    Ok(match json {
        Json::String(text) => Json::String(string(text, fill)?),
        Json::Array(items) => Json::Array(list(items, fill)?),
        Json::Object(entries) => Json::Object(map(entries, fill)?),
        other => other.clone(),
    })
}

fn list(items: &[Json], fill: &Fill<'_>) -> Result<Vec<Json>, FeatureError> {
    let mut all = Vec::new();
    for item in items {
        match item.get("repeat") {
            Some(repeat) if item.as_object().is_some_and(|map| map.len() == 1) => {
                let repeat = Repeat::read(repeat, false)?;
                repeat.each(fill, |fill| {
                    all.push(filled(&repeat.item, fill)?);
                    Ok(())
                })?;
            }
            _ => all.push(filled(item, fill)?),
        }
    }
    Ok(all)
}

fn map(entries: &Map<String, Json>, fill: &Fill<'_>) -> Result<Map<String, Json>, FeatureError> {
    let mut all = Map::new();
    for (key, value) in entries {
        if key == "repeat" {
            let repeat = Repeat::read(value, true)?;
            let key = repeat.key.as_deref().unwrap_or_default();
            repeat.each(fill, |fill| {
                all.insert(string(key, fill)?, filled(&repeat.value, fill)?);
                Ok(())
            })?;
        } else {
            all.insert(key.clone(), filled(value, fill)?);
        }
    }
    Ok(all)
}

/// Replaces the templates of a text: `{` and `}` around lower-case letters and underscores.
fn string(text: &str, fill: &Fill<'_>) -> Result<String, FeatureError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open + 1..];
        let name = rest.split('}').next().filter(|name| {
            let letters = |b: u8| b.is_ascii_lowercase() || b == b'_';
            name.len() < rest.len() && !name.is_empty() && name.bytes().all(letters)
        });
        let Some(name) = name else {
            out.push('{');
            continue;
        };
        let value = fill(name);
        out.push_str(&value.ok_or_else(|| FeatureError::Template(name.to_owned()))?);
        rest = &rest[name.len() + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(name: &str) -> Option<String> {
        (name == "name").then(|| "shop-0/front".to_owned())
    }

    fn decode(json: &Json) -> Result<Feature, FeatureError> {
        Feature::decode(json, false)
    }

    fn gauge() -> Json {
        json!([{"gauge": {"name": "server.concurrency", "is": 2}}])
    }

    #[test]
    fn repetitions_and_templates_are_replaced() {
        let feature = decode(&json!({
            "inbound": {"filters": [{
                "name": "rbac",
                "policies": {
                    "repeat": {"count": 11, "key": "rule-{i}", "value": {"path": "/{i}/"}},
                    "last": {"who": "{name}", "pattern": "a{2}{"},
                },
            }]},
            "listeners": {"routes": [{"repeat": {"count": 2, "item": "r{i}"}}, "end"]},
            "proofs": gauge(),
        }))
        .unwrap();
        let filled = feature.filled(&fill).unwrap();
        let policies = &filled.inbound.filters[0]["policies"];
        assert_eq!(policies.as_object().unwrap().len(), 12);
        assert_eq!(policies["rule-00"]["path"], "/00/");
        assert_eq!(policies["rule-10"]["path"], "/10/");
        let last = json!({"who": "shop-0/front", "pattern": "a{2}{"});
        assert_eq!(policies["last"], last);
        assert_eq!(filled.listeners.routes, ["r0", "r1", "end"]);
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            (
                json!({"inbound": {"filtres": []}}),
                "unknown field `filtres`",
            ),
            (
                json!({"cluster": {"name": "{pod}"}, "proofs": gauge()}),
                "in `cluster`: unknown template `{pod}`, expected {name}",
            ),
            (
                json!({"clusters": ["{i}"], "proofs": gauge()}),
                "unknown template `{i}`",
            ),
            (
                json!({"clusters": [{"repeat": {"count": 0, "item": 1}}]}),
                "`repeat` with the count 0, expected 1 to 10000",
            ),
            (
                json!({"clusters": [{"repeat": {"count": 2, "key": "x", "value": 1}}]}),
                "`repeat` here needs `count` and `item`",
            ),
            (
                json!({"cluster": {"repeat": {"count": 2, "item": 1}}}),
                "`repeat` here needs `count`, `key` and `value`",
            ),
            (json!({"cluster": {"a": 1}}), "no `proofs`"),
            (
                json!({"proofs": [{"counter": {"name": "x", "grows": "often"}}]}),
                "unknown variant `often`",
            ),
            (
                json!({"services": vec!["s"; 9], "proofs": gauge()}),
                "9 services, expected at most 8",
            ),
        ];
        for (json, expected) in cases {
            let found = decode(&json).unwrap_err().to_string();
            assert!(found.contains(expected), "{expected:?} is not in {found:?}");
        }
        assert!(decode(&json!({})).unwrap().is_nothing());
        assert!(Feature::decode(&json!({}), true).is_err(), "no proof");
    }

    #[test]
    fn a_star_matches_any_characters() {
        let matches = |pattern: &str, name: &str| {
            let name_of = pattern.to_owned();
            let grows = Growth::Once;
            let proof = CounterProof {
                name: name_of,
                grows,
            };
            proof.matches(name)
        };
        assert!(matches("a.b", "a.b") && !matches("a.b", "a.bc") && !matches("a.b", "xa.b"));
        assert!(matches(
            "listener.*.ssl.handshake",
            "listener.127.0.0.1_1.ssl.handshake"
        ));
        assert!(!matches("a*b*c", "acb") && matches("a*b*c", "abbc") && matches("a*", "a"));
        assert!(!matches("ab*b", "ab"), "parts do not overlap");
    }
}
