//! Latencies of the calls between services, by the clocks of both sides.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tare_plan::graph::ServiceGraph;
use tare_plan::limits::check_window;
use tare_plan::load::WarmParts;
use tare_stats::wire::HistogramWire;

/// The window in which services time their calls, without its warm parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallWindow {
    /// When it starts.
    pub start_unix_ns: u64,
    /// Its length.
    pub window_ns: u64,
    /// Parts of it whose calls do not count.
    pub warm: WarmParts,
}

/// Path at which a service starts to time its calls: `?start_unix_ns=...&window_ns=...`, and for a window with warm parts
/// `&warm_every_ns=...&warm_length_ns=...`. It answers 409 if the window has already started.
pub const WINDOW_PATH: &str = "/tare/window";
/// Path at which a service answers with its [`ServiceCalls`]; 404 without a window.
pub const CALLS_PATH: &str = "/tare/calls";
/// Path at which a service of a feature, such as an authorizer, answers with the number of calls
/// that it has answered.
pub const ANSWERED_PATH: &str = "/tare/answered";

/// `calls.json` of a trial: the calls that the services made and received in the measured window,
/// merged over the instances. It has the calls of every service, or does not exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialCalls {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Start of the measured window.
    pub window_start_unix_ns: u64,
    /// Length of the measured window.
    pub window_ns: u64,
    /// Every service of the graph but the real datastores, in its order.
    pub services: Vec<ServiceCalls>,
}

impl TrialCalls {
    /// Checks that the calls are those of the services of `graph`, each endpoint once, and that the window
    /// has room for their number: the file may have been changed.
    ///
    /// # Errors
    /// What was found and expected, as a fragment of a sentence.
    pub fn check(&self, graph: &ServiceGraph) -> Result<(), String> {
        check_window(self.window_start_unix_ns, self.window_ns, false)?;
        let found: Vec<&str> = self.services.iter().map(|s| s.service.as_str()).collect();
        // Real datastores do not time their calls.
        let timing = graph.services.iter().filter(|s| s.store.is_none());
        let expected: Vec<&str> = timing.map(|s| s.name.as_str()).collect();
        if found != expected {
            return Err(format!(
                "found the services {}, expected {}",
                found.join(", "),
                expected.join(", ")
            ));
        }
        let callees = |s: &ServiceCalls| graph.callees(&s.service);
        self.services
            .iter()
            .try_for_each(|s| s.check(&callees(s), self.window_ns))
    }
}

impl ServiceCalls {
    fn check(&self, callees: &[&str], window_ns: u64) -> Result<(), String> {
        let incoming = (&self.incoming, &[self.service.as_str()][..]);
        for (calls, services) in [incoming, (&self.outgoing, callees)] {
            let mut seen = BTreeSet::new();
            let mut count = 0_u64;
            for call in calls {
                let (service, endpoint) = (call.service.as_str(), call.endpoint.as_str());
                if !services.contains(&service) {
                    return Err(format!(
                        "found calls to {service} in {}, expected calls to {}",
                        self.service,
                        services.join(", ")
                    ));
                }
                if !seen.insert((service, endpoint)) {
                    return Err(format!(
                        "found {endpoint} of {service} twice in {}, expected it once",
                        self.service
                    ));
                }
                count = count.saturating_add(call.latency.count);
            }
            // So that no sum of counts exceeds 64 bits.
            if count > window_ns {
                return Err(format!(
                    "found {count} calls of {} in {window_ns} ns, expected at most one in each",
                    self.service
                ));
            }
        }
        Ok(())
    }
}

/// The calls of one service that succeeded. A call belongs to the window in which it started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceCalls {
    /// Name of the service.
    pub service: String,
    /// The callee's view of the calls that it received: from the head of the request until the
    /// connection has taken the whole response for writing.
    pub incoming: Vec<CallLatency>,
    /// The caller's view of the calls that it made: from before the request is written to the
    /// complete response.
    pub outgoing: Vec<CallLatency>,
}

/// The calls of one endpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallLatency {
    /// The called service.
    pub service: String,
    /// The called endpoint: the path with HTTP, the method with gRPC.
    pub endpoint: String,
    /// Latencies.
    pub latency: HistogramWire,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(service: &str, endpoint: &str) -> CallLatency {
        let latency = serde_json::json!({
            "count": 5, "min_ns": 1, "max_ns": 9, "sum_ns": "25", "clamped": 0, "v2": ""
        });
        CallLatency {
            service: service.to_owned(),
            endpoint: endpoint.to_owned(),
            latency: serde_json::from_value(latency).unwrap(),
        }
    }

    #[test]
    fn calls_must_be_those_of_the_graph() {
        let graph = tare_plan::graph::builtin("chain-2").unwrap();
        let service = |name: &str, incoming, outgoing| ServiceCalls {
            service: name.to_owned(),
            incoming,
            outgoing,
        };
        let good = TrialCalls {
            schema_version: tare_plan::SCHEMA_VERSION,
            window_start_unix_ns: 1,
            window_ns: 1_000_000_000,
            services: vec![
                service("s1", vec![calls("s1", "/")], vec![calls("s2", "/")]),
                service("s2", vec![calls("s2", "/")], vec![]),
            ],
        };
        assert_eq!(good.check(&graph), Ok(()));
        // A real datastore does not time its calls.
        let mut real = graph.clone();
        real.services[1].store = Some(tare_plan::graph::Store::Valkey);
        let error = good.check(&real).unwrap_err();
        assert_eq!(error, "found the services s1, s2, expected s1");
        let without = TrialCalls {
            services: good.services[..1].to_vec(),
            ..good.clone()
        };
        assert_eq!(without.check(&real), Ok(()));
        let bad = |change: fn(&mut TrialCalls)| {
            let mut calls = good.clone();
            change(&mut calls);
            calls.check(&graph).unwrap_err()
        };
        assert_eq!(
            bad(|c| c.services.truncate(1)),
            "found the services s1, expected s1, s2"
        );
        assert_eq!(
            bad(|c| c.services[1].incoming[0].service = "s1".into()),
            "found calls to s1 in s2, expected calls to s2"
        );
        assert_eq!(
            bad(|c| c.services[0].outgoing.push(calls("s2", "/"))),
            "found / of s2 twice in s1, expected it once"
        );
        assert_eq!(
            bad(|c| c.services[0].outgoing[0].latency.count = u64::MAX),
            format!(
                "found {} calls of s1 in 1000000000 ns, expected at most one in each",
                u64::MAX
            )
        );
        assert_eq!(
            bad(|c| c.window_ns = 0),
            "found 5 calls of s1 in 0 ns, expected at most one in each"
        );
        assert!(bad(|c| c.window_ns = u64::MAX).starts_with("found a window of"));
    }
}
