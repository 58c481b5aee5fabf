//! Features: the gRPC services that they call, and the proofs that a feature is on in its own trials and
//! off in those of the baseline.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use futures_util::future::{join_all, try_join_all};
use tare_plan::Plan;
use tare_plan::mesh::{CounterProof, Feature, FeatureProof, Growth, Mesh, RequestProof};
use tare_records::calls::ANSWERED_PATH;
use tare_records::trial::Proof;

use super::topology::{APPLICATION_PORT, Pod, Topology};
use crate::envoy::admin;
use crate::envoy::admin::Stats;
use crate::envoy::config::{INBOUND, OUTBOUND};
use crate::envoy::feature::ProxyFeature;
use tare_run::environment::{EnvironmentError, proof};
use tare_run::http as probe;
use tare_run::http::ProbeError;

/// Third octet of the addresses of services; no pod has it.
const SERVICES_OCTET: u8 = 254;

/// What the sidecars counted, by pod, and each service of the feature.
type Counted = (Vec<Stats>, Vec<u64>);

/// The features that a trial proves to be on or off.
#[derive(Debug)]
pub(super) struct FeatureChecks {
    /// Names of meshes and their features: the one that is on, or all that are off.
    features: Vec<(String, Feature)>,
    /// The mesh of the trial has the feature.
    is_on: bool,
    /// The services of the feature that is on.
    pub(super) services: Vec<(String, SocketAddrV4)>,
    /// What the sidecars and the services counted before the load.
    before: Result<Counted, String>,
    /// For each feature that is off, what its requests were answered with, and whether that shows it.
    answers: Vec<(Vec<String>, bool)>,
}

impl FeatureChecks {
    /// The checks of a trial: of the feature of its mesh or, in the reference and in a mesh whose feature
    /// changes nothing, of all features of the plan.
    pub(super) fn new(plan: &Plan, mesh: &Mesh, [first, second]: [u8; 2]) -> Self {
        let own = mesh.feature.as_deref().filter(|f| !f.is_nothing());
        let features = match own {
            Some(feature) => vec![(mesh.name.clone(), feature.clone())],
            None if mesh.name == plan.baseline || mesh.feature.is_some() => {
                let of = |m: &Mesh| Some((m.name.clone(), m.feature.as_deref()?.clone()));
                let all = plan.meshes.iter().filter_map(of);
                all.filter(|(_, feature)| !feature.is_nothing()).collect()
            }
            None => Vec::new(),
        };
        let names = own.map_or(&[][..], |feature| &feature.services);
        let services = names.iter().zip(1..).map(|(name, last)| {
            let ip = Ipv4Addr::new(first, second, SERVICES_OCTET, last);
            (name.clone(), SocketAddrV4::new(ip, APPLICATION_PORT))
        });
        Self {
            features,
            is_on: own.is_some(),
            services: services.collect(),
            before: Err("nothing was read".to_owned()),
            answers: Vec::new(),
        }
    }

    /// The feature that is on, for one sidecar.
    ///
    /// # Errors
    /// An invalid template, which the plan has excluded.
    pub(super) fn of_proxy(
        &self,
        pod: &Pod,
        access_log: &Path,
    ) -> Result<Option<ProxyFeature>, EnvironmentError> {
        let Some((mesh, feature)) = self.features.first().filter(|_| self.is_on) else {
            return Ok(None);
        };
        let parts = feature.filled(&|template| match template {
            "name" => Some(pod.name.clone()),
            "access_log" => Some(access_log.display().to_string()),
            _ => None,
        });
        let parts = parts.map_err(|e| EnvironmentError::start(mesh, e))?;
        let services = self.services.clone();
        Ok(Some(ProxyFeature { parts, services }))
    }

    /// Sends the requests of the features, then reads the counters before the load.
    pub(super) async fn before(
        &mut self,
        topology: &Topology,
        admins: &[(usize, PathBuf)],
    ) -> Vec<Proof> {
        let mut proofs = Vec::new();
        for (mesh, feature) in &self.features {
            let (mut seen, mut any_other) = (Vec::new(), false);
            let requests = feature.proofs.iter().filter_map(|p| match p {
                FeatureProof::Request(request) => Some(request),
                _ => None,
            });
            for request in requests {
                let answers = answers(topology, request).await;
                let as_expected = !answers.is_empty()
                    && answers
                        .iter()
                        .all(|a| a.as_ref().is_ok_and(|status| *status == request.status));
                let found = words(&answers);
                if self.is_on {
                    let claim = format!(
                        "{}: GET {} is answered with {}",
                        Feature::claim_on(mesh),
                        with_headers(request),
                        request.status
                    );
                    proofs.push(proof(&claim, as_expected, found));
                } else {
                    // A request without any response shows nothing.
                    any_other |= !as_expected && answers.iter().all(Result::is_ok);
                    seen.push(format!("GET {}: {found}", with_headers(request)));
                }
            }
            let shows = seen.is_empty() || any_other;
            self.answers.push((seen, shows));
        }
        if !self.features.is_empty() {
            self.before = self.counted(admins).await.map_err(|e| e.to_string());
        }
        proofs
    }

    /// Checks what the sidecars counted since [`Self::before`].
    pub(super) async fn after(&self, admins: &[(usize, PathBuf)]) -> Vec<Proof> {
        if self.features.is_empty() {
            return Vec::new();
        }
        let (before, calls_before) = match &self.before {
            Ok(before) => before,
            Err(error) => return vec![unread(&format!("before the load: {error}"))],
        };
        let (now, calls) = match self.counted(admins).await {
            Ok(now) => now,
            Err(error) => return vec![unread(&format!("after the load: {error}"))],
        };
        if !self.is_on {
            let features = self.features.iter().zip(&self.answers);
            return features
                .map(|((mesh, feature), answers)| is_off(mesh, feature, &now, answers))
                .collect();
        }
        let mut proofs = Vec::new();
        for (mesh, feature) in &self.features {
            for wanted in &feature.proofs {
                let Some((what, holds, seen)) = check(wanted, before, &now) else {
                    continue;
                };
                let claim = format!("{}: {what}", Feature::claim_on(mesh));
                proofs.push(proof(&claim, holds, seen));
            }
            let counts = calls_before.iter().zip(&calls);
            for ((name, _), (before, now)) in self.services.iter().zip(counts) {
                let claim = format!("{}: the service {name} is called", Feature::claim_on(mesh));
                let grown = now.saturating_sub(*before);
                proofs.push(proof(&claim, grown > 0, format!("{grown} calls")));
            }
        }
        proofs
    }

    async fn counted(&self, admins: &[(usize, PathBuf)]) -> Result<Counted, ProbeError> {
        let stats = admins.iter().map(|(_, socket)| admin::stats(socket));
        let calls = self.services.iter().map(|(_, at)| calls(*at));
        Ok((try_join_all(stats).await?, try_join_all(calls).await?))
    }
}

fn unread(found: &str) -> Proof {
    let claim = "the counters of the features can be read";
    proof(claim, false, found.to_owned())
}

/// Returns the number of calls that a service of a feature has answered.
///
/// # Errors
/// When the request fails.
pub(super) async fn calls(at: SocketAddrV4) -> Result<u64, ProbeError> {
    let http = tare_plan::graph::ServiceProtocol::Http;
    let response = probe::get_at(at, http, None, "service", ANSWERED_PATH).await?;
    let text = response.text();
    let unexpected =
        |_| ProbeError::Answer(format!("unexpected response of {ANSWERED_PATH}: {text}"));
    text.parse().map_err(unexpected)
}

/// The statuses of one request to the inbound port of each service.
async fn answers(topology: &Topology, request: &RequestProof) -> Vec<Result<u16, ProbeError>> {
    let asks = topology.services().map(async |(pod, service)| {
        let (protocol, authority) = (service.protocol, service.authority());
        let RequestProof { headers, path, .. } = request;
        let message = probe::Message {
            headers,
            ..probe::Message::get(path)
        };
        let response = probe::send_at(pod.inbound(), protocol, None, &authority, message).await;
        response.map(|r| r.status)
    });
    join_all(asks).await
}

/// `403, 403`, each status or error once for each service.
fn words(answers: &[Result<u16, ProbeError>]) -> String {
    let word = |answer: &Result<u16, ProbeError>| match answer {
        Ok(status) => format!("{status}"),
        Err(error) => error.to_string(),
    };
    answers.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The path, and the ends of each header: the claims of a token are between them.
fn with_headers(request: &RequestProof) -> String {
    let header = |(name, value): (&String, &String)| {
        let chars: Vec<char> = value.chars().collect();
        let short = match chars.len() > 2 * HEADER_CHARS {
            true => {
                let end = &chars[chars.len() - HEADER_CHARS..];
                let parts = [&chars[..HEADER_CHARS], &['.', '.', '.'], end];
                parts.concat().into_iter().collect()
            }
            false => value.clone(),
        };
        format!(" with {name}: {short}")
    };
    let headers: String = request.headers.iter().map(header).collect();
    format!("{}{headers}", request.path)
}

/// Number of characters at each end of a header in a claim: more than `Bearer `.
const HEADER_CHARS: usize = 12;

/// The sum of the counters that match, in one sidecar.
fn sum(counter: &CounterProof, stats: &Stats) -> u64 {
    let matching = stats.iter().filter(|(name, _)| counter.matches(name));
    matching.map(|(_, value)| value).sum()
}

/// Requests that listeners carried, in one sidecar.
fn carried(listeners: &[&str], stats: &Stats) -> u64 {
    let name = |listener: &&str| format!("http.{listener}.downstream_rq_completed");
    let counters = listeners.iter().filter_map(|l| stats.get(name(l).as_str()));
    counters.sum()
}

/// Checks a proof by counters while the feature is on: the claim, whether it holds, what was found.
/// `None` for a proof by a request.
fn check(wanted: &FeatureProof, before: &[Stats], now: &[Stats]) -> Option<(String, bool, String)> {
    let counter = match wanted {
        FeatureProof::Counter(counter) => counter,
        FeatureProof::Gauge(gauge) => {
            let values: Vec<Option<&u64>> = now.iter().map(|s| s.get(&gauge.name)).collect();
            let holds = !values.is_empty() && values.iter().all(|v| *v == Some(&gauge.is));
            let words: Vec<String> = values
                .iter()
                .map(|v| v.map_or("absent".to_owned(), u64::to_string))
                .collect();
            let claim = format!("{} is {}", gauge.name, gauge.is);
            return Some((claim, holds, words.join(", ")));
        }
        FeatureProof::Request(_) => return None,
    };
    let listeners: &[&str] = match counter.grows {
        Growth::PerInboundRequest => &[INBOUND],
        Growth::PerOutboundRequest => &[OUTBOUND],
        Growth::PerRequest => &[INBOUND, OUTBOUND],
        Growth::Some | Growth::Once => {
            let of = |all: &[Stats]| all.iter().map(|s| sum(counter, s)).sum::<u64>();
            let (value, grown) = (of(now), of(now).saturating_sub(of(before)));
            return Some(match counter.grows {
                Growth::Once => {
                    let claim = format!("{} is above 0", counter.name);
                    (claim, value > 0, value.to_string())
                }
                _ => (
                    format!("{} grows", counter.name),
                    grown > 0,
                    format!("grew by {grown}"),
                ),
            });
        }
    };
    let (mut grown, mut requests, mut each) = (0, 0, true);
    for (before, now) in before.iter().zip(now) {
        let own = sum(counter, now).saturating_sub(sum(counter, before));
        let needed = carried(listeners, now).saturating_sub(carried(listeners, before));
        each &= own >= needed;
        grown += own;
        requests += needed;
    }
    let claim = format!("{} grows with each request", counter.name);
    let seen = format!("grew by {grown} over {requests} requests");
    Some((claim, each && requests > 0, seen))
}

/// Checks that a feature is off: its counters are 0, its gauges and the responses are others.
fn is_off(mesh: &str, feature: &Feature, now: &[Stats], answers: &(Vec<String>, bool)) -> Proof {
    let (mut seen, mut holds) = answers.clone();
    for wanted in &feature.proofs {
        match wanted {
            FeatureProof::Counter(counter) => {
                let value: u64 = now.iter().map(|s| sum(counter, s)).sum();
                holds &= value == 0;
                seen.push(format!("{} is {value}", counter.name));
            }
            FeatureProof::Gauge(gauge) => {
                let values: Vec<u64> = now
                    .iter()
                    .filter_map(|s| s.get(&gauge.name))
                    .copied()
                    .collect();
                holds &= values.iter().all(|v| *v != gauge.is);
                let words: Vec<String> = values.iter().map(u64::to_string).collect();
                seen.push(format!("{} is {}", gauge.name, words.join(", ")));
            }
            FeatureProof::Request(_) => {}
        }
    }
    proof(&Feature::claim_off(mesh), holds, seen.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stats(values: &[(&str, u64)]) -> Stats {
        let named = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        named.collect()
    }

    fn counter(grows: &str) -> FeatureProof {
        serde_json::from_value(json!({"counter": {"name": "*.allowed", "grows": grows}})).unwrap()
    }

    fn holds(wanted: &FeatureProof, before: &[Stats], now: &[Stats]) -> bool {
        check(wanted, before, now).unwrap().1
    }

    #[test]
    fn a_counter_must_grow_in_each_sidecar_with_its_own_requests() {
        let rq = "http.inbound.downstream_rq_completed";
        let before = [stats(&[(rq, 5), ("a.allowed", 5)]), stats(&[(rq, 1)])];
        let now = |a, b| {
            [
                stats(&[(rq, 15), ("a.allowed", a), ("http.inbound.other", 99)]),
                stats(&[(rq, 11), ("b.allowed", b)]),
            ]
        };
        let wanted = counter("per_inbound_request");
        assert!(holds(&wanted, &before, &now(15, 10)));
        assert!(
            !holds(&wanted, &before, &now(25, 9)),
            "one sidecar lacks it"
        );
        assert!(!holds(&wanted, &before, &before), "without requests");
        assert!(!holds(
            &counter("per_outbound_request"),
            &before,
            &now(15, 10)
        ));
        assert!(holds(&counter("some"), &before, &now(6, 0)));
        assert!(!holds(&counter("some"), &before, &before));
        assert!(holds(&counter("once"), &before, &before));
    }

    #[test]
    fn a_gauge_must_have_its_value_in_each_sidecar() {
        let wanted = json!({"gauge": {"name": "server.concurrency", "is": 2}});
        let wanted = serde_json::from_value(wanted).unwrap();
        let of = |n| stats(&[("server.concurrency", n)]);
        assert!(holds(&wanted, &[], &[of(2), of(2)]));
        assert!(!holds(&wanted, &[], &[of(2), of(1)]));
        assert!(!holds(&wanted, &[], &[of(2), stats(&[])]));
    }

    #[test]
    fn a_feature_is_off_only_if_everything_shows_it() {
        let feature: Feature = serde_json::from_value(json!({"proofs": [
            {"counter": {"name": "*.allowed", "grows": "some"}},
            {"gauge": {"name": "server.concurrency", "is": 2}},
        ]}))
        .unwrap();
        let off = |values: &[(&str, u64)], shows| {
            is_off("m/x", &feature, &[stats(values)], &(Vec::new(), shows)).holds
        };
        assert!(off(&[("server.concurrency", 1), ("a.allowed", 0)], true));
        assert!(!off(&[("a.allowed", 1)], true), "a counter");
        assert!(!off(&[("server.concurrency", 2)], true), "a gauge");
        assert!(!off(&[], false), "a response");
    }

    #[test]
    fn a_long_header_is_shortened_in_its_middle() {
        let request = |value: &str| {
            let json = json!({"path": "/", "headers": {"a": value}, "status": 401});
            with_headers(&serde_json::from_value(json).unwrap())
        };
        assert_eq!(request("Bearer x.y."), "/ with a: Bearer x.y.");
        let long = format!("Bearer {}unsigned.", "x".repeat(99));
        assert_eq!(request(&long), "/ with a: Bearer xxxxx...xxxunsigned.");
    }
}
