//! Calls of an endpoint, and their order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a call")]
pub struct Call {
    /// Called service.
    pub service: String,
    /// Its endpoint's path (HTTP: a query may follow), or gRPC method name.
    pub path: String,
    /// Request body in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub request_bytes: u32,
    /// Number of repetitions, in sequence.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub times: u32,
    /// Share of the requests that make this call, 0 to 1, drawn for each request.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub share: f64,
}

pub(super) fn one() -> u32 {
    1
}

fn all() -> f64 {
    1.0
}

pub(super) fn is_zero(v: &u32) -> bool {
    *v == 0
}

pub(super) fn is_one(v: &u32) -> bool {
    *v == 1
}

fn is_all(v: &f64) -> bool {
    *v == 1.0
}

/// One step of an endpoint's calls: all calls of `parallel` concurrently; steps run in
/// sequence. A step of one call may be written as the call itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Written", into = "Written")]
pub struct Step {
    /// Concurrent calls, at least one.
    pub parallel: Vec<Call>,
}

/// A step as it is written. One flat struct instead of an untagged enum, so that an unknown key is
/// reported with its name and location.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Step", expecting = "a step of calls")]
struct Written {
    /// Concurrent calls, instead of a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parallel: Option<Vec<Call>>,
    /// Called service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service: Option<String>,
    /// Its endpoint's path (HTTP: a query may follow), or gRPC method name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Request body in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    request_bytes: u32,
    /// Number of repetitions, in sequence.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    times: u32,
    /// Share of the requests that make this call, 0 to 1, drawn for each request.
    #[serde(default = "all", skip_serializing_if = "is_all")]
    share: f64,
}

impl TryFrom<Written> for Step {
    type Error = &'static str;

    fn try_from(w: Written) -> Result<Self, Self::Error> {
        let single = !is_zero(&w.request_bytes) || !is_one(&w.times) || !is_all(&w.share);
        match (w.parallel, w.service, w.path) {
            (Some(parallel), None, None) if !single => Ok(Self { parallel }),
            (None, Some(service), Some(path)) => Ok(Self {
                parallel: vec![Call {
                    service,
                    path,
                    request_bytes: w.request_bytes,
                    times: w.times,
                    share: w.share,
                }],
            }),
            (Some(_), _, _) => {
                Err("found both `parallel` and the keys of one call, expected one of them")
            }
            (None, _, _) => Err(
                "found an incomplete call, expected `service` and `path`, or `parallel` with a list of calls",
            ),
        }
    }
}

impl From<Step> for Written {
    fn from(mut step: Step) -> Self {
        let empty = Self {
            parallel: None,
            service: None,
            path: None,
            request_bytes: 0,
            times: one(),
            share: all(),
        };
        if step.parallel.len() != 1 {
            return Self {
                parallel: Some(step.parallel),
                ..empty
            };
        }
        let call = step.parallel.remove(0);
        Self {
            service: Some(call.service),
            path: Some(call.path),
            request_bytes: call.request_bytes,
            times: call.times,
            share: call.share,
            ..empty
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(v: serde_json::Value) -> Result<Step, String> {
        serde_json::from_value(v).map_err(|e| e.to_string())
    }

    #[test]
    fn a_call_is_a_step_of_one() {
        let step = read(json!({"service": "a", "path": "/x", "times": 3})).unwrap();
        assert_eq!(step.parallel.len(), 1);
        assert_eq!(step.parallel[0].times, 3);
        assert_eq!(step.parallel[0].share, 1.0);
        assert_eq!(
            serde_json::to_value(&step).unwrap(),
            json!({"service": "a", "path": "/x", "times": 3})
        );
    }

    #[test]
    fn parallel_calls_read_and_write_the_same() {
        let written = json!({"parallel": [
            {"service": "a", "path": "/x"},
            {"service": "b", "path": "Get", "share": 0.5},
        ]});
        let step = read(written.clone()).unwrap();
        assert_eq!(step.parallel[1].share, 0.5);
        assert_eq!(serde_json::to_value(&step).unwrap(), written);
    }

    #[test]
    fn incomplete_and_ambiguous_steps_are_refused() {
        let both = json!({"parallel": [], "times": 2});
        assert!(read(both).unwrap_err().contains("found both `parallel`"));
        let none = json!({"service": "a"});
        assert!(read(none).unwrap_err().contains("`service` and `path`"));
        let typo = json!({"service": "a", "path": "/", "time": 2});
        assert!(read(typo).unwrap_err().contains("unknown field `time`"));
    }

    #[test]
    fn the_schema_includes_the_short_form() {
        let schema = serde_json::to_value(schemars::schema_for!(Step)).unwrap();
        assert!(schema["properties"]["service"].is_object(), "{schema}");
        assert!(schema["properties"]["parallel"].is_object(), "{schema}");
    }
}
